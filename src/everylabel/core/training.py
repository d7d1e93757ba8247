"""Train a last layer: its exact maximum a posteriori (MAP) weights, and their Laplace approximation.

n points, d features (with the bias), k classes; mean (d, k). Quasi-Newton steps come first; few Newton steps
(`newton`) then reach the minimum of J.
With few points the problem is rotated into their span, which contains the minimum.
With two classes the minimum is at mean = (-v/2, v/2), since the gradient's columns are then opposite: v is
the minimum for one column with the sigmoid and half the prior precision, as |v/2|^2 + |v/2|^2 = |v|^2 / 2.
With candidates in place of labels (see `candidates`) J is not convex: a step that ends higher is halved until
it does not.
The Laplace approximation puts a Gaussian on these weights: p(w | D) is about N(mean, H^-1) (Eq. 3, App. C).
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, as_array, from_numpy, to_numpy, zeros
from everylabel.core.candidates import check_candidates
from everylabel.core.checks import (
    check_answers,
    check_choice,
    check_count,
    check_labels,
    check_matrix,
    check_mean,
    check_positive,
    check_shares,
    check_weights,
    described,
    warn_of_outliers,
    with_bias,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances
from everylabel.core.newton import NEAR, Objective, Point, build_preconditioner, descend, inner, newton_step
from everylabel.core.posterior import Posterior, first_data

PAYS = 10  # assumed passes over the features (4 n d k operations each), against a rotation's 4 n^2 d
CLOSE = 0.5  # share of the target that quasi-Newton steps aim at, so that rounding does not miss it
WELL = 0.01  # share of the target that Newton steps aim at: the same minimum, however the data are weighted
SETTLED = 1.0  # squared decrement below which the curvature is nearly that at the minimum
ROUNDING = 1e-12  # relative difference of J below which two values count as equal


def fit_map(
    features: Any,
    labels: Any,
    n_classes: int,
    prior_precision: float = 1.0,
    *,
    weights: Any = None,
    class_weight: Any = None,
    partial: tuple[Any, Any] | None = None,
    init: Any = None,
    soft: bool = False,
    binary: bool = False,
    bias: bool = True,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> Float[Array, "d k"]:
    """Return the maximum a posteriori weights (d+1, k); the last row is the bias.

    Parameters
    ----------
    features, labels : array (n, d), array (n,) or (n, k)
        Training data without a bias column; labels are class numbers. Labels (n, k) are for several classes
        per item: 1 (of this class), 0 (not of it) or NaN (not answered, ignored); each class has a sigmoid.
    n_classes : int
        Number of classes; some may have no instance yet.
    prior_precision : float
        Precision of the Gaussian prior on every weight and on the bias.
    weights : array (n,), optional
        How often each instance counts.
    class_weight : array (k,), dict or "balanced", optional
        A factor on the weight of each class's instances. A dict maps class numbers to factors, 1 for others;
        "balanced" is n / (k * count).
    partial : (array (m, d), bool array (m, k)), optional
        More instances, and which classes each may have: False for classes that are ruled out.
    init : array (d+1, k), optional
        Where to start, for example the weights before the last label.
    soft : bool
        Labels (n, k) are class probabilities of a softmax; each row sums to 1.
    binary : bool
        Train one column with the sigmoid instead of two with the softmax.
    bias : bool
        False for a layer without a bias: the result is then (d, k).
    tol : float
        Stop when the gradient is this small relative to the gradient at zero weights.
    max_iter : int
        Most Newton steps; a warning is issued if they do not suffice.

    Examples
    --------
    >>> mean = el.fit_map(x[:100], y[:100], n_classes=10)
    >>> mean.shape  # 64 features and the bias, 10 classes
    (65, 10)
    """
    array = check_matrix(features, "features")
    warn_of_outliers(array, "features")
    n_classes = check_count(n_classes, "n_classes")
    if binary and n_classes != 2:
        raise EverylabelError(f"n_classes is {n_classes}; expected 2 with binary=True")
    several = not soft and _has_rows(labels)
    check = check_shares if soft else check_answers if several else check_labels
    labels = check(labels, array.shape[0], n_classes, array)
    if array.shape[0] == 0 and partial is None:
        raise EverylabelError("features has no rows; expected at least one instance to train on")
    prior_precision = check_positive(prior_precision, "prior_precision")
    tol, max_iter = check_positive(tol, "tol"), check_count(max_iter, "max_iter")
    weights = check_weights(weights, array.shape[0], array)
    if several and (binary or partial is not None):
        raise EverylabelError(
            f"{'binary' if binary else 'partial'} is given with labels (n, k) of several classes per item; "
            "leave it out: each class has a sigmoid, and NaN stands for a class that is not known"
        )
    if (soft or several) and class_weight is not None:
        raise EverylabelError("class_weight is given with labels (n, k); give weights (n,) instead")
    if not soft and not several:
        weights = weights * _class_weights(class_weight, labels, n_classes, array)
    halved = n_classes == 2 and not binary and partial is None and not several
    kind = LIKELIHOODS["bernoulli" if several else "binary" if binary or halved else "gaussian"]
    k = 1 if binary or halved else n_classes
    candidates = None
    targets = (labels[:, -k:] if k == 1 else labels) if soft else kind.targets(labels, k)
    if partial is not None:
        array, targets, weights, candidates = _joined(array, targets, weights, partial)
    design = with_bias(array) if bias else array
    start = _check_init(init, design, 1 if binary else n_classes)
    label_sums = design.T @ (weights[:, None] * targets)
    weights = kind.counts(labels, weights) if several else weights
    objective = Objective(design, weights, label_sums, prior_precision, kind.link, candidates, kind.coupled)
    if not halved:
        return _trained(objective, start, tol, max_iter)
    xp = array_namespace(design)
    objective = objective._replace(prior_precision=0.5 * prior_precision)
    column = _trained(objective, start[:, 1:] - start[:, :1], tol, max_iter)
    return xp.concat([-0.5 * column, 0.5 * column], axis=1)


def laplace(
    mean: Any,
    features: Any,
    likelihood: str = "gaussian",
    prior_precision: float = 1.0,
    *,
    weights: Any = None,
    classes: Sequence[str] | None = None,
    labels: Any = None,
    keep_data: bool = True,
) -> Posterior:
    """Put a Gaussian posterior on a trained last layer: p(w | D) is about N(mean, H^-1) (Eq. 3).

    Parameters
    ----------
    mean : array (d+1, k)
        The trained weights, one column per class, the bias in the last row; (d, k) for a layer
        without a bias. With likelihood="binary" (d+1,), (d+1, 1), or two softmax columns, whose
        difference is used.
    features : array (n, d)
        The features the layer was trained on, without the bias column, which is added here.
    likelihood : {"gaussian", "categorical", "matrix_normal", "full", "per_class", "binary", \
            "bernoulli", "bernoulli_per_class"}
        The curvature of the loss and the shape of the covariance; see docs/maths.md. The last two are for
        several classes per item.
    prior_precision : float
        Precision of the Gaussian prior on every weight; use the value that `fit_map` trained with.
    weights : array (n,), optional
        How often each instance counts.
    classes : sequence of str, optional
        Names of the k classes, kept with the posterior.
    labels : array (n,) or (n, k), optional
        Class numbers of the instances; with "bernoulli" and "bernoulli_per_class" answers (n, k), 1, 0 or NaN
        where a class was not answered. `update` with method="exact" uses them: with labels it retrains
        on exactly these, without labels it assumes that `mean` is their optimum.
    keep_data : bool
        Keep the instances, which method="exact" and an exact `forget` need. Each update copies
        them, 0.1 ms per 1,000 of 384 features. False gives a posterior whose size does not
        depend on n.

    Returns
    -------
    Posterior
        With `.mean` and `.cov` in float64, of the library and on the device of `features`.

    Examples
    --------
    >>> mean = el.fit_map(x[:100], y[:100], n_classes=10)
    >>> posterior = el.laplace(mean, x[:100], labels=y[:100])
    >>> posterior.mean.shape, posterior.cov.shape
    ((65, 10), (65, 65))
    """
    kind = LIKELIHOODS[check_choice(likelihood, "likelihood", list(LIKELIHOODS))]
    prior_precision = check_positive(prior_precision, "prior_precision")
    like = as_array(mean, "mean") if hasattr(mean, "shape") else None
    array = check_matrix(features, "features", like=like, like_name="mean")
    warn_of_outliers(array, "features")
    mean, bias = check_mean(mean, array, binary=likelihood == "binary")
    design = with_bias(array) if bias else array
    weights = check_weights(weights, design.shape[0], design)
    k = 2 if likelihood == "binary" else int(mean.shape[1])
    names = None if classes is None else tuple(str(name) for name in classes)
    if names is not None and (len(names) != k or len(set(names)) != k):
        raise EverylabelError(f"classes holds {len(names)} names ({len(set(names))} different); expected {k}")
    if labels is not None:
        labels = kind.check(labels, design.shape[0], k, design)
    mean = array_namespace(mean).asarray(mean, copy=True)  # shares no memory with the caller
    counts = weights if labels is None else kind.counts(labels, weights)
    fields = kind.fit(Instances(design, kind.link(design @ mean), counts), prior_precision)
    if keep_data:
        answers = likelihood.startswith("bernoulli")
        fields["data"] = first_data(
            design, weights, labels, mean, prior_precision, kind.link, kind.targets, answers
        )
    return Posterior(
        mean=mean,
        likelihood=likelihood,
        prior_precision=prior_precision,
        bias=bias,
        classes=names,
        **fields,
    )


def _trained(
    objective: Objective, start: Float[Array, "d k"], tol: float, max_iter: int
) -> Float[Array, "d k"]:
    """Return the minimum of J, found in the span of the points where the rotation pays."""
    features, label_sums = objective.features, objective.label_sums
    n, d = features.shape
    if n >= d or (objective.candidates is None and n > PAYS * start.shape[1]):
        return minimise(objective, start, tol, max_iter)
    xp: Any = array_namespace(features)
    # X = R'Q', mean = Q z: the same loss and the same norm with n instead of d unknowns
    rotation, upper = xp.linalg.qr(features.T)
    objective = objective._replace(features=upper.T, label_sums=rotation.T @ label_sums)
    return rotation @ minimise(objective, rotation.T @ start, tol, max_iter)


def minimise(
    objective: Objective, mean: Float[Array, "d k"], tol: float, max_iter: int
) -> Float[Array, "d k"]:
    """Return the minimum of J by quasi-Newton steps from `mean`, and Newton steps if those do not suffice."""
    logits = objective.features @ mean
    point = objective.at(mean, logits)
    at_zero = objective.gradient(0.0 * mean, objective.at(mean, 0.0 * logits).net_probs)
    steepest = inner(at_zero, at_zero) ** 0.5
    target = tol * max(steepest, float(np.finfo(np.float64).tiny))
    gradient = objective.gradient(point.mean, point.net_probs)
    if point.shares is None:
        point = descend(objective, point, gradient, max(CLOSE * target, NEAR * steepest))
    max_products = 2 * mean.shape[0] * mean.shape[1] + 10
    inverse, step = None, None
    for _ in range(max_iter):
        gradient = objective.gradient(point.mean, point.net_probs)
        size = inner(gradient, gradient) ** 0.5
        if size <= target:
            return point.mean
        if inverse is None or step is None or point.shares is not None or step.decrement > SETTLED:
            about = objective.features, objective.weights, point.probs, objective.prior_precision
            inverse = build_preconditioner(*about, n_top=0)
        # squared residual, in the preconditioner's norm, of a gradient well below the target
        enough = (WELL * target / size) ** 2 * inner(gradient, inverse.apply(gradient))
        step = newton_step(objective, point, gradient, inverse.apply, enough, max_products)
        end = step.end
        while point.shares is not None and _is_higher(objective, end, point):
            end = objective.at(0.5 * (point.mean + end.mean), 0.5 * (point.logits + end.logits))
        point = end
    warnings.warn(
        f"fit_map stopped after {max_iter} Newton steps with the gradient at {size:.2g}, "
        f"above {target:.2g}; scale the features, or raise max_iter, tol or prior_precision",
        RuntimeWarning,
        stacklevel=4,
    )
    return point.mean


def _has_rows(labels: Any) -> bool:
    """Return whether labels (an array or a list of lists) have two axes."""
    shape = getattr(labels, "shape", None)
    return len(shape) == 2 if shape is not None else bool(len(labels)) and hasattr(labels[0], "__len__")


def _is_higher(objective: Objective, end: Point, start: Point) -> bool:
    before = objective.value(start)
    return objective.value(end) > before + ROUNDING * abs(before)


def _joined(
    features: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    weights: Float[Array, " n"],
    partial: tuple[Any, Any],
) -> tuple[Array, Array, Array, Array]:
    """Return features, targets and weights with the partial instances appended, and the candidates of all."""
    xp: Any = array_namespace(features)
    if not isinstance(partial, (tuple, list)) or len(partial) != 2:
        raise EverylabelError(
            f"partial is {described(partial)}; expected a pair: features (m, d), and (m, k) of true and false"
        )
    (n, k), more = targets.shape, check_matrix(partial[0], "partial[0]", like=features, like_name="features")
    if k == 1:
        raise EverylabelError(
            "partial is given with binary=True, which has two classes only; expected a label"
        )
    m = int(more.shape[0])
    candidates = check_candidates(partial[1], m, k, more, "partial[1]")
    none = zeros((m, k), features)
    return (
        xp.concat([features, more]),
        xp.concat([targets, none]),
        xp.concat([weights, none[:, 0] + 1.0]),
        xp.concat([zeros((n, k), features) > 0.0, candidates]),
    )


def _class_weights(class_weight: Any, labels: Array, k: int, like: Array) -> Array:
    """Return each instance's class weight."""
    numbers = to_numpy(labels)
    if class_weight is None:
        factors = np.ones(k)
    elif isinstance(class_weight, str):
        check_choice(class_weight, "class_weight", ["balanced"])
        counts = np.bincount(numbers, minlength=k)
        factors = len(numbers) / (max(1, np.count_nonzero(counts)) * np.maximum(counts, 1))
    else:
        if isinstance(class_weight, Mapping):
            check_labels(list(class_weight), len(class_weight), k, numbers, "class_weight")
            class_weight = [class_weight.get(c, 1.0) for c in range(k)]
        each = check_weights(class_weight, k, like, "class_weight", "weight a class")
        factors = np.asarray(to_numpy(each))
    return from_numpy(factors[numbers], like)


def _check_init(init: Any, design: Array, k: int) -> Float[Array, "d k"]:
    shape = (int(design.shape[1]), k)
    if init is None:
        return zeros(shape, design)
    start = check_matrix(init, "init", design, "features", "(d+1, k), as of the result")
    if tuple(start.shape) != shape:
        raise EverylabelError(
            f"init has shape {tuple(start.shape)}; expected {shape}, the shape of the result"
        )
    return start
