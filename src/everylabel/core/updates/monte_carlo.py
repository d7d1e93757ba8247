"""Monte Carlo update: reweight posterior samples by the likelihood of the new labels (App. A.1).

m members, n new points, k classes.
    log q(w_m | D+, D) = log q(w_m | D) + gamma sum_x log p(y | x, w_m) + const       Eqs. 9, 10, 13
All in log space, so that many labels do not underflow. `Samples` holds last-layer weights drawn from a
posterior. For a deep ensemble or MC-dropout, `reweight` and `mix` do the same from the members' logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from everylabel.core.arrays import (
    CHUNK,
    Array,
    array_namespace,
    as_array,
    float64,
    from_numpy,
    is_real,
    log_softmax,
    namespace,
    softmax,
    zeros,
)
from everylabel.core.checks import (
    check_count,
    check_features,
    check_labels,
    check_positive,
    check_posterior,
    check_rng,
    check_weights,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior

DEFAULT_STEP = 0.01  # App. B: 0.01 for text; the paper has 0.005 for images
ROWS = 256  # instances predicted for at once


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Samples:
    """Weights drawn from a posterior, each with a log weight; an immutable value.

    members (m, d, k) in float32, log_weights (m,) in float64, normalised.

    Examples
    --------
    >>> members = el.sample(post, 100, rng)
    >>> members.members.shape, members.log_weights.shape
    ((100, 65, 10), (100,))
    """

    members: Array
    log_weights: Array
    likelihood: str
    bias: bool

    @property
    def n_classes(self) -> int:
        return 2 if self.likelihood == "binary" else int(self.members.shape[2])

    def __repr__(self) -> str:
        return f"Samples(n={self.members.shape[0]}, n_classes={self.n_classes})"


def sample(posterior: Posterior, n: int = 10_000, rng: np.random.Generator | None = None) -> Samples:
    """Draw n members from the posterior, all equally likely (Eq. 8); the paper draws 10,000.

    Examples
    --------
    >>> members = el.sample(post, 500, rng)
    >>> members = el.update(members, x[100:101], y[100:101])  # reweights them by the label's likelihood
    >>> el.predict_proba(members, x[1000:1003]).shape
    (3, 10)
    """
    posterior, n, rng = check_posterior(posterior), check_count(n, "n"), check_rng(rng)
    if posterior.multi_label:
        raise EverylabelError(
            f"posterior has likelihood {posterior.likelihood!r}, which cannot be sampled; expected a "
            "softmax or 'binary' (predict_proba(..., method='monte_carlo') averages over any posterior)"
        )
    d, k = posterior.mean.shape
    # laid out as (d, n, k), so that products with all members are one product
    noise = from_numpy(rng.standard_normal((d, n, k), dtype=np.float32), posterior.mean)
    noise = array_namespace(noise).permute_dims(noise, (1, 0, 2))
    members = LIKELIHOODS[posterior.likelihood].sample(posterior, noise)
    log_weights = from_numpy(np.full(n, -np.log(n)), posterior.mean)
    return Samples(members, log_weights, posterior.likelihood, posterior.bias)


def monte_carlo(
    samples: Samples, features: Any, labels: Any, weights: Any = None, step_size: float = DEFAULT_STEP
) -> Samples:
    """Return the samples reweighted by the likelihood of new labels, to the power step_size."""
    design = check_features(features, samples.members[0, :, :], samples.bias)
    labels = check_labels(labels, design.shape[0], samples.n_classes, design)
    weights = check_weights(weights, design.shape[0], design)
    likelihoods = [
        _log_likelihood(member_logits(samples, design, chunk), labels, weights)
        for chunk in _chunks(design.shape[0], samples)
    ]
    explained = array_namespace(design).concat(likelihoods)
    return replace(samples, log_weights=log_softmax(samples.log_weights + step_size * explained))


def predict_samples(samples: Samples, features: Float[Array, "n d"]) -> Float[Array, "n k"]:
    """Return the weighted average of the members' predictions (Eqs. 11-12)."""
    return predict_weightings([samples], features)[0]


def predict_weightings(weighted: Sequence[Samples], features: Float[Array, "n d"]) -> list[Array]:
    """Return the predictions (n, k) of the same members under each of several weightings, in one pass.

    Instances and members are processed in tiles that stay in cache, with members as the last axis so that
    sums over classes run along whole rows.
    """
    samples = weighted[0]
    xp: Any = array_namespace(features)
    n, k = features.shape[0], samples.n_classes
    weights = xp.stack([xp.exp(each.log_weights) for each in weighted], axis=1)  # (m, w)
    weights = xp.astype(weights, samples.members.dtype)
    sums = zeros((n, k, len(weighted)), features)
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        for chunk in _chunks(min(n, ROWS), samples):
            logits = member_logits(samples, features[rows, :], chunk)
            m, b, _ = logits.shape
            logits = xp.reshape(xp.reshape(xp.permute_dims(logits, (1, 2, 0)), (b * k, m)), (b, k, m))
            logits = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
            probs = logits / xp.sum(logits, axis=1, keepdims=True)
            found = xp.reshape(probs, (b * k, m)) @ weights[chunk, :]
            sums[rows, :, :] += float64(xp.reshape(found, (b, k, len(weighted))))
    return [sums[:, :, each] for each in range(len(weighted))]


def reweight(
    member_logits: Any,
    labels: Any,
    log_weights: Any = None,
    *,
    step_size: float = DEFAULT_STEP,
    weights: Any = None,
) -> Float[Array, " m"]:
    """Return members' new log weights from their logits (m, n, k) at n labelled instances (Eq. 13).

    For deep ensembles and MC-dropout passes. Start with log_weights=None (equal weights) and pass the
    normalised result to the next call.

    Examples
    --------
    >>> member_logits = rng.normal(size=(20, 5, 10))  # 20 networks, 5 labelled instances, 10 classes
    >>> log_weights = el.reweight(member_logits, y[:5])
    >>> round(float(np.exp(log_weights).sum()), 6)
    1.0
    """
    step_size = check_positive(step_size, "step_size", zero=True)
    logits, log_weights = _check_members(member_logits, log_weights)
    labels = check_labels(labels, logits.shape[1], logits.shape[2], logits)
    weights = check_weights(weights, logits.shape[1], logits)
    return log_softmax(log_weights + step_size * _log_likelihood(logits, labels, weights))


def mix(member_logits: Any, log_weights: Any = None) -> Float[Array, "n k"]:
    """Return the predictive distribution of weighted members from their logits (m, n, k) (Eqs. 11-12).

    Examples
    --------
    >>> member_logits = rng.normal(size=(20, 5, 10))
    >>> log_weights = el.reweight(member_logits, y[:5])
    >>> el.mix(member_logits, log_weights).shape
    (5, 10)
    """
    logits, log_weights = _check_members(member_logits, log_weights)
    xp = array_namespace(logits)
    weights = xp.astype(xp.exp(log_weights), logits.dtype)
    return float64(xp.sum(weights[:, None, None] * softmax(logits), axis=0))


def member_logits(samples: Samples, features: Float[Array, "n d"], chunk: slice) -> Float[Array, "m n k"]:
    """Return the logits of a chunk of members by one product; binary members get the two of a softmax."""
    xp = array_namespace(features)
    members = samples.members[chunk, :, :]
    (m, d, k), n = members.shape, features.shape[0]
    flat = xp.reshape(xp.permute_dims(members, (1, 0, 2)), (d, m * k))
    logits = xp.reshape(xp.astype(features, members.dtype) @ flat, (n, m, k))
    logits = xp.permute_dims(logits, (1, 0, 2))
    if samples.likelihood == "binary":
        logits = xp.concat([xp.zeros_like(logits), logits], axis=2)
    return logits


def _log_likelihood(
    logits: Float[Array, "m n k"], labels: Int[Array, " n"], weights: Float[Array, " n"]
) -> Float[Array, " m"]:
    xp: Any = array_namespace(logits)
    index = xp.broadcast_to(labels[None, :, None], (*logits.shape[:2], 1))
    return xp.take_along_axis(log_softmax(float64(logits)), index, axis=2)[:, :, 0] @ weights


def _check_members(member_logits: Any, log_weights: Any) -> tuple[Array, Array]:
    logits = as_array(member_logits, "member_logits")
    if len(logits.shape) != 3 or 0 in (logits.shape[0], logits.shape[2]):
        raise EverylabelError(
            f"member_logits has shape {tuple(logits.shape)}; expected (m, n, k): "
            "the logits of m members at n instances for k classes"
        )
    xp = namespace(member_logits=logits)
    if not is_real(logits):
        raise EverylabelError(f"member_logits has dtype {logits.dtype}; expected real numbers")
    logits = float64(logits)
    if not bool(xp.all(xp.isfinite(logits))):
        raise EverylabelError("member_logits holds NaN or infinite values; expected finite logits")
    m = int(logits.shape[0])
    if log_weights is None:
        return logits, from_numpy(np.full(m, -np.log(m)), logits)
    log_weights = as_array(log_weights, "log_weights", logits)
    namespace(member_logits=logits, log_weights=log_weights)
    if tuple(log_weights.shape) != (m,):
        raise EverylabelError(
            f"log_weights has shape {tuple(log_weights.shape)}; expected ({m},), one per member"
        )
    log_weights = float64(log_weights)
    if not bool(xp.any(log_weights > -np.inf)) or not bool(xp.all(log_weights < np.inf)):
        raise EverylabelError(
            "log_weights holds NaN or infinite weights; expected finite ones, as reweight returns"
        )
    return logits, log_softmax(log_weights)


def _chunks(n: int, samples: Samples) -> list[slice]:
    """Return chunks of members, so that each is read once and the (m, n, k) logits are never held whole."""
    m, d, k = samples.members.shape
    size = max(1, CHUNK // (max(n, d) * k))
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]
