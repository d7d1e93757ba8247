"""Exact training of the last layer: the maximum a posteriori weights, by Newton's method.

n points, d features (with the bias), k classes; mean (d, k).
    J(mean) = sum_x w_x (logsumexp(h_x' mean) - h_x' mean_y) + prior_precision / 2 |mean|^2
J is strictly convex: there is one minimum, and Newton's steps end at it. Each step is found by
conjugate gradients with products of the Hessian, which is never built:
    Hess V = H' [w (P o HV - P (P o HV) 1 1')] + prior_precision V
preconditioned by one d x d matrix for all classes, (prior_precision I + H' diag(w c) H)^-1 with
c_x the mean curvature of the classes there.
With fewer points than features the problem is rotated into the span of the points first: the
minimum lies there.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Float

from everylabel.core.arrays import Array, eye, from_numpy, to_numpy, zeros
from everylabel.core.checks import (
    check_choice,
    check_count,
    check_labels,
    check_matrix,
    check_positive,
    check_weights,
    with_bias,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.woodbury import inverse_of_precision


def fit_map(
    features: Any,
    labels: Any,
    n_classes: int,
    prior_precision: float = 1.0,
    *,
    weights: Any = None,
    class_weight: Any = None,
    init: Any = None,
    binary: bool = False,
    bias: bool = True,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> Float[Array, "d k"]:
    """Return the maximum a posteriori weights (d+1, k); the last row is the bias.

    Parameters
    ----------
    features, labels : array (n, d), array (n,)
        Training data as it comes; labels are class numbers.
    n_classes : int
        Number of classes; some may have no instance yet.
    prior_precision : float
        Precision of the Gaussian prior on every weight and on the bias.
    weights : array (n,), optional
        How often each instance counts.
    class_weight : array (k,) or "balanced", optional
        A factor on the weight of each class's instances; "balanced" is n / (k * count).
    init : array (d+1, k), optional
        Where to start, for example the weights before the last label.
    binary : bool
        Train one column with the sigmoid instead of two with the softmax.
    bias : bool
        False for a layer without a bias: the result is then (d, k).
    tol : float
        Stop when the gradient is this small against the gradient at zero weights.
    max_iter : int
        Newton steps at most; a warning tells when they do not suffice.
    """
    array = check_matrix(features, "features")
    n_classes = check_count(n_classes, "n_classes")
    if binary and n_classes != 2:
        raise EverylabelError(f"n_classes is {n_classes}; expected 2 with binary=True")
    labels = check_labels(labels, array.shape[0], n_classes, array)
    if array.shape[0] == 0:
        raise EverylabelError("features has no rows; expected at least one instance to train on")
    prior_precision = check_positive(prior_precision, "prior_precision")
    tol, max_iter = check_positive(tol, "tol"), check_count(max_iter, "max_iter")
    weights = check_weights(weights, array.shape[0], array)
    weights = weights * _class_weights(class_weight, labels, n_classes, array)
    design = with_bias(array) if bias else array
    kind = LIKELIHOODS["binary" if binary else "gaussian"]
    k = 1 if binary else n_classes
    start = _check_init(init, design, k)
    xp = array_namespace(design)

    rotation = None
    if design.shape[0] < design.shape[1]:
        # H = R'Q', mean = Q z: the same loss and the same norm with n instead of d unknowns
        rotation, upper = xp.linalg.qr(design.T)
        design, start = upper.T, rotation.T @ start
    problem = Problem(design, kind.targets(labels, k), weights, prior_precision, kind.link)
    mean = minimise(problem, start, tol, max_iter)
    return mean if rotation is None else rotation @ mean


class Problem(NamedTuple):
    """The negative log posterior of a last layer, J in the module's head."""

    features: Float[Array, "n d"]
    targets: Float[Array, "n k"]
    weights: Float[Array, " n"]
    prior_precision: float
    link: Callable[[Array], Array]

    def value(self, mean: Float[Array, "d k"], logits: Float[Array, "n k"]) -> float:
        xp = array_namespace(mean)
        zero = xp.zeros_like(logits[:, :1])
        both = xp.concat([zero, logits], axis=1) if logits.shape[1] == 1 else logits
        top = xp.max(both, axis=1)
        normaliser = top + xp.log(xp.sum(xp.exp(both - top[:, None]), axis=1))
        loss = xp.sum(self.weights * (normaliser - xp.sum(logits * self.targets, axis=1)))
        return float(loss) + 0.5 * self.prior_precision * float(xp.sum(mean * mean))

    def gradient(self, mean: Float[Array, "d k"], probs: Float[Array, "n k"]) -> Float[Array, "d k"]:
        residual = self.weights[:, None] * (probs - self.targets)
        return self.features.T @ residual + self.prior_precision * mean

    def hessian(self, probs: Float[Array, "n k"], v: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """Return the product of the Hessian with a direction."""
        xp = array_namespace(v)
        change = probs * (self.features @ v)
        if v.shape[1] == 1:
            change = change * (1.0 - probs)
        else:
            change = change - probs * xp.sum(change, axis=1, keepdims=True)
        return self.features.T @ (self.weights[:, None] * change) + self.prior_precision * v

    def preconditioner(self, probs: Float[Array, "n k"]) -> Float[Array, "d d"]:
        xp = array_namespace(probs)
        curvature = self.weights * xp.mean(probs * (1.0 - probs), axis=1)
        prior = self.prior_precision * eye(self.features.shape[1], probs)
        return inverse_of_precision(prior + (self.features.T * curvature) @ self.features)


def minimise(problem: Problem, mean: Float[Array, "d k"], tol: float, max_iter: int) -> Float[Array, "d k"]:
    """Return the minimum of J by damped Newton steps from `mean`."""
    xp = array_namespace(mean)
    at_zero = problem.gradient(0.0 * mean, problem.link(0.0 * problem.targets))
    target = tol * max(_norm(at_zero), float(np.finfo(np.float64).tiny))
    logits = problem.features @ mean
    value = problem.value(mean, logits)
    for _ in range(max_iter):
        probs = problem.link(logits)
        gradient = problem.gradient(mean, probs)
        size = _norm(gradient)
        if size <= target:
            return mean
        direction = _newton_direction(
            problem, probs, gradient, max(0.1 * target, min(0.1, size / _norm(at_zero)) * size)
        )
        slope = float(xp.sum(gradient * direction))
        change = problem.features @ direction
        step = 1.0
        while True:  # halve the step until J falls enough (Armijo); rounding ends it at the minimum
            trial, trial_logits = mean + step * direction, logits + step * change
            trial_value = problem.value(trial, trial_logits)
            if trial_value <= value + 1e-4 * step * slope + 1e-14 * abs(value):
                break
            step *= 0.5
            if step < 1e-10:
                return mean
        mean, logits, value = trial, trial_logits, trial_value
    warnings.warn(
        f"fit_map stopped after {max_iter} Newton steps with the gradient at {_norm(gradient):.2g}, "
        f"above {target:.2g}; scale the features, or raise max_iter, tol or prior_precision",
        RuntimeWarning,
        stacklevel=3,
    )
    return mean


def _newton_direction(
    problem: Problem, probs: Float[Array, "n k"], gradient: Float[Array, "d k"], accuracy: float
) -> Float[Array, "d k"]:
    """Return -Hess^-1 gradient by preconditioned conjugate gradients, to the accuracy asked for."""
    xp = array_namespace(gradient)
    precondition = problem.preconditioner(probs)
    direction = xp.zeros_like(gradient)
    residual = -gradient
    search = precondition @ residual
    energy = float(xp.sum(residual * search))
    for _ in range(2 * gradient.shape[0] * gradient.shape[1] + 10):
        curved = problem.hessian(probs, search)
        step = energy / float(xp.sum(search * curved))
        direction = direction + step * search
        residual = residual - step * curved
        if _norm(residual) <= accuracy:
            break
        turned = precondition @ residual
        energy, previous = float(xp.sum(residual * turned)), energy
        search = turned + (energy / previous) * search
    return direction


def _norm(array: Array) -> float:
    xp = array_namespace(array)
    return float(xp.sqrt(xp.sum(array * array)))


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
        factors = np.asarray(to_numpy(check_weights(class_weight, k, like, "class_weight")))
    return from_numpy(factors[numbers], like)


def _check_init(init: Any, design: Array, k: int) -> Float[Array, "d k"]:
    shape = (int(design.shape[1]), k)
    if init is None:
        return zeros(shape, design)
    start = check_matrix(init, "init", like=design)
    if tuple(start.shape) != shape:
        raise EverylabelError(
            f"init has shape {tuple(start.shape)}; expected {shape}, the shape of the result"
        )
    return start
