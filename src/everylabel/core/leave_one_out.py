"""What the model would say of each labelled instance had it not seen its label, without training n times.

n labelled points, d features (with the bias), k classes; f = H mean, p = softmax(f), m a label's weight.
At the optimum the label of i holds its own class up by m (e_y - p). Without it, one Newton step away,
    f_-i,c = f_ic - m s/(1 - w s) (1[y = c] - p_ic),    w = m k/(k-1) p_ic (1 - p_ic)
with s = h_i' (prior_precision I + H' diag(w) H)^-1 h_i of class c: one matrix a class, n x n or d x d, what
is smaller. The factor k/(k-1) makes up for the terms between classes, which the block diagonal leaves out.
"""

from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Float

from everylabel.core.arrays import Array, eye, float64
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior

LEAST = 1e-5  # curvature of an instance of which the model is sure
CLOSEST = 1e-6  # least of 1 - w s: an instance that holds a direction alone


def leave_one_out(posterior: Posterior) -> Float[Array, "n k"]:
    """Return the logits of each labelled instance without its own label, in the order of `posterior.data`.

    The mean must be at its optimum, as `fit_map` or an exact update leave it.
    """
    if posterior.data is None:
        raise EverylabelError(
            "posterior has not kept its labelled instances; make it by laplace(..., keep_data=True)"
        )
    kind = LIKELIHOODS[posterior.likelihood]
    data = posterior.data.counted(kind.targets)
    xp: Any = array_namespace(posterior.mean)
    features, weights = float64(data.features), data.weights
    k = posterior.mean.shape[1]
    logits = features @ posterior.mean
    probs = kind.link(logits)
    wider = k / (k - 1) if k > 1 else 1.0
    curvature = weights[:, None] * xp.clip(wider * probs * (1.0 - probs), LEAST, None)
    held = weights[:, None] * (kind.targets(data.labels, k) - probs)
    inner = features @ features.T if features.shape[0] <= features.shape[1] else None
    columns = [
        held[:, c] * _without(features, inner, curvature[:, c], posterior.prior_precision) for c in range(k)
    ]
    return logits - xp.stack(columns, axis=1)


def _without(
    features: Float[Array, "n d"],
    inner: Float[Array, "n n"] | None,
    curvature: Float[Array, " n"],
    prior_precision: float,
) -> Float[Array, " n"]:
    """Return s/(1 - w s) of one class."""
    xp: Any = array_namespace(features)
    n, d = features.shape
    if inner is None:
        precision = prior_precision * eye(d, features) + (features.T * curvature) @ features
        own = xp.sum(features * xp.linalg.solve(precision, features.T).T, axis=1)  # s
        return own / xp.clip(1.0 - curvature * own, CLOSEST, None)
    root = xp.sqrt(curvature)
    system = prior_precision * eye(n, features) + root[:, None] * inner * root[None, :]
    left = xp.clip(prior_precision * xp.linalg.diagonal(xp.linalg.inv(system)), CLOSEST, 1.0)  # 1 - w s
    return (1.0 - left) / xp.clip(curvature * left, 1e-300, None)
