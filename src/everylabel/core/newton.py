"""The training objective of a last layer, and one Newton step on it by conjugate gradients.

n points, d features (with the bias), k classes; mean (d, k).
    J(mean) = sum_x w_x logsumexp(h_x' mean) - <label_sums, mean> + prior_precision / 2 |mean|^2
Labels enter through label_sums (d, k) = sum_x w_x h_x e_y' alone. J is strictly convex: there is
one minimum, and Newton's steps end at it. The Hessian is never built, only multiplied with:
    Hess V = H' [w (P o HV - P (P o HV) 1 1')] + prior_precision V
Points that have candidates in place of a label add -sum_x w_x logsumexp_A(h_x' mean) (see `candidates`): the
gradient then has P - Q for P, with their shares Q, and the Hessian the product with Q off that with P. J need
not be convex any more; where no curvature is found, a step is as long as the curvature of P alone allows.
Passes over the points run in the precision of `features`; sums over them are kept in double.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, as_columns, float64
from everylabel.core.candidates import log_sum, shares

STEEP = 0.5  # slope at a step's end, against that at its start, that is level enough
FORCING = 0.1  # share of the squared residual that is left far from the minimum
MAX_CUTS = 30  # of a step; each takes the slope once, without a pass over the features
SMALL = 1e-3  # squared Newton decrement below which a full step cannot overshoot (self-concordance)


class Objective(NamedTuple):
    """J in the module's head, or that of k sigmoids, which is a sum of one for each class."""

    features: Array  # (n, d)
    weights: (
        Array  # (n,), or (n, k) where an instance counts for some classes only; of the features' precision
    )
    label_sums: Array  # (d, k) float64
    prior_precision: float
    link: Callable[[Array], Array]
    candidates: Array | None = None  # (n, k) bool; a row of False where there is a label
    coupled: bool = True  # False: `link` is the sigmoid

    def at(self, mean: Float[Array, "d k"], logits: Float[Array, "n k"]) -> "Point":
        """Return the point of a mean whose logits are known."""
        drawn = None if self.candidates is None else shares(logits, self.candidates)
        return Point(mean, logits, self.link(logits), drawn)

    def value(self, point: "Point") -> float:
        """Return J of a softmax."""
        lost = log_sum(point.logits, point.logits == point.logits)
        lost = lost if self.candidates is None else lost - log_sum(point.logits, self.candidates)
        prior = 0.5 * self.prior_precision * inner(point.mean, point.mean)
        return inner(self.weights, lost) - inner(self.label_sums, point.mean) + prior

    def gradient(self, mean: Float[Array, "d k"], probs: Float[Array, "n k"]) -> Float[Array, "d k"]:
        """Return the gradient at a mean; `probs` are P, or P - Q."""
        summed = self.features.T @ (as_columns(self.weights) * probs)
        return float64(summed) - self.label_sums + self.prior_precision * mean

    def bend(self, probs: Float[Array, "n k"], change: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return how the weighted probabilities follow a change of the logits."""
        xp = array_namespace(change)
        moved = probs * change
        if not self.coupled:
            return as_columns(self.weights) * (moved - probs * moved)
        return self.weights[:, None] * (moved - probs * xp.sum(moved, axis=1, keepdims=True))


class Point(NamedTuple):
    """Where a search stands."""

    mean: Array  # (d, k) float64
    logits: Array  # (n, k) H mean
    probs: Array  # (n, k) link(logits)
    shares: Array | None = None  # (n, k) of points with candidates; None where all have labels

    @property
    def pull(self) -> Float[Array, "n k"]:
        """P - Q, or P where all have labels."""
        return self.probs if self.shares is None else self.probs - self.shares


class Step(NamedTuple):
    """What a Newton step found: where it ended, how far it had to go, whether it was cut."""

    end: Point
    decrement: float  # squared, in the preconditioner's norm: about twice J's distance to its minimum
    whole: bool


def newton_step(
    objective: Objective,
    start: Point,
    gradient: Float[Array, "d k"],
    precondition: Callable[[Array], Array],
    enough: float,
    max_products: int,
) -> Step:
    """Return the end of one Newton step; its system is solved no better than is of use.

    Conjugate gradients stop when the squared residual, in the same norm as the decrement, is down
    to `enough` or to FORCING of where it began; the nearer the minimum, the less (which keeps
    Newton's steps quadratic). They carry H times the step along: the new logits cost no pass.
    """
    xp: Any = array_namespace(gradient)
    features, dtype = objective.features, objective.features.dtype
    residual = -xp.astype(gradient, dtype)
    turned = precondition(residual)
    energy = decrement = inner(residual, turned)
    enough = max(enough, min(FORCING, decrement) * decrement)
    search, step, change = turned, 0.0, 0.0
    for i in range(max_products):
        seen = features @ search
        bent = convex = objective.bend(start.probs, seen)
        if start.shares is not None:
            bent = convex - objective.bend(start.shares, seen)
        ridge = objective.prior_precision * inner(search, search)
        curvature = inner(seen, bent) + ridge
        if curvature <= 0.0 and i == 0 and start.shares is not None:
            curvature, max_products = inner(seen, convex) + ridge, 1
        if curvature <= 0.0:  # nothing is left but rounding, or J bends down from here
            break
        length = energy / curvature
        step, change = step + length * search, change + length * seen
        if energy <= enough or i + 1 == max_products:
            break
        residual = residual - length * (features.T @ bent + objective.prior_precision * search)
        turned = precondition(residual)
        energy, previous = inner(residual, turned), energy
        if energy <= 0.1 * enough:
            break
        search = turned + (energy / previous) * search
    if isinstance(step, float):
        return Step(start, decrement, True)
    return along(objective, start, gradient, float64(step), change, decrement)


def along(
    objective: Objective,
    start: Point,
    gradient: Float[Array, "d k"],
    step: Float[Array, "d k"],
    change: Float[Array, "n k"],
    decrement: float,
) -> Step:
    """Return the point at the step's end, or before it where J already rises steeply there.

    Where J is convex along the step its slope grows: regula falsi finds where it is nearly level.
    """
    downhill = -inner(gradient, step)
    flat = inner(objective.prior_precision * start.mean - objective.label_sums, step)
    steady = objective.prior_precision * inner(step, step)
    low, high, length = (0.0, -downhill), (1.0, 0.0), 1.0
    for _ in range(MAX_CUTS):
        logits = start.logits + length * change
        end = objective.at(start.mean + length * step, logits)
        slope = inner(as_columns(objective.weights) * end.pull, change) + flat + length * steady
        if decrement <= SMALL or abs(slope) <= STEEP * downhill or (length == 1.0 and slope <= 0.0):
            break
        low, high = (low, (length, slope)) if slope > 0.0 else ((length, slope), high)
        share = low[1] / (low[1] - high[1])
        length = low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])
    return Step(end, decrement, length == 1.0)


def inner(a: Array, b: Array) -> float:
    """Return the sum of products of all elements."""
    xp: Any = array_namespace(a)
    return float(xp.tensordot(a, b, axes=a.ndim))
