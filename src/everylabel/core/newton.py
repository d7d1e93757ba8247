"""The training objective of a last layer, and two ways to lower it: quasi-Newton steps, and Newton steps.

n points, d features (with the bias), k classes; mean (d, k), X (n, d) the features h_x, P (n, k) the
probabilities, w_x the weight of a point, o the elementwise product, 1 (k,) a vector of ones.
    J(mean) = sum_x w_x logsumexp(h_x' mean) - <label_sums, mean> + prior_precision / 2 |mean|^2
Labels enter through label_sums (d, k) = sum_x w_x h_x e_y' alone. J is strictly convex and has one minimum.
The Hessian is never built, only multiplied with:
    Hess V = X' [w (P o XV - P o ((P o XV) 1 1'))] + prior_precision V
A point may have a set A_x of candidate classes in place of a label (see `candidates`). It adds -w_x logsumexp
over A_x of its logits to J. With T its probabilities within A_x, the gradient has P - T in place of P, and
the Hessian subtracts the product with T from that with P. J may then be non-convex; where its curvature is
not positive, that of P alone sets the step length. Passes over the points run in the precision of `features`;
sums over them are kept in double.

The preconditioner is the inverse of the Hessian's diagonal blocks, one per class, approximated so that it
is cheap to build, to apply and to extend. q_xc = w_x p_xc (1 - p_xc) is the curvature of class c at point x:
    C_c = inv(prior_precision I + sum_x r_x h_x h_x' + sum_{x in R_c} (q_xc - r_x) h_x h_x')
        = S - B_c' B_c
A point is uncertain about a few classes and about equally certain of all others. R_c holds the points with c
among their TOP largest q, and r_x is the mean of a point's other q. S (d, d) is shared; B_c has |R_c| rows.
Points with a negligible share are omitted; C_c stays positive definite. A new point adds one row to the B_c
of each of its TOP classes (Sherman-Morrison).

Quasi-Newton steps (`descend`) approach the minimum first, in single precision. s and y (d k,) are the changes
of the mean and of the gradient over a step. The approximate inverse Hessian K is that of L-BFGS, from the
last MEMORY pairs:
    K <- (I - s y' / s'y) K (I - y s' / s'y) + s s' / s'y,    at first K = s'y / y'y I, of the last pair
A step takes two passes over the points, X times the direction and X' times the probabilities; the line search
takes none. Newton's method would need more passes to come near the minimum. The result is used only if its
gradient, in double precision, is smaller than that of the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from array_api_compat import device
from jaxtyping import Float, Int

from everylabel.core.arrays import Array, array_namespace, as_columns, eye, float64
from everylabel.core.candidates import log_sum, shares
from everylabel.core.kernel import cholesky_or_none, inverse_of_precision

TOP = 3  # classes per point that get its full curvature
NEGLIGIBLE = 0.05  # share of a class's variance at a point below which the point is not in B_c
LEAST = 1e-6  # least shared curvature of a point
MEMORY = 5  # pairs; twice as many save no steps
NEAR = 2e-6  # gradient, relative to that at zero weights: about the smallest that single precision resolves
MAX_STEPS = 200  # then Newton's method, with its preconditioner, continues
LARGE = 1e12  # squares above this, or below its inverse, may overflow or underflow in single precision

Pair = tuple[Array, Array, float]  # s, y, s'y


class Preconditioner(NamedTuple):
    """S and B_c of the module docstring."""

    shared: Array  # (d, d) S
    own: tuple[Array | None, ...]  # k times (r_c, d) B_c
    n_points: int  # number of points it was built on

    def apply(self, matrix: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """Return C_c times column c, for all columns."""
        result = matrix.T @ self.shared
        for c, rows in enumerate(self.own):
            if rows is not None:
                result[c, :] -= (rows @ matrix[:, c]) @ rows
        return result.T

    def times(
        self, point: Float[Array, " d"], classes: list[int]
    ) -> tuple[Float[Array, " d"], list[Array], list[float]]:
        """Return S h, then C_c h - S h and h' C_c h for the given classes."""
        shared = self.shared @ point
        variance = float(point @ shared)
        changes, variances = [], []
        for c in classes:
            rows = self.own[c]
            if rows is None:
                changes.append(0.0 * point)
                variances.append(variance)
                continue
            seen = rows @ point
            changes.append(-(seen @ rows))
            variances.append(max(variance - float(seen @ seen), LEAST * variance))
        return shared, changes, variances

    def extend(self, point: Float[Array, " d"], curvature: Float[Array, " k"]) -> Preconditioner:
        """Return the preconditioner with one more point: C_c -= C_c h h' C_c q / (1 + q h' C_c h)."""
        xp: Any = array_namespace(curvature)
        n_top = min(TOP, len(self.own))
        top = [int(c) for c in xp.argsort(curvature, descending=True)[:n_top]]
        shared, changes, variances = self.times(point, top)
        own = list(self.own)
        for c, change, variance in zip(top, changes, variances, strict=True):
            q = float(curvature[c])
            rows = own[c]
            room = rows is None or rows.shape[0] < point.shape[0]
            if room and q * variance > 0.2 * NEGLIGIBLE:
                row = ((shared + change) * (q / (1.0 + q * variance)) ** 0.5)[None, :]
                own[c] = row if rows is None else xp.concat([rows, row])
        return self._replace(own=tuple(own))


def build_preconditioner(
    features: Float[Array, "n d"],
    weights: Float[Array, "n ..."],
    probs: Float[Array, "n k"],
    prior_precision: float,
    n_top: int = TOP,
) -> Preconditioner:
    """Return the preconditioner at these probabilities, in the precision of the features.

    n_top=0 omits all B_c: all classes share one covariance with their mean curvature.
    """
    xp: Any = array_namespace(features)
    n, k = probs.shape
    n_top = min(n_top, k - 1)
    curvature = as_columns(weights) * probs * (1.0 - probs)
    left, top, highest = curvature, [], []
    classes = xp.arange(k, dtype=xp.int64, device=device(features))[None, :]
    for _ in range(n_top):
        top.append(xp.argmax(left, axis=1, keepdims=True))
        highest.append(xp.max(left, axis=1, keepdims=True))
        left = xp.where(classes == top[-1], -xp.ones_like(left), left)
    full = xp.concat(highest, axis=1) if n_top else curvature[:, :0]
    others = (xp.sum(curvature, axis=1) - xp.sum(full, axis=1)) / (k - n_top)
    others = xp.clip(others, LEAST, None)
    shared = xp.astype(_shared(float64(features), float64(others), prior_precision), features.dtype)
    if n_top == 0:
        return Preconditioner(shared, (None,) * k, n)
    seen, at, extra = features @ shared, xp.concat(top, axis=1), full - others[:, None]
    share = extra * xp.sum(seen * features, axis=1)[:, None]
    own = tuple(_own_rows(features, seen, at, extra, share, c) for c in range(k))
    return Preconditioner(shared, own, n)


def _shared(
    features: Float[Array, "n d"], curvature: Float[Array, " n"], prior_precision: float
) -> Float[Array, "d d"]:
    """Return S; with fewer points than features as (I - X' (X X' + prior_precision / r)^-1 X) / prior."""
    xp: Any = array_namespace(features)
    n, d = features.shape
    if n >= d:
        return inverse_of_precision(prior_precision * eye(d, features) + (features.T * curvature) @ features)
    gram = features @ features.T + eye(n, features) * (prior_precision / curvature)
    inverse = (eye(d, features) - features.T @ xp.linalg.solve(gram, features)) / prior_precision
    return 0.5 * (inverse + inverse.T)


def _own_rows(
    features: Float[Array, "n d"],
    seen: Float[Array, "n d"],
    top: Int[Array, "n t"],
    extra: Float[Array, "n t"],
    share: Float[Array, "n t"],
    c: int,
) -> Float[Array, "r d"] | None:
    """Return B_c: S - B_c'B_c = inv(S^-1 + sum_x extra_x h_x h_x') over R_c, by Woodbury."""
    xp: Any = array_namespace(features)
    at, place = xp.nonzero((top == c) & (share > NEGLIGIBLE))
    if at.shape[0] == 0:
        return None
    n_most = max(1, features.shape[1] // 2)
    if at.shape[0] > n_most:  # the strongest are enough, and keep B_c smaller than S
        flat = xp.take(xp.reshape(share, (-1,)), at * share.shape[1] + place)
        kept = xp.argsort(flat, descending=True)[:n_most]
        at, place = xp.take(at, kept), xp.take(place, kept)
    added = xp.take(xp.reshape(extra, (-1,)), at * extra.shape[1] + place)
    through = xp.take(seen, at, axis=0)  # (r, d) rows of X S
    gram = float64(through @ xp.take(features, at, axis=0).T)
    system = 0.5 * (gram + gram.T) + eye(at.shape[0], gram) / float64(added)[:, None]
    factor = cholesky_or_none(system)
    if factor is None:  # features so large that only rounding remains: S alone suffices
        return None
    return xp.astype(xp.linalg.solve(factor, float64(through)), features.dtype)


STEEP = 0.5  # largest slope at a step's end, relative to that at its start
FORCING = 0.1  # share of the squared residual that may remain far from the minimum
MAX_CUTS = 30  # per step; each computes the slope once, without a pass over the features
SMALL = 1e-3  # squared Newton decrement below which a full step cannot overshoot (self-concordance)


class Objective(NamedTuple):
    """J of the module docstring; with sigmoids the sum of k binary objectives."""

    features: Array  # (n, d)
    weights: (
        Array  # (n,), or (n, k) where an instance counts for some classes only; in the features' precision
    )
    label_sums: Array  # (d, k) float64
    prior_precision: float
    link: Callable[[Array], Array]
    candidates: Array | None = None  # (n, k) bool; a row of False where there is a label
    coupled: bool = True  # False: `link` is the sigmoid

    def at(self, mean: Float[Array, "d k"], logits: Float[Array, "n k"]) -> Point:
        """Return the point of a mean and its logits."""
        soft = None if self.candidates is None else shares(logits, self.candidates)
        return Point(mean, logits, self.link(logits), soft)

    def value(self, point: Point) -> float:
        """Return J of a softmax."""
        lost = log_sum(point.logits, point.logits == point.logits)
        lost = lost if self.candidates is None else lost - log_sum(point.logits, self.candidates)
        prior = 0.5 * self.prior_precision * inner(point.mean, point.mean)
        return inner(self.weights, lost) - inner(self.label_sums, point.mean) + prior

    def gradient(self, mean: Float[Array, "d k"], probs: Float[Array, "n k"]) -> Float[Array, "d k"]:
        """Return the gradient at a mean; `probs` are P, or P - T."""
        summed = self.features.T @ (as_columns(self.weights) * probs)
        return float64(summed) - self.label_sums + self.prior_precision * mean

    def curvature_times(self, probs: Float[Array, "n k"], change: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return w (diag(p) - p p') v at each point, v its change of logits (w p (1 - p) v for sigmoids)."""
        xp = array_namespace(change)
        moved = probs * change
        if not self.coupled:
            return as_columns(self.weights) * (moved - probs * moved)
        return self.weights[:, None] * (moved - probs * xp.sum(moved, axis=1, keepdims=True))


class Point(NamedTuple):
    """The current point of a search."""

    mean: Array  # (d, k) float64
    logits: Array  # (n, k) X mean
    probs: Array  # (n, k) link(logits)
    shares: Array | None = None  # (n, k) of points with candidates; None where all have labels

    @property
    def net_probs(self) -> Float[Array, "n k"]:
        """P - T, of which the gradient consists; P if all points have labels."""
        return self.probs if self.shares is None else self.probs - self.shares


class Step(NamedTuple):
    """The result of a Newton step: its end, its squared decrement, and whether the full step was taken."""

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
    """Return the result of one Newton step, whose system is solved only as exactly as needed.

    Conjugate gradients stop when the squared residual, in the norm of the decrement, falls to `enough`
    or to FORCING of its initial value; the factor shrinks near the minimum, which keeps Newton's
    convergence quadratic. They also accumulate X times the step, so the new logits need no extra pass.
    """
    xp: Any = array_namespace(gradient)
    features, dtype = objective.features, objective.features.dtype
    residual = -xp.astype(gradient, dtype)
    descent = precondition(residual)
    energy = decrement = inner(residual, descent)
    enough = max(enough, min(FORCING, decrement) * decrement)
    search, step, change = descent, 0.0, 0.0
    for i in range(max_products):
        seen = features @ search
        bent = convex = objective.curvature_times(start.probs, seen)
        if start.shares is not None:
            bent = convex - objective.curvature_times(start.shares, seen)
        ridge = objective.prior_precision * inner(search, search)
        curvature = inner(seen, bent) + ridge
        if curvature <= 0.0 and i == 0 and start.shares is not None:
            curvature, max_products = inner(seen, convex) + ridge, 1
        if curvature <= 0.0:  # only rounding remains, or J is concave here
            break
        length = energy / curvature
        step, change = step + length * search, change + length * seen
        if energy <= enough or i + 1 == max_products:
            break
        residual = residual - length * (features.T @ bent + objective.prior_precision * search)
        descent = precondition(residual)
        energy, previous = inner(residual, descent), energy
        if energy <= 0.1 * enough:
            break
        search = descent + (energy / previous) * search
    if isinstance(step, float):
        return Step(start, decrement, True)
    return line_search(objective, start, gradient, float64(step), change, decrement)


def line_search(
    objective: Objective,
    start: Point,
    gradient: Float[Array, "d k"],
    step: Float[Array, "d k"],
    change: Float[Array, "n k"],
    decrement: float,
) -> Step:
    """Return the step's end, or an earlier point if J already rises steeply there.

    Where J is convex along the step its slope increases: regula falsi finds where it is nearly zero.
    """
    downhill = -inner(gradient, step)
    flat = inner(objective.prior_precision * start.mean - objective.label_sums, step)
    steady = objective.prior_precision * inner(step, step)
    low, high, length = (0.0, -downhill), (1.0, 0.0), 1.0
    for _ in range(MAX_CUTS):
        logits = start.logits + length * change
        end = objective.at(start.mean + length * step, logits)
        slope = inner(as_columns(objective.weights) * end.net_probs, change) + flat + length * steady
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
    mean = _lbfgs(single, single.at(start.mean, xp.astype(start.logits, xp.float32)), gradient, target)
    end = objective.at(mean, objective.features @ mean)
    left = objective.gradient(end.mean, end.net_probs)
    return end if inner(left, left) < slope else start


def _lbfgs(single: Objective, point: Point, gradient: Array, target: float) -> Float[Array, "d k"]:
    """Return the mean after quasi-Newton steps, at most MAX_STEPS."""
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
        end = line_search(single, point, gradient, float64(step), change, downhill).end
        moved = single.gradient(end.mean, end.net_probs)
        s, y = _flat(end.mean - point.mean), _flat(moved - gradient)
        point, gradient, curved = end, moved, float(s @ y)
        if not curved > 0.0:
            break
        pairs = [*pairs[1 - MEMORY :], (s, y, curved)]
    return point.mean


def _direction(gradient: Float[Array, " m"], pairs: list[Pair]) -> Float[Array, " m"]:
    """Return -K gradient, pair by pair."""
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
