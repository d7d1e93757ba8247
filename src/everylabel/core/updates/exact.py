"""The update that equals retraining: the mean moves to the optimum over all labels.

n labelled points, b new ones, d features, k classes; one Gaussian N(mean_c, C_c) on the weights of each class
c, with C_c the preconditioner of `core/newton.py`.
    mean_upd = argmin J over all labels (J: `core/newton.py`)                       no step size
    Sigma_upd = H^-1(mean_upd), the new points' curvature added to Sigma^-1         Eq. 6
The search starts at the posterior's mean. A single new label first moves it to that label's own optimum under
these Gaussians (`solve_dual`). Newton steps over all labelled points follow. Each is solved by conjugate
gradients with the C_c as preconditioner. The preconditioner is kept with the data (`Data.preconditioner`) and
rebuilt when the number of labels has grown by GROWTH.

A label's own optimum is a problem of k numbers. f (k,) are the logits of its instance, s (k,) their variances
h' C_c h, w its weight, p = softmax(f + s a). The most probable weights after the label are mean_c + a_c C_c
h, where a (k,) solves
    a = w (e_y - p),
the zero of g = a - w (e_y - p); s g is the gradient of
    D(a) = w (logsumexp(f + s a) - (f + s a)_y) + sum_c s_c a_c^2 / 2.
Newton's matrix is diagonal plus rank one, I + w (diag(p) - p p') diag(s), so a step costs O(k). A step that
goes too far is halved: one at whose end D rises at least STEEP times as steeply as it falls at the start.
`solve_dual` takes these steps for b labels at a time, each label by itself.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, as_columns, float64, softmax
from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances, condition_many
from everylabel.core.newton import Objective, Point, Preconditioner, build_preconditioner, inner, newton_step
from everylabel.core.posterior import Data, Labelled, Posterior
from everylabel.core.training import minimise

TOLERANCE = 2.5e-8  # squared distance to the optimum, per weight, in posterior variances
USUAL = 40.0  # |h|^2 / prior_precision above which TOLERANCE shrinks in proportion
GROWTH = 1.4  # growth of the number of labels at which the preconditioner is rebuilt
REBUILD = 8  # Newton steps after which the preconditioner is rebuilt: the mean has moved far
OWN = 0.01  # least |p_c - e_c| at which class c's own covariance is used for a new label's optimum
MAX_STEPS, MAX_PRODUCTS = 100, 100
HUGE = 1e8  # |h|^2 / prior_precision from which rounding misleads the search, but not training from zero


class Report(NamedTuple):
    """The course of an exact update."""

    steps: int  # Newton steps
    decrement: float  # squared, of the last step: about twice J's distance to its minimum before that step
    whole: bool  # False: the mean was trained from zero, after these steps or at once


def exact(posterior: Posterior, new: Labelled, report: Callable[[Report], Any] | None = None) -> Posterior:
    """Return the posterior retrained on all labels, the new ones included; call `report` with the outcome."""
    kind = LIKELIHOODS[posterior.likelihood]
    posterior, ended = move(posterior, new, kind.targets(new.labels, posterior.mean.shape[1]))
    if report is not None:
        report(ended)
    probs = kind.link(new.features @ posterior.mean)  # Eq. 6 takes the curvature at the new mean
    weights = kind.counts(new.labels, new.weights)
    return condition_many(kind, posterior, Instances(new.features, probs, weights), 1)


def move(posterior: Posterior, new: Labelled, targets: Float[Array, "b k"]) -> tuple[Posterior, Report]:
    """Return the posterior with its mean at the optimum over all labels, with `targets` for the new ones."""
    if posterior.data is None:
        raise EverylabelError(
            "method is 'exact', which retrains on all labels, and this posterior has not kept them; "
            "make it by laplace(..., keep_data=True), or use method='second_order'"
        )
    known = posterior.data
    data = known.append(new, lambda labels, k: targets)
    if new.labels.shape[0] > 1:
        return _search(posterior, data, posterior.mean, _preconditioner(posterior, data))
    return _search(
        posterior, data, *_single_label_start(posterior, new, targets, _preconditioner(posterior, known))
    )


def retrain(posterior: Posterior, data: Data) -> Posterior:
    """Return the posterior with its mean at the optimum over `data`; the covariance stays."""
    return _search(posterior, data, posterior.mean, _preconditioner(posterior, data))[0]


def _search(
    posterior: Posterior, data: Data, mean: Float[Array, "d k"], preconditioner: Preconditioner
) -> tuple[Posterior, Report]:
    """Return the posterior at the optimum over `data`, by Newton steps from `mean`, and a report of them."""
    objective = _objective(posterior, data)
    size = _size(objective)
    if size > HUGE:
        _warn_of_training(size, objective.prior_precision)
        return posterior.replace(mean=_trained(objective), data=data), Report(0, 0.0, False)
    # a squared decrement of e leaves a logit within sqrt(e size) of the optimum's, and a Newton step e^2 size
    larger = max(1.0, size / USUAL)
    tolerance = TOLERANCE * mean.shape[0] * (mean.shape[1] if objective.coupled else 1) / larger
    point = _point(objective, mean)
    for i in range(1, MAX_STEPS + 1):
        gradient = objective.gradient(point.mean, point.probs)
        step = newton_step(objective, point, gradient, preconditioner.apply, tolerance, MAX_PRODUCTS)
        point = step.end
        converged = step.whole and step.decrement**2 * larger <= tolerance
        if converged or not step.decrement > 0.0:  # not positive: the preconditioner holds only rounding
            break
        if i % REBUILD == 0:  # it was built at the probabilities of a mean that is now far away
            preconditioner = _build(objective, point.probs)
    if not converged:  # a distant start, or features of large norm
        point = point._replace(mean=_trained(objective))
    data = replace(data, preconditioner=preconditioner)
    return posterior.replace(mean=point.mean, data=data), Report(i, step.decrement, converged)


def _size(objective: Objective) -> float:
    """Return the mean |h|^2 / prior_precision."""
    squared = inner(objective.features, objective.features) / max(1, objective.features.shape[0])
    return squared / objective.prior_precision


def _single_label_start(
    posterior: Posterior, new: Labelled, targets: Float[Array, "1 k"], preconditioner: Preconditioner
) -> tuple[Float[Array, "d k"], Preconditioner]:
    """Return the mean at one new label's own optimum, and the preconditioner extended by its instance.

    The mean of class c is mean_c + a_c C_c h; `solve_dual` finds a.
    """
    xp: Any = array_namespace(posterior.mean)
    kind = LIKELIHOODS[posterior.likelihood]
    point = xp.astype(new.features[0, :], preconditioner.shared.dtype)
    logits = new.features @ posterior.mean
    weights = as_columns(kind.counts(new.labels, new.weights))
    # only classes whose probability is far from the label need their own covariance; the rest share S
    far = xp.where(weights > 0.0, xp.abs(kind.link(logits) - targets), 0.0 * logits)[0, :]
    classes = [int(c) for c in xp.nonzero(far > OWN)[0]]
    shared, changes, variances = preconditioner.times(point, classes)
    variance = xp.full_like(logits, float(point @ shared))
    for c, value in zip(classes, variances, strict=True):
        variance[0, c] = value
    if kind.coupled:
        a = solve_dual(logits, targets, variance, new.weights)
    else:  # sigmoids: a separate problem of one number for each class
        f, each, spread = (xp.reshape(part, (-1, 1)) for part in (logits, targets, variance))
        a = xp.reshape(solve_dual(f, each, spread, (weights + 0.0 * logits)[0, :]), logits.shape)
    mean = posterior.mean + float64(shared)[:, None] * a
    for c, change in zip(classes, changes, strict=True):
        mean[:, c] += float(a[0, c]) * float64(change)
    probs = kind.link(new.features @ mean)
    return mean, preconditioner.extend(point, (weights * probs * (1.0 - probs))[0, :])


def _preconditioner(posterior: Posterior, data: Data) -> Preconditioner:
    """Return the data's preconditioner, rebuilt if the labels have grown by GROWTH since."""
    built = data.preconditioner
    if built is not None and data.labels.shape[0] <= GROWTH * built.n_points:
        return built
    objective = _objective(posterior, data)
    return _build(objective, _point(objective, posterior.mean).probs)


def _build(objective: Objective, probs: Float[Array, "n k"]) -> Preconditioner:
    return build_preconditioner(objective.features, objective.weights, probs, objective.prior_precision)


def _objective(posterior: Posterior, data: Data) -> Objective:
    xp: Any = array_namespace(data.weights)
    kind = LIKELIHOODS[posterior.likelihood]
    weights = xp.astype(kind.counts(data.labels, data.weights), data.features.dtype, copy=False)
    prior = posterior.prior_precision
    return Objective(data.features, weights, data.label_sums, prior, kind.link, coupled=kind.coupled)


def _point(objective: Objective, mean: Float[Array, "d k"]) -> Point:
    xp: Any = array_namespace(mean)
    return objective.at(mean, objective.features @ xp.astype(mean, objective.features.dtype))


def _trained(objective: Objective) -> Float[Array, "d k"]:
    """Return the optimum by `fit_map`'s own search from zero, in double precision."""
    exactly = objective._replace(features=float64(objective.features), weights=float64(objective.weights))
    return minimise(exactly, 0.0 * objective.label_sums, 1e-8, MAX_STEPS)


def _warn_of_training(size: float, prior_precision: float) -> None:
    """Warn that the features are too large for a search from the last mean."""
    norm = (size * prior_precision) ** 0.5
    warnings.warn(
        f"method 'exact' trained on all labels from zero: features have a norm of about {norm:.2g} and "
        f"prior_precision is {prior_precision:g}, too large for a search from the last mean; scale the "
        "features to a norm of about 10 for updates that are fast and precise",
        EverylabelWarning,
        stacklevel=6,  # the caller of update
    )


ROUGH = 1e-2  # tolerance of a, relative to the weight: the steps over all labels refine it
STEEP = 0.9  # largest slope at a step's end, relative to that at its start
MAX_CUTS = 20


def solve_dual(
    f: Float[Array, "b k"],
    labels: Float[Array, "b k"],
    variance: Float[Array, "b k"],
    weights: Float[Array, " b"],
    tolerance: float = ROUGH,
) -> Float[Array, "b k"]:
    """Return a (see the module docstring) for each row; `labels` are e_y. k = 1 takes the sigmoid as link."""
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
        seen = variance * step  # change of the logits
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
