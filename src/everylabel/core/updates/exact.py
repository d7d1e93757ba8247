"""The update that equals retraining: the mean goes to the optimum over all labels there are.

n labelled points, b new ones, d features, k classes.
    mean_upd = argmin J over all labels                                             no step size
    Sigma_upd = H^-1(mean_upd, Sigma, D+)                                           Eq. 6
A new label first moves the mean to its own exact answer under one Gaussian a class (`dual`), which
leaves little to do; Newton steps over all labelled points, solved by conjugate gradients with
those Gaussians as preconditioner, do the rest. Logits and preconditioner are carried along from
label to label; when the labels have grown by GROW, another one has been built in parts.
While labels are few all of this happens in their own space (`span`).
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, can_compile, float64
from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.core.labelled import Change, Data, Labelled
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances, Likelihood, condition_many
from everylabel.core.likelihoods.shared import SharedCovariance
from everylabel.core.newton import Objective, Point, inner, newton_step
from everylabel.core.posterior import Posterior
from everylabel.core.preconditioner import Coming, Preconditioner, begin
from everylabel.core.training import minimise
from everylabel.core.updates import span
from everylabel.core.updates.dual import solve_dual

GROW, LEAST_GROWTH = 1.4, 10  # the preconditioner is renewed when the labels grew by both,
BEGIN = 0.6  # begun when they have come this share of the way, and built in parts, one a label
COMPILED_AFTER = 3  # searches in the span: to load compiled loops takes as long as hundreds of them
SOON = 45  # labels before there are too many for `span` at which the one that is needed then is begun
MOST_OWN = 0.5  # of a variance: what an instance's own curvature is taken to have taken off at most
ONE_BY_ONE = 64  # labels taken back or changed that begin at their own answers; more are solved for anew
CATCH_UP = 3  # points that a label extends it by at most
OWN = 0.01  # residual from which a class's own covariance counts in a new label's answer
LAST = 0.02  # a Newton step that began below this squared decrement (about nats) is the last,
RELATIVE = 1e-3  # or below this share of prior_precision |mean|^2, where that is less
LEAST = 1e-12  # squared decrement that is rounding only
SHARP = 400.0  # |h|^2 / prior_precision from which a decrement must be smaller
HUGE = 1e6  # |h|^2 / prior_precision from which a search that does not end is the features' fault
MAX_STEPS, MAX_PRODUCTS = 100, 20
PATIENCE = 3  # Newton steps before the preconditioner may be out of date: it is
SLOW = 0.3  # where they do not shorten the squared decrement to this share


class Report(NamedTuple):
    """How an exact update ended."""

    steps: int  # Newton steps; in the span of the labels, lines of a search by conjugate gradients
    decrement: float  # squared, of the last of them: about twice J's distance to its minimum before it
    whole: bool  # the last step was small and not cut; False: training from zero took over


class Work(NamedTuple):
    """Where a search stands; the next one begins there, if it is at this very mean."""

    mean: Array  # (d, k)
    logits: Array  # (n, k)
    preconditioner: Preconditioner


class Left(NamedTuple):
    """What a search leaves to the next: where it stands, and a preconditioner that is being built."""

    at: Work | span.Place
    coming: Coming | None
    searches: int = 0  # in the span, one behind the other, that have led there


_left: WeakKeyDictionary[Data, Left] = WeakKeyDictionary()  # by the labels solved for; gone with them


def exact(posterior: Posterior, new: Labelled, report: Callable[[Report], Any] | None = None) -> Posterior:
    """Return the posterior retrained on all labels, the new ones included; tell `report` how it ended."""
    kind = LIKELIHOODS[posterior.likelihood]
    posterior, ended = move(posterior, new, kind.targets(new.labels, posterior.mean.shape[1]))
    if report is not None:
        report(ended)
    if isinstance(kind, SharedCovariance) and kind.is_constant:
        return kind.condition_later(posterior, new.features, new.weights)
    probs = kind.link(new.features @ posterior.mean)  # Eq. 6 takes the curvature at the new mean
    return condition_many(kind, posterior, Instances(new.features, probs, new.weights), 1)


def move(posterior: Posterior, new: Labelled, targets: Float[Array, "b k"]) -> tuple[Posterior, Report]:
    """Return the posterior with its mean at the optimum over all labels, the new ones being these targets."""
    known = _known(posterior).counted(LIKELIHOODS[posterior.likelihood].targets)
    data = known.append(new, lambda labels, k: targets)
    n, b = int(known.labels.shape[0]), int(new.labels.shape[0])
    if b > max((GROW - 1.0) * n, LEAST_GROWTH):  # too many for their answers one by one to be of use
        return _solved(posterior, data, _fresh(posterior, data), None)
    xp: Any = array_namespace(targets)
    rows = xp.arange(n, n + b, dtype=xp.int64, device=device(targets))
    change = Change(rows, xp.zeros_like(new.weights), xp.zeros_like(targets), targets)
    left = _last_left(posterior, known)
    if span.suits(data):
        place = _place(posterior, known, left)
        ended = None if place is None else span.move(_problem(posterior, data, left), place, change)
        if ended is not None:
            return _ended(posterior, data, ended, left)
    work = _carried_on(posterior, known, left)
    design = float64(data.features[n:, :]) @ work.mean
    logits = xp.concat([work.logits, xp.astype(design, work.logits.dtype)])
    return _solved(posterior, data, _first_guess(work._replace(logits=logits), posterior, data, change), left)


def turn(posterior: Posterior, data: Data, change: Change | None = None) -> Posterior:
    """Return the posterior with its mean at the optimum over `data`; the covariance stays.

    `change` is where the data differ from the posterior's own, if that is at few of the same rows.
    """
    known = _known(posterior)
    if change is None:
        return _anew(posterior, data)
    if change.rows.shape[0] == 0:  # of weight 0
        return posterior.replace(data=data)
    left = _last_left(posterior, known)
    if span.suits(data):
        place = _place(posterior, known, left)
        ended = None if place is None else span.turn(_problem(posterior, data, left), place, change)
        if ended is not None:
            return _ended(posterior, data, ended, left)[0]
    if change.rows.shape[0] > ONE_BY_ONE:
        return _solved(posterior, data, _fresh(posterior, data), None)[0]
    work = _first_guess(_carried_on(posterior, known, left), posterior, data, change)
    return _solved(posterior, data, work, left)[0]


def _anew(posterior: Posterior, data: Data) -> Posterior:
    """Return the posterior with its mean at the optimum over `data`, from where it is."""
    if span.suits(data):
        problem = _problem(posterior, data)
        place = span.enter(problem, posterior.mean)
        ended = None if place is None else span.settle(problem, place)
        if ended is not None:
            return _ended(posterior, data, ended, None)[0]
    return _solved(posterior, data, _fresh(posterior, data), None)[0]


def _last_left(posterior: Posterior, data: Data) -> Left | None:
    """Return what the last search left, if it was at this very mean and over as many instances."""
    left = _left.get(_known(posterior))
    if left is None or left.at.mean is not posterior.mean:
        return None
    n = left.at.pull.shape[1] if isinstance(left.at, span.Place) else left.at.logits.shape[0]
    return left if n == data.labels.shape[0] else None


def _problem(posterior: Posterior, data: Data, left: Left | None = None) -> span.Problem:
    objective = _objective(posterior, data)
    prior, ease = posterior.prior_precision, _ease(objective)
    often = left is not None and left.searches >= COMPILED_AFTER
    return span.Problem(
        data,
        objective.features,
        objective.weights,
        prior,
        objective.link,
        lambda squared: _last(squared, objective, ease),
        often and posterior.mean.shape[1] > 1 and can_compile(),
    )


def _place(posterior: Posterior, known: Data, left: Left | None) -> span.Place | None:
    """Return where the last search in the span has ended, or where one may begin."""
    if left is not None and isinstance(left.at, span.Place):
        return left.at
    return span.enter(_problem(posterior, known), posterior.mean) if span.suits(known) else None


def _ended(
    posterior: Posterior, data: Data, ended: span.Ended, left: Left | None
) -> tuple[Posterior, Report]:
    due = len(data.weights) >= span.most(data) - SOON
    searches = 1 if left is None else left.searches + 1
    _left[data] = Left(ended.place, _further(posterior, data, ended.probs.T, left, due), searches)
    return posterior.replace(mean=ended.place.mean, data=data), Report(ended.steps, ended.decrement, True)


def _further(
    posterior: Posterior, data: Data, probs: Float[Array, "n k"], left: Left | None, due: bool
) -> Coming | None:
    """Return the preconditioner that is being built a part further, or its beginning if it is due."""
    if left is not None and left.coming is not None:
        return left.coming if left.coming.ready else left.coming.advance()
    if not due:
        return None
    return _begun(_objective(posterior, data), probs)


def _begun(objective: Objective, probs: Float[Array, "n k"]) -> Coming:
    """Return the beginning of a preconditioner at these probabilities."""
    return begin(objective.features, objective.weights, probs, objective.prior_precision)


def _growth(preconditioner: Preconditioner) -> float:
    """Return the number of labels after which another one is wanted."""
    return max((GROW - 1.0) * preconditioner.n_points, float(LEAST_GROWTH))


def _last(squared: float, objective: Objective, ease: float) -> float:
    """Return the squared decrement below which a Newton step is the last; `squared` is |mean|^2."""
    return max(ease * min(LAST, RELATIVE * objective.prior_precision * squared), LEAST)


def _known(posterior: Posterior) -> Data:
    if posterior.data is None:
        raise EverylabelError(
            "method is 'exact', which retrains on all labels, and this posterior has not kept them; "
            "make it by laplace(..., keep_data=True), or use method='second_order'"
        )
    return posterior.data


def _objective(posterior: Posterior, data: Data) -> Objective:
    xp: Any = array_namespace(data.weights)
    weights = xp.astype(data.weights, data.features.dtype, copy=False)
    link = LIKELIHOODS[posterior.likelihood].link
    return Objective(data.features, weights, data.label_sums, posterior.prior_precision, link)


def _fresh(posterior: Posterior, data: Data, preconditioner: Preconditioner | None = None) -> Work:
    """Return the start of a search from the posterior's mean, with nothing else carried over."""
    xp: Any = array_namespace(posterior.mean)
    objective = _objective(posterior, data)
    logits = objective.features @ xp.astype(posterior.mean, objective.features.dtype)
    if preconditioner is None:
        probs = objective.link(logits)
        preconditioner = _begun(objective, probs).finish()
    return Work(posterior.mean, logits, preconditioner)


def _carried_on(posterior: Posterior, data: Data, left: Left | None) -> Work:
    """Return the start of a search with what the last one left, if it is still of use."""
    if left is None:
        return _fresh(posterior, data)
    if isinstance(left.at, Work):
        built = left.at.preconditioner
        if data.labels.shape[0] < built.n_points + _growth(built):
            return left.at
    return _fresh(posterior, data, None if left.coming is None else left.coming.finish())


def _first_guess(work: Work, posterior: Posterior, data: Data, change: Change) -> Work:
    """Return the work with each label that is new or has changed moved to its own exact answer, in turn.

    What it pulls by, w (e_y - p), goes from a to a'. Of an instance that is not new C_c holds
    the curvature q: without it, s = h' C_c h is s / (1 - q s), and C_c h as much longer.
    """
    xp: Any = array_namespace(work.mean)
    objective = _objective(posterior, data)
    mean, logits, preconditioner = work.mean, work.logits, work.preconditioner
    kind = LIKELIHOODS[posterior.likelihood]
    for i, row in enumerate(int(row) for row in change.rows):
        point, target, before = objective.features[row, :], change.targets[i, :], float(change.weights[i])
        f = float64(logits[row, :])
        probs = kind.link(f[None, :])[0, :]
        a = change.sums[i, :] - before * probs
        far = xp.maximum(xp.abs(probs - target), xp.abs(a))
        own = [int(c) for c in xp.nonzero(far > OWN)[0]]
        shared, changes, variances = preconditioner.times(point, own)
        variance = xp.full_like(f, float(point @ shared))
        for c, value in zip(own, variances, strict=True):
            variance[c] = value
        longer = 1.0 / xp.maximum(1.0 - before * probs * (1.0 - probs) * variance, 1.0 - MOST_OWN)
        alone = longer * variance
        now = data.weights[row : row + 1]
        moved = solve_dual((f - alone * a)[None, :], target[None, :], alone[None, :], now)[0, :] - a
        moved = longer * moved
        mean = mean + float64(shared)[:, None] * moved[None, :]  # mean_c += a_c C_c h
        logits = logits + (objective.features @ shared)[:, None] * xp.astype(moved, logits.dtype)[None, :]
        if own:
            along = xp.stack([float(moved[c]) * more for c, more in zip(own, changes, strict=True)], axis=1)
            seen = objective.features @ along
            for j, c in enumerate(own):
                mean[:, c] += float64(along[:, j])
                logits[:, c] += seen[:, j]
        for at in range(preconditioner.n_known, min(preconditioner.n_known + CATCH_UP, row + 1)):
            bent = _curvature(kind, data, logits, at)
            preconditioner = preconditioner.extend(objective.features[at, :], bent)
        if row < preconditioner.n_known and before > 0.0:  # as bent as it is now
            more = xp.clip(_curvature(kind, data, logits, row) - before * probs * (1.0 - probs), 0.0, None)
            known = preconditioner.n_known
            preconditioner = preconditioner.extend(point, more)._replace(n_known=known)
    return Work(mean, logits, preconditioner)


def _curvature(kind: Likelihood, data: Data, logits: Float[Array, "n k"], row: int) -> Float[Array, " k"]:
    """Return w p (1 - p) of one instance."""
    probs = kind.link(float64(logits[row, :])[None, :])[0, :]
    return float(data.weights[row]) * probs * (1.0 - probs)


def _solved(posterior: Posterior, data: Data, work: Work, left: Left | None) -> tuple[Posterior, Report]:
    """Return the posterior at the optimum over `data`, and how it got there; leave the work to the next."""
    objective, preconditioner = _objective(posterior, data), work.preconditioner
    point = Point(work.mean, work.logits, objective.link(work.logits))
    ease, before = _ease(objective), 0.0
    for i in range(1, MAX_STEPS):
        gradient = objective.gradient(point.mean, point.probs)
        last = _last(inner(point.mean, point.mean), objective, ease)
        step = newton_step(objective, point, gradient, preconditioner.apply, LAST * last, MAX_PRODUCTS)
        point = step.end
        there = step.whole and abs(step.decrement) <= last
        if there or not step.decrement >= -last:  # g'C g < 0, or not a number: C is rounding only
            break
        if i % PATIENCE == 0 and step.decrement > SLOW * before:
            preconditioner = _begun(objective, point.probs).finish()
        before = step.decrement
    if not there:  # a start far off, or features of large norm: train from zero
        _warn_of_training(objective)
        point = _trained(objective, point)
    due = data.labels.shape[0] >= preconditioner.n_points + BEGIN * _growth(preconditioner)
    if left is not None and left.coming is not None and left.coming.n_points <= preconditioner.n_points:
        left = None  # it has been taken already
    coming = _further(posterior, data, point.probs, left, due)
    if coming is not None and coming.ready:
        preconditioner, coming = coming.finish(), None
    _left[data] = Left(Work(point.mean, point.logits, preconditioner), coming)
    return posterior.replace(mean=point.mean, data=data), Report(i, step.decrement, there)


def _ease(objective: Objective) -> float:
    """Return 1 for features of usual norm, less for larger ones, or for labels that count more.

    A squared decrement of e moves a logit by up to sqrt(e |h|^2 / prior_precision).
    """
    some = objective.features[: min(64, objective.features.shape[0]), :]
    squared = float(np.vdot(some, some)) if isinstance(some, np.ndarray) else inner(some, some)
    xp: Any = array_namespace(objective.weights)
    heavy = max(1.0, float(xp.sum(objective.weights)) / max(1, objective.features.shape[0]))
    sharpness = heavy * squared / max(1, some.shape[0]) / objective.prior_precision
    return min(1.0, SHARP / max(sharpness, 1e-300))


def _warn_of_training(objective: Objective) -> None:
    """Tell that features are so large that no search from the last mean can be hoped for."""
    squared = inner(objective.features, objective.features) / max(1, objective.features.shape[0])
    if squared < HUGE * objective.prior_precision:
        return
    warnings.warn(
        f"method 'exact' trained on all labels from zero, as its search from the last mean did not end: "
        f"features have a norm of about {squared**0.5:.2g} and prior_precision is "
        f"{objective.prior_precision:g}; scale the features to a norm of about 10 for updates that are fast "
        "and precise",
        EverylabelWarning,
        stacklevel=6,  # whoever called update
    )


def _trained(objective: Objective, point: Point) -> Point:
    """Return the optimum by `fit_map`'s own search, in double precision."""
    exactly = objective._replace(features=float64(objective.features), weights=float64(objective.weights))
    mean = minimise(exactly, 0.0 * point.mean, 1e-8, MAX_STEPS)
    logits = exactly.features @ mean
    probs = objective.link(logits)
    xp: Any = array_namespace(logits)
    dtype = point.logits.dtype
    return Point(mean, xp.astype(logits, dtype), xp.astype(probs, dtype))
