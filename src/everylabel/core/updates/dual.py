"""The exact answer to one new label, were its instance alone: a problem of k numbers.

k classes; f (k,) the instance's logits, s (k,) their variances h' C_c h, w the label's weight.
With a Gaussian N(mean_c, C_c) on each class's weights, the most probable weights after the label
are mean_c + a_c C_c h, where a solves
    a = w (e_y - softmax(f + s a)),
the zero gradient of D(a) = w (logsumexp(f + s a) - (f + s a)_y) + a's a / 2. Newton's system is
diagonal plus rank one, I + w (diag(p) - p p') diag(s): O(k) a step.
"""

from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Float

from everylabel.core.arrays import Array
from everylabel.core.softmax import log_softmax

TOLERANCE = 1e-3  # of a, against the weight: the steps over all labels polish it
MAX_STEPS = 30


def solve_dual(
    f: Float[Array, " k"],
    label: Float[Array, " k"],
    variance: Float[Array, " k"],
    weight: float,
    tolerance: float = TOLERANCE,
) -> Float[Array, " k"]:
    """Return a of the module's head; `label` is e_y."""
    xp: Any = array_namespace(f)
    a = xp.zeros_like(f)
    probs, value = _at(f, label, variance, weight, a)
    for _ in range(MAX_STEPS):
        gradient = a - weight * (label - probs)
        if float(xp.max(xp.abs(gradient))) <= tolerance * weight:
            break
        # (diag(t) - w p (p s)') x = -gradient with t = 1 + w p s, by Sherman-Morrison
        diagonal, spread = 1.0 + weight * probs * variance, probs * variance
        u, r = gradient / diagonal, weight * probs / diagonal
        room = max(1.0 - float(spread @ r), 1e-12)
        step = -(u + r * (float(spread @ u) / room))
        length, before = 1.0, value
        while True:
            trial = a + length * step
            probs, value = _at(f, label, variance, weight, trial)
            if value <= before + 1e-12 * abs(before) or length < 1e-6:
                break
            length *= 0.5
        a = trial
    return a


def _at(
    f: Float[Array, " k"],
    label: Float[Array, " k"],
    variance: Float[Array, " k"],
    weight: float,
    a: Float[Array, " k"],
) -> tuple[Float[Array, " k"], float]:
    """Return softmax(f + s a) and D(a)."""
    xp: Any = array_namespace(f)
    log_probs = log_softmax(f + variance * a)
    loss = -xp.sum(label * log_probs)
    return xp.exp(log_probs), float(weight * loss + 0.5 * xp.sum(variance * a * a))
