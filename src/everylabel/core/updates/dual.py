"""The exact answers to new labels, were each instance alone: problems of k numbers.

b labels, k classes; f (b, k) the instances' logits, s (b, k) their variances h' C_c h, w (b,) the weights.
With a Gaussian N(mean_c, C_c) on each class's weights, the most probable weights after one of the labels
are mean_c + a_c C_c h, where a solves
    a = w (e_y - softmax(f + s a)),
the zero of g = a - w (e_y - p); s g is the gradient of
    D(a) = w (logsumexp(f + s a) - (f + s a)_y) + a's a / 2.
Newton's system is diagonal plus rank one, I + w (diag(p) - p p') diag(s): O(k) a step. A step is cut where D
rises at its end nearly as steeply as it fell at its start. All labels take their steps together.
"""

from typing import Any

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace
from everylabel.core.softmax import softmax

TOLERANCE = 1e-2  # of a, against the weight: the steps over all labels polish it
STEEP = 0.9  # of the slope at a step's start: what it may rise by at its end
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
    enough, least = tolerance * weight, 1e-12 * xp.ones_like(weights)
    probs = softmax(f)
    gradient = a - weight * (labels - probs)
    for _ in range(MAX_STEPS):
        if bool(xp.all(xp.abs(gradient) <= enough)):
            break
        # (diag(t) - w p (p s)') x = -gradient with t = 1 + w p s, by Sherman-Morrison
        spread = probs * variance
        diagonal = 1.0 + weight * spread
        u, r = gradient / diagonal, weight * probs / diagonal
        room = xp.maximum(1.0 - xp.vecdot(spread, r), least)
        step = -(u + r * (xp.vecdot(spread, u) / room)[:, None])
        seen = variance * step  # what the logits move by
        steepest = -STEEP * xp.vecdot(gradient, seen)
        before = a
        for _ in range(MAX_CUTS):
            a = before + step
            probs = softmax(f + variance * a)
            gradient = a - weight * (labels - probs)
            higher = xp.vecdot(gradient, seen) > steepest
            if not bool(xp.any(higher)):
                break
            step = xp.where(higher[:, None], 0.5 * step, step)
    return a
