"""First-order update: one gradient step on the new labels (App. A.2, Eq. 12).

    mu_upd = mu - step_size sum_x w_x h_x (p_x - e_y)'
The covariance is conditioned on the new instances at the end, as the paper asks where
uncertainties are of interest.
"""

from jaxtyping import Float, Int

from everylabel.core.arrays import Array
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior

DEFAULT_STEP = 0.001  # App. B: "gamma = 0.001 generates the highest accuracy for CIFAR-10"


def first_order(
    posterior: Posterior,
    features: Float[Array, "b d"],
    labels: Int[Array, " b"],
    weights: Float[Array, " b"],
    step_size: float,
    joint: bool,
) -> Posterior:
    """Return the posterior after gradient steps, label by label or (`joint`) one for all."""
    n = labels.shape[0]
    kind = LIKELIHOODS[posterior.likelihood]
    targets = kind.targets(labels, posterior.mean.shape[1])
    mean = posterior.mean
    for rows in [slice(0, n)] if joint else [slice(i, i + 1) for i in range(n)]:
        residual = weights[rows, None] * (kind.link(features[rows, :] @ mean) - targets[rows, :])
        mean = mean - step_size * (features[rows, :].T @ residual)
    posterior = posterior.replace(mean=mean)
    seen = kind.project(posterior, features)
    return kind.condition(posterior, seen, kind.link(features @ mean), weights, 1)
