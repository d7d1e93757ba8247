"""Leave-one-out logits of all labelled instances, without training n times.

n labelled points, d features (with the bias), k classes; f = X mean, p = softmax(f), w a label's weight.
Removing label i from the optimum is approximated by one Newton step:
    f_-i,c = f_ic - w s/(1 - q s) (1[y = c] - p_ic),    q = w k/(k-1) p_ic (1 - p_ic)
with s = h_i' (prior_precision I + X' diag(q) X)^-1 h_i of class c: one matrix per class, n x n or d x d,
whichever is smaller. The factor k/(k-1) makes up for the terms between classes, which the block diagonal
omits; sigmoids have no such terms.
With many classes that is too much work, and most instances matter little to most classes. The matrix of a
class is then prior_precision I + a multiple of X' diag(mean q over classes) X, scaled to the class's total
curvature, plus a low-rank correction for the MOST_SEEN instances of largest curvature. Logits that a label
hardly moves are left unchanged.
"""

from typing import Any

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, as_columns, eye, float64
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior

LEAST = 1e-5  # lower bound of p (1 - p)
CLOSEST = 1e-6  # least 1 - q s, for an instance that alone determines a direction
MOST_WORK = 10**10  # k n d min(n, d) up to which each class has its exact matrix; above, the approximation
SEEN = 1e-3  # residual |e_y - p| below which the approximation leaves a logit unchanged
MOST_SEEN = 256  # most instances per class with their own curvature in the approximation
AT_ONCE = 2048  # instances solved for together: BLAS never frees the workspace of its largest call


def leave_one_out(posterior: Posterior) -> Float[Array, "n k"]:
    """Return the logits of each labelled instance without its own label, in the order of `posterior.data`.

    The mean must be at its optimum, as after `fit_map` or an exact update.
    """
    if posterior.data is None:
        raise EverylabelError(
            "posterior has not kept its labelled instances; make it by laplace(..., keep_data=True)"
        )
    kind = LIKELIHOODS[posterior.likelihood]
    data = posterior.data
    xp: Any = array_namespace(posterior.mean)
    features, weights = float64(data.features), data.weights
    k = posterior.mean.shape[1]
    logits = features @ posterior.mean
    probs = kind.link(logits)
    wider = k / (k - 1) if k > 1 and kind.coupled else 1.0
    counts = as_columns(kind.counts(data.labels, weights))
    curvature = counts * xp.clip(wider * probs * (1.0 - probs), LEAST, None)
    residual = counts * (kind.targets(data.labels, k) - probs)
    n, d = features.shape
    if k * n * d * min(n, d) > MOST_WORK:
        return logits - _for_many_classes(features, curvature, residual, weights, posterior.prior_precision)
    inner = features @ features.T if n <= d else None
    columns = [
        residual[:, c] * _correction(features, inner, curvature[:, c], posterior.prior_precision)
        for c in range(k)
    ]
    return logits - xp.stack(columns, axis=1)


def _correction(
    features: Float[Array, "n d"],
    inner: Float[Array, "n n"] | None,
    curvature: Float[Array, " n"],
    prior_precision: float,
) -> Float[Array, " n"]:
    """Return s/(1 - q s) of one class for each instance, as in the module docstring.

    inner : X X' if there are fewer instances than features, which makes the smaller system; else None
    """
    xp: Any = array_namespace(features)
    n, d = features.shape
    if inner is None:
        precision = prior_precision * eye(d, features) + (features.T * curvature) @ features
        own = _quadratic_form(precision, features)  # s
        return own / xp.clip(1.0 - curvature * own, CLOSEST, None)
    root = xp.sqrt(curvature)
    system = prior_precision * eye(n, features) + root[:, None] * inner * root[None, :]
    left = xp.clip(prior_precision * xp.linalg.diagonal(xp.linalg.inv(system)), CLOSEST, 1.0)  # 1 - q s
    return (1.0 - left) / xp.clip(curvature * left, 1e-300, None)


def _quadratic_form(matrix: Float[Array, "m m"], rows: Float[Array, "n m"]) -> Float[Array, " n"]:
    """Return r' inv(matrix) r of each row r."""
    xp: Any = array_namespace(rows)
    parts = [rows[at : at + AT_ONCE, :] for at in range(0, rows.shape[0], AT_ONCE)]
    return xp.concat([xp.sum(part * xp.linalg.solve(matrix, part.T).T, axis=1) for part in parts])


def _for_many_classes(
    features: Float[Array, "n d"],
    curvature: Float[Array, "n k"],
    residual: Float[Array, "n k"],
    weights: Float[Array, " n"],
    prior_precision: float,
) -> Float[Array, "n k"]:
    """Return the change of each logit due to its own label, by the approximation for many classes."""
    xp: Any = array_namespace(features)
    k = residual.shape[1]
    common = xp.mean(curvature, axis=1)
    spread, turn = xp.linalg.eigh((features.T * common) @ features)
    rows = features @ turn
    moved = xp.zeros_like(residual)
    for c in range(k):
        asked = xp.nonzero(xp.abs(residual[:, c]) > SEEN * weights)[0]
        if not asked.shape[0]:
            continue
        order = xp.argsort(curvature[:, c], descending=True)
        most, rest = order[:MOST_SEEN], order[MOST_SEEN:]
        left = float(xp.sum(xp.take(common, rest)))
        share = float(xp.sum(xp.take(curvature[:, c], rest))) / max(left, 1e-300)
        known = share * common  # q of the shared part
        known[most] = xp.maximum(curvature[most, c], known[most])
        base = 1.0 / (prior_precision + share * xp.clip(spread, 0.0, None))
        root = xp.sqrt(xp.take(known - share * common, most))[:, None]
        seen, ask = xp.take(rows, most, axis=0), xp.take(rows, asked, axis=0)
        half = (root * seen * base) @ ask.T
        system = eye(most.shape[0], features) + (root * seen * base) @ (root * seen).T
        own = xp.sum(ask * base * ask, axis=1) - _quadratic_form(system, half.T)  # s
        without = own / xp.clip(1.0 - xp.take(known, asked) * own, CLOSEST, None)
        moved[asked, c] = xp.take(residual[:, c], asked) * without
    return moved
