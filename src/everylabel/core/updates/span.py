"""The exact update in the space of n labelled instances, where they are few; for NumPy arrays.

n points, d features, k classes; K = H H' / prior_precision, L = label_sums, P the probabilities.
    mean = (L - H'R) / prior_precision              R (n, k) stands for the mean; at the optimum R = w P
    J's gradient = H'E,  E = w P - R                a Newton step: R - T, T + W (K T) = -E; logits move by K T
Conjugate gradients find T as in `newton`; `seen` is preconditioner and K at once. A product costs O(n^2 k)
and does not depend on d; the mean is made when all is done. New labels first move to their own exact
answers, as if each were the only one.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from everylabel.core import newton
from everylabel.core.labelled import Data
from everylabel.core.newton import MAX_CUTS, SMALL, STEEP
from everylabel.core.seen import Seen, build, curvature, shared_curvature
from everylabel.core.updates.dual import solve_dual

PER_FEATURE = 1.25  # instances a feature up to which their space is the cheaper one
OWN = 0.01  # residual from which a class's own covariance counts in a new label's answer
EVERY, AHEAD = (
    8,
    20,
)  # labels after which so many points, and as large a share of the classes, are brought up to date
FAR = 10.0  # squared decrement (about nats) from which a mean that no search has left is too far off
ENOUGH = 0.02  # of the last step's squared decrement: residual that may be left
MAX_STEPS, MAX_PRODUCTS = 30, 20
AGREE = 3e-3  # difference of a logit to the mean's own from which M has gathered too much rounding
PATIENCE = 6  # Newton steps before the curvature is taken to be out of date

Link = Callable[[Array], Array]
Last = Callable[[Array], float]  # at a mean: squared decrement below which a Newton step is the last


class Place(NamedTuple):
    """Where a search stands; the next one begins there, if it is at this very mean."""

    mean: Array  # (d, k)
    pull: Array  # (n, k) R
    logits: Array  # (n, k) H mean
    seen: Seen


class Point(NamedTuple):
    """A point of a search."""

    pull: Array  # (n, k) R
    logits: Array  # (n, k) H mean
    probs: Array  # (n, k) P


class Ended(NamedTuple):
    """How a search ended: where, after how many Newton steps, with which squared decrement."""

    place: Place
    probs: Array  # (n, k)
    steps: int
    decrement: float


class Problem(NamedTuple):
    """What a search is about."""

    data: Data
    prior: float
    link: Link
    last: Last

    @property
    def features(self) -> Float[Array, "n d"]:
        return self.data.features

    @property
    def weights(self) -> Float[Array, " n"]:
        return self.data.weights.astype(self.features.dtype, copy=False)

    def mean(self, pull: Float[Array, "n k"]) -> Float[Array, "d k"]:
        """Return (L - H'R) / prior_precision."""
        return (self.data.label_sums - self.features.T @ pull) / self.prior


def suits(data: Data) -> bool:
    """Return whether the instances are NumPy's, and few."""
    rows = data.buffer.rows
    return isinstance(rows, np.ndarray) and 0 < len(data.labels) <= PER_FEATURE * rows.shape[1]


def enter(problem: Problem, mean: Float[Array, "d k"], seen: Seen | None = None) -> Place | None:
    """Return the place of a mean that no search has left, or None if it is too far from the optimum.

    It is one step away, with the shared curvature: R = w P - b o (H S g), g being J's gradient.
    """
    features, weights, prior = problem.features, problem.weights, problem.prior
    probs = problem.link(features @ mean.astype(features.dtype))
    expected = weights[:, None] * probs
    gradient = features.T @ expected - problem.data.label_sums + prior * mean
    seen = build(features, weights, probs, prior) if seen is None else seen
    flat = features @ gradient.astype(features.dtype) / prior
    bent = seen.shared[:, None] * (flat - seen.gram @ (seen.shared[:, None] * flat))  # b o (H S g)
    decrement = float(np.vdot(gradient, gradient)) / prior - float(np.vdot(flat, bent))  # g'S g
    if not decrement < FAR:
        return None
    pull = expected - bent
    mean = problem.mean(pull)
    return Place(mean, pull, features @ mean.astype(features.dtype), seen)


def move(problem: Problem, place: Place, targets: Float[Array, "b k"]) -> Ended | None:
    """Return the optimum, where the place has not seen the last b labels yet; None if none is found."""
    features, weights, b = problem.features, problem.weights, len(targets)
    n, dtype = len(weights) - b, features.dtype
    gram = features @ (features[n:].T / problem.prior)
    seen = place.seen.grow(gram[:n], gram[n:])
    logits = np.concatenate([place.logits, features[n:] @ place.mean.astype(dtype)])
    pull = np.concatenate([place.pull, (weights[n:, None] * targets).astype(dtype)])  # the mean stays
    a = solve_dual(logits[n:].astype(np.float64), targets, seen.variances(b), problem.data.weights[n:])
    answer, change = seen.answer(a.astype(dtype), OWN * float(np.max(weights[n:])))
    pull -= answer
    logits += change
    probs = problem.link(logits)
    share = AHEAD / (n + b) if (n + b) // EVERY > n // EVERY else 0.0
    seen = seen.follow(weights, probs, b, share)
    return _settled(problem, place.mean, Point(pull, logits, probs), seen)


def weighed(problem: Problem, place: Place, before: Float[Array, " n"]) -> Seen:
    """Return a place's curvature where the weights of some instances have changed."""
    weights, seen = problem.weights, place.seen
    changed = np.flatnonzero(problem.data.weights != before)
    if not len(changed):
        return seen
    probs = problem.link(place.logits)
    seen = seen.bend(changed, shared_curvature(curvature(weights[changed], probs[changed])))
    if probs.shape[1] == 1:
        return seen
    return seen.bend_own(np.arange(probs.shape[1]), curvature(weights, probs))


def settle(problem: Problem, place: Place) -> Ended | None:
    """Return the optimum from a place that has seen all labels; None if none is found."""
    point = Point(place.pull, place.logits, problem.link(place.logits))
    return _settled(problem, place.mean, point, place.seen)


def _settled(problem: Problem, mean: Float[Array, "d k"], point: Point, seen: Seen) -> Ended | None:
    last, renewed = problem.last(mean), False
    for i in range(1, MAX_STEPS):
        step = newton_step(problem, point, seen, ENOUGH * last, MAX_PRODUCTS)
        point = step.end
        if step.whole and step.decrement <= last:
            mean = problem.mean(point.pull)
            logits = problem.features @ mean.astype(point.logits.dtype)
            if float(np.max(np.abs(logits - point.logits))) <= AGREE:
                return Ended(Place(mean, point.pull, logits, seen), point.probs, i, step.decrement)
            if renewed:
                return None
            renewed, point = True, Point(point.pull, logits, problem.link(logits))
            seen = build(problem.features, problem.weights, point.probs, problem.prior)
        elif i % PATIENCE == 0:
            seen = build(problem.features, problem.weights, point.probs, problem.prior)
            last = problem.last(problem.mean(point.pull))
    return None


class Step(NamedTuple):
    """What a Newton step found: where it ended, how far it had to go, whether it was cut."""

    end: Point
    decrement: float  # squared, in the preconditioner's norm
    whole: bool


def newton_step(problem: Problem, start: Point, seen: Seen, enough: float, max_products: int) -> Step:
    """Return the end of one Newton step, as `newton_step` of `newton` does over all features."""
    expected = problem.weights[:, None] * start.probs
    error = expected - start.pull
    curved = expected * (1.0 - start.probs) if error.shape[1] == 1 else expected
    residual = -error
    search = np.stack(seen.apply(residual))  # T's direction, and K times it
    energy = decrement = float(np.vdot(residual, search[1]))
    enough = max(enough, min(newton.FORCING, decrement) * decrement)
    total = np.zeros_like(search)
    for i in range(max_products):
        direction, ahead = search
        turned = ahead if error.shape[1] == 1 else ahead - np.vecdot(start.probs, ahead)[:, None]
        turned = curved * turned
        turned += direction  # T + W (K T)
        curvature = float(np.vdot(ahead, turned))
        if curvature <= 0.0:  # nothing is left but rounding
            break
        length = energy / curvature
        total += length * search
        if energy <= enough or i + 1 == max_products:
            break
        turned *= length
        residual -= turned
        answer = seen.apply(residual)
        energy, previous = float(np.vdot(residual, answer[1])), energy
        if energy <= 0.1 * enough:
            break
        search *= energy / previous
        search[0] += answer[0]
        search[1] += answer[1]
    return _along(problem, start, total, -float(np.vdot(error, total[1])), decrement)


def _along(
    problem: Problem, start: Point, total: Float[Array, "2 n k"], downhill: float, decrement: float
) -> Step:
    """Return the point at the step's end, or before it where J, whose slope is E . KT, already rises."""
    low, high, length = (0.0, -downhill), (1.0, 0.0), 1.0
    for _ in range(MAX_CUTS):
        logits = start.logits + length * total[1]
        end = Point(start.pull - length * total[0], logits, problem.link(logits))
        if decrement <= SMALL:
            break
        slope = float(np.vdot(problem.weights[:, None] * end.probs - end.pull, total[1]))
        if abs(slope) <= STEEP * downhill or (length == 1.0 and slope <= 0.0):
            break
        low, high = (low, (length, slope)) if slope > 0.0 else ((length, slope), high)
        share = low[1] / (low[1] - high[1])
        length = low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])
    return Step(end, decrement, length == 1.0)
