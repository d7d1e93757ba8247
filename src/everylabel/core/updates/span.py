"""The exact update in the space of n labelled instances, where they are few; for NumPy arrays.

n points, d features, k classes; K = H H' / prior_precision, L = label_sums, P (k, n) the probabilities.
    mean = (L - H'R') / prior_precision             R (k, n) stands for the mean; at the optimum R = w P
    J's gradient = H'E',  E = w P - R               T moves R to R - T and logits by K T; J's slope is E . KT
    J's curvature along T = KT . (W KT + T)         W that of the softmax
E costs no product, so J is minimised by conjugate gradients as it is, not Newton step by Newton step: a line
goes where `seen`, preconditioner and K at once, answers E, and a share of the last line (Polak, Ribiere). It
costs O(n^2 k) and does not depend on d; the mean is made when all is done. Labels that are new, or that
have changed, first move to their own exact answers. Classes come first.
With a softmax R is kept to what it adds up to at the optimum, sum_c R = w, and every T to sum_c T = 0: the
direction in which P does not change, and which the blocks of `seen` know nothing of, is left out.
Compiled loops (`seen_loops`) do the same for posteriors that have been updated some times: who updates one
once need not wait until they are loaded.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from everylabel.core import seen as seeing
from everylabel.core.arrays import can_compile
from everylabel.core.labelled import Change, Data
from everylabel.core.seen import Seen, build, curvature, loops, shared_curvature
from everylabel.core.updates.dual import TOLERANCE, solve_dual

PER_FEATURE = 1.25  # instances a feature up to which their space is the cheaper one
COMPILED = 2.0  # the same where loops can be compiled
OWN = 0.01  # residual from which a class's own covariance counts in a new label's answer
FAR = 10.0  # squared decrement (about nats) from which a mean that no search has left is too far off
ENOUGH = 0.02  # of the last Newton step's squared decrement: the last line began below it
STEEP = 0.5  # slope at a line's end, against that at its start, that is level enough
MAX_LINES, MAX_CUTS = 100, 30
AGREE = 3e-3  # difference of a logit to the mean's own from which M has gathered too much rounding
ROUNDING = 160.0  # times that of a squared norm: twice what 500 instances of norm 19 showed in single
PATIENCE = 20  # lines before the curvature is taken to be out of date

Link = Callable[[Array], Array]
Last = Callable[[float], float]  # of |mean|^2: squared decrement below which a Newton step is the last


class Place(NamedTuple):
    """Where a search stands; the next one begins there, if it is at this very mean."""

    mean: Array  # (d, k)
    pull: Array  # (k, n) R
    logits: Array  # (k, n) (H mean)'
    seen: Seen


class Point(NamedTuple):
    """A point of a search."""

    pull: Array  # (k, n) R
    logits: Array  # (k, n) (H mean)'
    probs: Array  # (k, n) P
    error: Array  # (k, n) E


class Line(NamedTuple):
    """Where a search goes from a point."""

    error: Array  # (k, n) E at its start
    direction: Array  # (k, n) T
    ahead: Array  # (k, n) K T
    energy: float  # E . M_c E, the squared decrement: about twice J's distance to its minimum
    slope: float
    length: float  # at which J is lowest, as far as its curvature tells


class Ended(NamedTuple):
    """How a search ended: where, after how many lines, with which squared decrement."""

    place: Place
    probs: Array  # (k, n)
    steps: int
    decrement: float


class Problem(NamedTuple):
    """What a search is about."""

    data: Data
    features: Array  # (n, d)
    weights: Array  # (n,), of the features' precision
    prior: float
    link: Link
    last: Last
    compiled: bool = False

    def mean(self, pull: Float[Array, "k n"]) -> Float[Array, "d k"]:
        """Return (L - H'R') / prior_precision."""
        pulled = self.features.T @ pull.T
        if self.compiled:
            return loops().held(self.data.label_sums, pulled, self.prior)
        mean = self.data.label_sums - pulled
        mean /= self.prior
        return mean

    def logits(self, mean: Float[Array, "d k"]) -> Float[Array, "k n"]:
        """Return (H mean)'."""
        return mean.astype(self.features.dtype).T @ self.features.T

    def probs(self, logits: Float[Array, "k n"]) -> Float[Array, "k n"]:
        """Return P."""
        return self.link(logits.T).T

    def at(self, pull: Float[Array, "k n"], logits: Float[Array, "k n"]) -> Point:
        """Return the point at which these stand for the mean."""
        probs = self.probs(logits)
        return Point(pull, logits, probs, self.weights * probs - pull)


def suits(data: Data) -> bool:
    """Return whether the instances are NumPy's, and few."""
    return isinstance(data.buffer.rows, np.ndarray) and 0 < len(data.labels) <= most(data)


def most(data: Data) -> float:
    """Return the number of instances up to which a search is in their space."""
    return (COMPILED if can_compile() else PER_FEATURE) * data.buffer.rows.shape[1]


def enter(problem: Problem, mean: Float[Array, "d k"]) -> Place | None:
    """Return the place of a mean that no search has left, or None if it is too far from the optimum.

    It is one step away, with the shared curvature: R = w P - b o (H S g), g being J's gradient.
    """
    features, weights, prior = problem.features, problem.weights, problem.prior
    probs = problem.probs(problem.logits(mean))
    expected = weights * probs
    gradient = (expected @ features).T - problem.data.label_sums + prior * mean
    seen = build(features, weights, probs, prior)
    if seen is None:
        return None
    flat = problem.logits(gradient / prior)
    bent = seen.shared * (flat - (seen.shared * flat) @ seen.gram)  # b o (H S g)
    decrement = float(np.vdot(gradient, gradient)) / prior - float(np.vdot(flat, bent))  # g'S g
    if not decrement < FAR:
        return None
    pull = expected - bent
    if len(pull) > 1:
        pull = level(pull) + weights / len(pull)
    mean = problem.mean(pull)
    return Place(mean, pull, problem.logits(mean), seen)


def move(problem: Problem, place: Place, change: Change) -> Ended | None:
    """Return the optimum, where the place has not seen the last labels yet; None if none is found."""
    features, b = problem.features, len(change.rows)
    n, (k, dtype) = len(features) - b, (len(place.pull), features.dtype)
    gram = features @ (features[n:].T / problem.prior)
    seen = place.seen.grow(gram[:n], gram[n:])
    pull, logits = np.zeros((k, n + b), dtype), np.empty((k, n + b), dtype)
    pull[:, :n], logits[:, :n] = place.pull, place.logits
    logits[:, n:] = place.mean.astype(dtype).T @ features[n:].T
    due = seen.joined >= seeing.EVERY
    if problem.compiled:
        point, seen = _guess_in_turn(problem, seen, pull, logits, change)
    else:
        point = _first_guess(problem, seen, pull, logits, change)
        if not due and k > 1:
            seen = seen.join(change.rows, curvature(problem.weights[n:], point.probs[:, n:]))
    if due:
        seen = seen.renew(problem.weights, point.probs, problem.compiled)
    return _settled(problem, place.mean, point, seen)


def turn(problem: Problem, place: Place, change: Change) -> Ended | None:
    """Return the optimum, where labels or weights have changed since the place; None if none is found."""
    seen = _weighed(problem, place, change)
    point = _first_guess(problem, seen, place.pull.copy(), place.logits.copy(), change)
    return _settled(problem, place.mean, point, seen)


def _weighed(problem: Problem, place: Place, change: Change) -> Seen:
    """Return a place's curvature where the weights of some instances have changed."""
    weights, seen, rows = problem.weights, place.seen, change.rows
    if np.array_equal(problem.data.weights[rows], change.weights):
        return seen
    probs = problem.probs(place.logits)
    seen = seen.bend(rows, shared_curvature(curvature(weights[rows], probs[:, rows])))
    return seen.bend_own(curvature(weights, probs), problem.compiled)


def _first_guess(
    problem: Problem, seen: Seen, pull: Float[Array, "k n"], logits: Float[Array, "k n"], change: Change
) -> Point:
    """Return the point at which each row that has changed has its own exact answer, the others held.

    What it pulls by, w e_y - R, goes from a to a'; without it its logits are f - s a, with s as without it.
    """
    rows, targets = change.rows, change.targets.T
    weights = problem.data.weights[rows]
    sums = weights * targets
    pull[:, rows] += (sums - change.sums.T).astype(pull.dtype)  # the mean stays
    a = sums - pull[:, rows]
    variances, alone = seen.variances(rows)
    f = logits[:, rows] - alone * a
    moved = solve_dual(f.T, change.targets, alone.T.astype(np.float64), weights).T - a
    longer = np.divide(alone, variances, out=np.ones_like(alone), where=variances > 0.0)  # of zeros: 0/0
    moved = (moved * longer).astype(pull.dtype)  # without it, C_c h is as much longer
    answer, ahead = seen.answer(rows, moved, OWN * float(np.max(np.maximum(weights, change.weights))))
    pull -= level(answer)
    logits += level(ahead)
    return problem.at(pull, logits)


def _guess_in_turn(
    problem: Problem, seen: Seen, pull: Float[Array, "k n"], logits: Float[Array, "k n"], change: Change
) -> tuple[Point, Seen]:
    """Return the point at which each new label has its own answer, after those before it have theirs."""
    rows, weights = change.rows, problem.data.weights
    pull[:, rows] = weights[rows] * change.targets.T  # the mean stays
    seen = seen.widened(len(rows))
    small = seeing.NEGLIGIBLE, seeing.LEAST, OWN * float(np.max(weights[rows])), TOLERANCE
    about = seen.gram, seen.shared, seen.at, seen.core, problem.weights
    loops().guess(*about, np.ascontiguousarray(change.targets.T), pull, logits, small)
    still = Line(pull, pull, logits, 0.0, 0.0, 0.0)
    return _compiled_end(problem, Point(pull, logits, logits, pull), still, 0.0)[0], seen


def settle(problem: Problem, place: Place) -> Ended | None:
    """Return the optimum from a place that has seen all labels; None if none is found."""
    return _settled(problem, place.mean, problem.at(place.pull, place.logits), place.seen)


def _settled(problem: Problem, mean: Float[Array, "d k"], point: Point, seen: Seen) -> Ended | None:
    squared = _squared(mean)
    if not squared:  # what is near enough to nothing is not known
        squared = _squared(problem.mean(point.pull))
    last, renewed, line = ENOUGH * problem.last(squared), False, None
    find = _compiled_line if problem.compiled else find_line
    for i in range(1, MAX_LINES):
        line = find(problem, point, seen, line)
        if not line.energy >= -last:  # g'C g < 0, or not a number: rounding has eaten the curvature
            return None
        if line.energy > 0.0 and not line.slope < 0.0:  # the last line misleads
            line = find(problem, point, seen, None)
        point, whole = _along(problem, point, line)
        if whole and abs(line.energy) <= last:
            mean = problem.mean(point.pull)
            logits = problem.logits(mean)
            if float(np.max(np.abs(logits - point.logits))) <= _agree(seen):
                return Ended(Place(mean, point.pull, logits, seen), point.probs, i, line.energy)
            if renewed:
                return None
            renewed, point = True, problem.at(point.pull, logits)
        elif i % PATIENCE == 0:
            last = ENOUGH * problem.last(_squared(problem.mean(point.pull)))
        else:
            continue
        line, anew = None, build(problem.features, problem.weights, point.probs, problem.prior)
        if anew is None:
            return None
        seen = anew
    return None


def _squared(mean: Float[Array, "d k"]) -> float:
    return float(np.vdot(mean, mean))


def _agree(seen: Seen) -> float:
    """Return how far a logit may be from the mean's own: M is not to blame for rounding of |h|^2 / prior."""
    half = len(seen.gram) // 2
    usual = np.partition(np.diagonal(seen.gram), half)[half]
    return max(AGREE, ROUNDING * float(np.finfo(seen.gram.dtype).eps * usual))


def level(matrix: Float[Array, "k n"]) -> Float[Array, "k n"]:
    """Return it less the mean over classes, if there are some."""
    return matrix - np.mean(matrix, axis=0) if len(matrix) > 1 else matrix


def find_line(problem: Problem, start: Point, seen: Seen, last: Line | None) -> Line:
    """Return the line that a search takes from a point, after the last one."""
    error, probs = start.error, start.probs
    direction, ahead = (level(part) for part in seen.apply(-error))
    energy = -float(np.vdot(error, ahead))
    if last is not None:  # E . M_c (E - E_last) / E_last . M_c E_last
        share = max((energy + float(np.vdot(last.error, ahead))) / last.energy, 0.0)
        direction, ahead = direction + share * last.direction, ahead + share * last.ahead
    slope = float(np.vdot(error, ahead))
    bent = problem.weights * probs * (ahead - np.sum(probs * ahead, axis=0))
    if len(probs) == 1:
        bent = problem.weights * probs * (1.0 - probs) * ahead
    return _line(error, direction, ahead, energy, slope, float(np.vdot(ahead, bent + direction)))


def _compiled_line(problem: Problem, start: Point, seen: Seen, last: Line | None) -> Line:
    """Return the same by compiled loops."""
    direction, error = -start.error, start.error
    ahead = direction @ seen.gram
    before = (error, direction, ahead, 0.0) if last is None else last[:4]
    about = seen.gram, seen.shared, seen.at, seen.core, problem.weights, start.probs
    return _line(error, direction, ahead, *loops().line(*about, error, direction, ahead, before))


def _line(error: Array, direction: Array, ahead: Array, energy: float, slope: float, bent: float) -> Line:
    return Line(error, direction, ahead, energy, slope if bent > 0.0 else 0.0, -slope / max(bent, 1e-300))


def _along(problem: Problem, start: Point, line: Line) -> tuple[Point, bool]:
    """Return the point at a line's end, or before it where J already rises, and whether it is the end."""
    if not line.slope < 0.0:  # nothing is left but rounding
        return start, True
    low, high, length = (0.0, line.slope), (line.length, 0.0), line.length
    for _ in range(MAX_CUTS):
        end, slope = (_compiled_end if problem.compiled else find_end)(problem, start, line, length)
        if slope <= STEEP * abs(line.slope) and (length == line.length or slope >= STEEP * line.slope):
            break
        low, high = (low, (length, slope)) if slope > 0.0 else ((length, slope), high)
        share = low[1] / (low[1] - high[1])
        length = low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])
    return end, length == line.length


def find_end(problem: Problem, start: Point, line: Line, length: float) -> tuple[Point, float]:
    """Return the point so far along a line, and J's slope there."""
    end = problem.at(start.pull - length * line.direction, start.logits + length * line.ahead)
    return end, float(np.vdot(end.error, line.ahead))


def _compiled_end(problem: Problem, start: Point, line: Line, length: float) -> tuple[Point, float]:
    """Return the same by compiled loops; NumPy's exponential is the fastest."""
    probs, far = np.empty_like(start.logits), start.logits.dtype.type(length)
    logits = loops().shifted(start.logits, line.ahead, far, probs)
    np.exp(probs, out=probs)
    pull, error, slope = loops().ended(problem.weights, start.pull, line.direction, line.ahead, far, probs)
    return Point(pull, logits, probs, error), float(slope)
