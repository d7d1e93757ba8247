"""Approach the minimum of a training objective by limited-memory quasi-Newton steps in single precision.

n points, d features, k classes; s and y (d k,) the changes of the mean and of the gradient over a step.
The inverse Hessian of the next step is that of L-BFGS, from the last MEMORY pairs and a multiple of I:
    C <- (I - s y' / s'y) C (I - y s' / s'y) + s s' / s'y,    at first C = s'y / y'y I, of the last pair
A step takes X times the direction and X' times the probabilities, two passes over the points; the line search
costs none. Newton's method needs more passes to come near the minimum, and Hessians as well.
The result is used only if its gradient, in double precision, is smaller than that of the start.
"""

from typing import Any

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, float64
from everylabel.core.newton import Objective, Point, along, inner

MEMORY = 5  # pairs; twice as many save no steps
NEAR = 2e-6  # share of the gradient at zero weights: about the smallest that single precision resolves
MAX_STEPS = 200  # then Newton's method, with its preconditioner, continues
LARGE = 1e12  # squares above this, or below its inverse, may overflow or underflow in single precision

Pair = tuple[Array, Array, float]  # s, y, s'y


def descend(objective: Objective, start: Point, gradient: Float[Array, "d k"], target: float) -> Point:
    """Return a point where the gradient's norm is about `target`, or the start if none is found."""
    xp: Any = array_namespace(gradient)
    slope = inner(gradient, gradient)
    if slope <= target**2:
        return start
    sizes = inner(objective.features, objective.features), inner(start.mean, start.mean)
    if not (max(*sizes, slope, objective.prior_precision) < LARGE and slope * LARGE > 1.0):
        return start
    single = objective._replace(
        features=xp.astype(objective.features, xp.float32), weights=xp.astype(objective.weights, xp.float32)
    )
    mean = _followed(single, single.at(start.mean, xp.astype(start.logits, xp.float32)), gradient, target)
    end = objective.at(mean, objective.features @ mean)
    left = objective.gradient(end.mean, end.net_probs)
    return end if inner(left, left) < slope else start


def _followed(single: Objective, point: Point, gradient: Array, target: float) -> Float[Array, "d k"]:
    """Return the mean after the last step."""
    xp: Any = array_namespace(gradient)
    features, pairs = single.features, list[Pair]()
    for _ in range(MAX_STEPS):
        if inner(gradient, gradient) <= target**2:
            break
        step = xp.reshape(_direction(_flat(gradient), pairs), gradient.shape)
        change = features @ step
        if not pairs:  # step length from the curvature along the gradient
            squared = inner(step, step)
            bent = inner(change, single.curvature_times(point.probs, change))
            length = squared / (bent + single.prior_precision * squared)
            step, change = length * step, length * change
        downhill = -inner(gradient, step)
        if not downhill > 0.0:  # only rounding remains
            break
        end = along(single, point, gradient, float64(step), change, downhill).end
        moved = single.gradient(end.mean, end.net_probs)
        s, y = _flat(end.mean - point.mean), _flat(moved - gradient)
        point, gradient, curved = end, moved, float(s @ y)
        if not curved > 0.0:
            break
        pairs = [*pairs[1 - MEMORY :], (s, y, curved)]
    return point.mean


def _direction(gradient: Float[Array, " m"], pairs: list[Pair]) -> Float[Array, " m"]:
    """Return -C gradient, pair by pair."""
    turned, shares = -gradient, []
    for s, y, curved in reversed(pairs):
        shares.append(float(s @ turned) / curved)
        turned = turned - shares[-1] * y
    if pairs:
        _, y, curved = pairs[-1]
        turned = (curved / float(y @ y)) * turned
    for (s, y, curved), share in zip(pairs, reversed(shares), strict=True):
        turned = turned + (share - float(y @ turned) / curved) * s
    return turned


def _flat(matrix: Float[Array, "d k"]) -> Float[Array, " m"]:
    xp: Any = array_namespace(matrix)
    return xp.reshape(xp.astype(matrix, xp.float32), (-1,))
