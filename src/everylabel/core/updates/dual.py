"""The exact answers to new labels, were each instance alone: problems of k numbers.

b labels, k classes; f (b, k) the instances' logits, s (b, k) their variances h' C_c h, w (b,) the weights.
With a Gaussian N(mean_c, C_c) on each class's weights, the most probable weights after one of the labels
are mean_c + a_c C_c h, where a solves
    a = w (e_y - softmax(f + s a)),
the zero gradient of D(a) = w (logsumexp(f + s a) - (f + s a)_y) + a's a / 2. Newton's system is
diagonal plus rank one, I + w (diag(p) - p p') diag(s): O(k) a step. All labels take their steps together.
"""

from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Float

from everylabel.core.arrays import Array
from everylabel.core.softmax import log_softmax

TOLERANCE = 1e-2  # of a, against the weight: the steps over all labels polish it
MAX_STEPS, MAX_CUTS = 30, 20


def solve_dual(
    f: Float[Array, "b k"],
    labels: Float[Array, "b k"],
    variance: Float[Array, "b k"],
    weights: Float[Array, " b"],
    tolerance: float = TOLERANCE,
) -> Float[Array, "b k"]:
    """Return a of the module's head, row by row; `labels` are e_y. With k = 1 it is the sigmoid's."""
    xp: Any = array_namespace(f)
    if f.shape[1] == 1:  # a softmax whose other logit is fixed at zero
        none = xp.zeros_like(f)
        pairs = ((none, f), (1.0 - labels, labels), (none, variance))
        two = [xp.concat(pair, axis=1) for pair in pairs]
        return solve_dual(two[0], two[1], two[2], weights, tolerance)[:, 1:]
    weight, a = weights[:, None], xp.zeros_like(f)
    probs, value = _at(f, labels, variance, weights, a)
    for _ in range(MAX_STEPS):
        gradient = a - weight * (labels - probs)
        if bool(xp.all(xp.abs(gradient) <= tolerance * weight)):
            break
        # (diag(t) - w p (p s)') x = -gradient with t = 1 + w p s, by Sherman-Morrison
        spread = probs * variance
        diagonal = 1.0 + weight * spread
        u, r = gradient / diagonal, weight * probs / diagonal
        room = xp.clip(1.0 - xp.sum(spread * r, axis=1, keepdims=True), 1e-12, None)
        step = -(u + r * (xp.sum(spread * u, axis=1, keepdims=True) / room))
        before = value + 1e-12 * xp.abs(value)
        for _ in range(MAX_CUTS):
            probs, value = _at(f, labels, variance, weights, a + step)
            higher = value > before
            if not bool(xp.any(higher)):
                break
            step = xp.where(higher[:, None], 0.5 * step, step)
        a = a + step
    return a


def _at(
    f: Float[Array, "b k"],
    labels: Float[Array, "b k"],
    variance: Float[Array, "b k"],
    weights: Float[Array, " b"],
    a: Float[Array, "b k"],
) -> tuple[Float[Array, "b k"], Float[Array, " b"]]:
    """Return softmax(f + s a) and D(a)."""
    xp: Any = array_namespace(f)
    moved = variance * a
    log_probs = log_softmax(f + moved)
    value = xp.sum(0.5 * moved * a - weights[:, None] * labels * log_probs, axis=1)
    return xp.exp(log_probs), value
