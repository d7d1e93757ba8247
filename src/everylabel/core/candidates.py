"""Candidate labels: the likelihood of instances for which some classes are ruled out.

k classes; f (k,) an instance's logits, p = softmax(f), A the classes it may have, its candidates.
    L(f) = -log sum_{c in A} p_c = logsumexp(f) - logsumexp_A(f)          "not c": -log(1 - p_c)
    dL/df = p - t,      t_c = p_c / sum_{j in A} p_j in A, 0 elsewhere     the soft target, p restricted to A
    d2L/df2 = (diag(p) - p p') - (diag(t) - t t')
The second derivative is indefinite, so it gives no covariance. But logsumexp_A is convex and lies above its
tangent at any f0:
    L(f) <= logsumexp(f) - t(f0)'f + const,            equal at f0
The right side is the loss of the soft label t(f0), whose curvature diag(p) - p p' is positive semidefinite.
Minimising it, recomputing t and repeating is EM with the class as hidden variable: each round lowers the true
loss. One such round learns a new "not c" (`updates/partial.py`); training finds the minimum by Newton steps.
With one candidate t = e_y, the same as a label.
"""

from typing import Any

from jaxtyping import Bool, Float

from everylabel.core.arrays import Array, array_namespace, as_array, from_numpy, to_numpy
from everylabel.core.errors import EverylabelError


def shares(logits: Float[Array, "n k"], candidates: Bool[Array, "n k"]) -> Float[Array, "n k"]:
    """Return t (see the module docstring); zeros for an instance without candidates."""
    xp: Any = array_namespace(logits)
    grown, _ = _grown(logits, candidates)
    total = xp.sum(grown, axis=1, keepdims=True)
    return grown / xp.where(total > 0.0, total, xp.ones_like(total))


def log_sum(logits: Float[Array, "n k"], candidates: Bool[Array, "n k"]) -> Float[Array, " n"]:
    """Return logsumexp_A; 0 for an instance without candidates."""
    xp: Any = array_namespace(logits)
    grown, top = _grown(logits, candidates)
    total = xp.sum(grown, axis=1)
    some = total > 0.0
    return xp.where(some, xp.log(xp.where(some, total, xp.ones_like(total))) + top[:, 0], 0.0 * total)


def _grown(
    logits: Float[Array, "n k"], candidates: Bool[Array, "n k"]
) -> tuple[Float[Array, "n k"], Float[Array, "n 1"]]:
    """Return exp(f - m) in A and 0 elsewhere, and m, the largest logit in A."""
    xp: Any = array_namespace(logits)
    lowest = xp.min(logits, axis=1, keepdims=True) + 0.0 * logits
    kept = xp.where(candidates, logits, lowest)
    top = xp.max(kept, axis=1, keepdims=True)
    return xp.where(candidates, xp.exp(kept - top), 0.0 * logits), top


def check_candidates(candidates: Any, n: int, k: int, like: Array, name: str) -> Bool[Array, "n k"]:
    """Check a mask (n, k) of the classes each instance may have, at least one each; return it as booleans."""
    array = to_numpy(as_array(candidates, name))
    if array.shape != (n, k) or array.dtype != bool:
        raise EverylabelError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; expected ({n}, {k}) of true and "
            "false: for each instance, which classes it may have"
        )
    if not array.any(axis=1).all():
        raise EverylabelError(
            f"{name} leaves no class for {int((~array.any(axis=1)).sum())} instance(s); expected at "
            "least one for each"
        )
    return from_numpy(array, like)
