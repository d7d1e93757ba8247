"""First-order update: one gradient step on the new labels (App. A.2, Eq. 15).

    mu_upd = mu - step_size sum_x w_x h_x (p_x - e_y)'
The covariance is conditioned on the new instances, as the paper recommends where uncertainty matters;
`covariance=False` leaves it unchanged, and a label then costs O(d k).
"""

from everylabel.core.arrays import array_namespace, as_columns
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances, condition_many
from everylabel.core.posterior import Labelled, Posterior

DEFAULT_STEP = 0.001  # App. B: "gamma = 0.001 generates the highest accuracy for CIFAR-10"


def first_order(
    posterior: Posterior, new: Labelled, step_size: float, joint: bool, covariance: bool = True
) -> Posterior:
    """Return the posterior after gradient steps, label by label or (`joint`) one for all."""
    features, labels, n = new.features, new.labels, new.labels.shape[0]
    kind = LIKELIHOODS[posterior.likelihood]
    weights = kind.counts(labels, new.weights)
    targets = kind.targets(labels, posterior.mean.shape[1])
    mean, probs = posterior.mean, []
    for rows in [slice(0, n)] if joint else [slice(i, i + 1) for i in range(n)]:
        residual = as_columns(weights[rows, ...]) * (kind.link(features[rows, :] @ mean) - targets[rows, :])
        mean = mean - step_size * (features[rows, :].T @ residual)
        if covariance:
            probs.append(kind.link(features[rows, :] @ mean))  # each label's curvature after its own step
    if not covariance:
        return posterior.replace(mean=mean)
    at = Instances(features, array_namespace(mean).concat(probs), weights)
    return condition_many(kind, posterior.replace(mean=mean), at, 1)
