"""Quasi-Newton steps in single precision against dense formulas, and two classes as one column."""

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.core import newton
from everylabel.core.likelihoods import LIKELIHOODS
from tests.conftest import design
from tests.core import dense

close = np.testing.assert_allclose


def objective(scale: float = 1.0, n: int = 60, k: int = 4) -> newton.Objective:
    """Return a problem of k classes."""
    rng = np.random.default_rng(0)
    x, y, weights = scale * rng.normal(size=(n, 6)), rng.integers(k, size=n), rng.uniform(0.5, 2.0, n)
    kind = LIKELIHOODS["gaussian"]
    return newton.Objective(x, weights, x.T @ (weights[:, None] * kind.targets(y, k)), 0.7, kind.link)


def from_zero(problem: newton.Objective) -> tuple[newton.Point, np.ndarray]:
    """Return the start of a search, and the gradient there."""
    mean = 0.0 * problem.label_sums
    start = problem.at(mean, problem.features @ mean)
    return start, np.asarray(problem.gradient(mean, start.net_probs))


def test_a_direction_is_that_of_the_dense_formula() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(8, 8))
    steps = rng.normal(size=(3, 8))
    pairs = [(s, y, float(s @ y)) for s, y in zip(steps, steps @ (root @ root.T), strict=True)]
    _, y, curved = pairs[-1]
    inverse = curved / (y @ y) * np.eye(8)
    for s, y, curved in pairs:
        left = np.eye(8) - np.outer(s, y) / curved
        inverse = left @ inverse @ left.T + np.outer(s, s) / curved
    gradient = rng.normal(size=8)
    close(newton._direction(gradient, pairs), -inverse @ gradient, rtol=1e-8)


@pytest.mark.parametrize("k", [2, 4])
def test_steps_end_near_the_minimum(k: int) -> None:
    problem = objective(k=k)
    start, gradient = from_zero(problem)
    target = 1e-5 * float(np.linalg.norm(gradient))
    end = newton.descend(problem, start, gradient, target)
    assert end.mean.dtype == end.logits.dtype == np.float64
    close(end.logits, problem.features @ end.mean)
    assert np.linalg.norm(problem.gradient(end.mean, end.net_probs)) <= 1.5 * target


def test_few_steps_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = objective()
    start, gradient = from_zero(problem)
    monkeypatch.setattr(newton, "MAX_STEPS", 14)  # what they are: with a wrong formula there are more
    end = newton.descend(problem, start, gradient, 0.0)
    assert np.linalg.norm(problem.gradient(end.mean, end.net_probs)) < 1e-3 * np.linalg.norm(gradient)


def test_first_step_length_comes_from_the_curvature_along_the_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = objective(scale=0.1)
    start, gradient = from_zero(problem)
    monkeypatch.setattr(newton, "MAX_STEPS", 1)
    end = newton.descend(problem, start, gradient, 0.0)
    bent = problem.features.T @ problem.curvature_times(start.probs, problem.features @ gradient)
    curvature = np.sum(gradient * (bent + 0.7 * gradient))
    close(end.mean, -np.sum(gradient * gradient) / curvature * gradient, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e20, 1e-20])
def test_values_beyond_single_precision_stay_double(scale: float) -> None:
    problem = objective(scale)
    start, gradient = from_zero(problem)
    assert newton.descend(problem, start, gradient, 0.0) is start


@pytest.mark.parametrize("n", [5, 50])  # fewer and more points than features
@pytest.mark.parametrize("started", [False, True])
def test_two_classes_have_the_minimum_of_two_columns(n: int, started: bool) -> None:
    rng = np.random.default_rng(n)
    x, y, weights = rng.normal(size=(n, 7)), rng.integers(2, size=n), rng.uniform(0.1, 3.0, n)
    init = rng.normal(size=(8, 2)) if started else None
    mean = el.fit_map(x, y, 2, 0.3, weights=weights, init=init)
    close(dense.gradient(mean, design(x), y, weights) + 0.3 * mean, 0.0, atol=1e-6)
    tensors = torch.tensor(x), torch.tensor(y)
    close(el.fit_map(*tensors, 2, 0.3, weights=torch.tensor(weights)).numpy(), mean, atol=1e-6)


def test_two_classes_of_which_all_are_candidates_add_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 4)), rng.integers(2, size=30)
    any_of_both = (rng.normal(size=(3, 4)), np.ones((3, 2), dtype=bool))
    close(el.fit_map(x, y, 2, partial=any_of_both), el.fit_map(x, y, 2), atol=1e-6)
