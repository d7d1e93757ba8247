"""Learn that an instance is not of some classes, by one round of EM (`core/candidates.py`).

b instances, d features, k classes; t (b, k) their soft targets at the old mean.
    mean_upd = argmin J with t among the labels, or mean - step_size H^-1 sum_x h_x (p_x - t_x)'      Eq. 5
    Sigma stays
The curvature of this likelihood can be negative, and is about 0 if one class of many is ruled out, so nothing
is added to the precision. The variance of the instance stays, so that it can be chosen again.
"""

from typing import Any

from array_api_compat import device
from jaxtyping import Bool, Float

from everylabel.core.arrays import Array, array_namespace
from everylabel.core.candidates import shares as shares_at
from everylabel.core.checks import check_features
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances
from everylabel.core.posterior import PARTIAL, Labelled, Posterior
from everylabel.core.updates.exact import move, retrain


def expected_shares(
    posterior: Posterior, features: Float[Array, "b d"], candidates: Bool[Array, "b k"]
) -> Float[Array, "b k"]:
    """Return the probability of each class, given that the true class is one of the candidates."""
    if posterior.likelihood == "binary":
        raise EverylabelError("posterior has likelihood 'binary', which has two classes only; give the label")
    return shares_at(check_features(features, posterior.mean, posterior.bias) @ posterior.mean, candidates)


def learn_shares(
    posterior: Posterior,
    features: Float[Array, "b d"],
    shares: Float[Array, "b k"],
    method: str | None,
    step_size: float,
) -> Posterior:
    """Return the posterior after soft labels, by retraining (method="exact") or by one step."""
    new = _rows(posterior, features)
    if method == "exact":
        return move(posterior, new, shares)[0]
    residual = step_size * soft_residuals(posterior, features, shares)
    if method == "first_order":
        moved = posterior.replace(mean=posterior.mean - new.features.T @ residual)
    else:
        moved = undo_step(posterior, features, -residual)
    return note_shares(moved, features, shares)


def soft_residuals(posterior: Posterior, features: Float[Array, "b d"], shares: Float[Array, "b k"]) -> Any:
    """Return the residuals p - t (b, k) at the mean."""
    design = check_features(features, posterior.mean, posterior.bias)
    return LIKELIHOODS[posterior.likelihood].link(design @ posterior.mean) - shares


def undo_step(
    posterior: Posterior, features: Float[Array, "b d"], residual: Float[Array, "b k"]
) -> Posterior:
    """Return the posterior with mean + H^-1 sum_x h_x residual_x', H as in Eq. 5."""
    kind, rows = LIKELIHOODS[posterior.likelihood], _rows(posterior, features)
    at = Instances(rows.features, kind.link(rows.features @ posterior.mean), rows.weights)
    change = kind.direction(posterior, kind.project(posterior, at), residual)
    return posterior.replace(mean=posterior.mean + change)


def note_shares(
    posterior: Posterior,
    features: Float[Array, "b d"],
    shares: Float[Array, "b k"],
    weights: Float[Array, " b"] | None = None,
) -> Posterior:
    """Return the posterior with soft labels added to its data; it was already trained with them."""
    if posterior.data is None:
        return posterior
    new = _rows(posterior, features)
    if weights is not None:
        new = new._replace(weights=weights)
    return posterior.replace(data=posterior.data.append(new, lambda labels, k: shares))


def forget_shares(
    posterior: Posterior, features: Float[Array, "b d"], shares: Float[Array, "b k"]
) -> Posterior:
    """Return the posterior retrained without these soft labels; a step back if it has not kept its data."""
    if posterior.data is None:
        return undo_step(posterior, features, soft_residuals(posterior, features, shares))
    gone = _rows(posterior, features)
    return retrain(posterior, posterior.data.take_back(gone, lambda labels, k: shares))


def _rows(posterior: Posterior, features: Float[Array, "b d"]) -> Labelled:
    design = check_features(features, posterior.mean, posterior.bias)
    xp: Any = array_namespace(design)
    n, where = design.shape[0], device(design)
    labels = xp.full(n, PARTIAL, dtype=xp.int64, device=where)
    return Labelled(design, labels, xp.ones(n, dtype=xp.float64, device=where))
