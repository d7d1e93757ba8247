"""The parts of the exact update, each against its slow twin."""

from functools import partial
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.optimize import root

from everylabel.core import newton
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.newton import Objective, Point, Preconditioner, build_preconditioner, newton_step
from everylabel.core.posterior import Labelled, Posterior
from everylabel.core.updates import exact
from everylabel.core.updates.exact import solve_dual

close = np.testing.assert_allclose
SEEDS = st.integers(0, 2**32 - 1)


def softmax(f: Any) -> Any:
    e = np.exp(f - f.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@hypothesis.given(
    seed=SEEDS, b=st.integers(1, 4), k=st.integers(2, 8), spread=st.sampled_from([0.1, 3.0, 30.0])
)
def test_dual_solves_its_equation(seed: int, b: int, k: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    f, variance, weights = (
        spread * rng.normal(size=(b, k)),
        spread * rng.uniform(size=(b, k)),
        rng.uniform(0.2, 4, b),
    )
    labels = np.eye(k)[rng.integers(k, size=b)]
    a = solve_dual(f, labels, variance, weights, tolerance=1e-11)
    for i in range(b):

        def equation(at: Any, i: int = i) -> Any:
            return at - weights[i] * (labels[i] - softmax(f[i] + variance[i] * at))

        close(a[i], root(equation, a[i] + 0.01, tol=1e-12).x, atol=1e-8)
        close(equation(a[i]), 0.0, atol=1e-8)


def test_dual_of_one_column_is_the_sigmoids() -> None:
    f, label, variance, weights = np.array([[0.3]]), np.array([[1.0]]), np.array([[2.0]]), np.array([1.7])
    a = solve_dual(f, label, variance, weights, tolerance=1e-11)
    close(a, 1.7 * (1.0 - 1.0 / (1.0 + np.exp(-(0.3 + 2.0 * a)))), atol=1e-9)


def _dense(features: Any, weights: Any, probs: Any, prior: float, n_top: int) -> Any:
    """Return C_c of the module's head by loops and inverses."""
    (n, d), k = features.shape, probs.shape[1]
    q = weights[:, None] * probs * (1 - probs)
    precision = [prior * np.eye(d) for _ in range(k)]
    for x in range(n):
        order = np.argsort(-q[x], kind="stable")
        own, others = order[:n_top], max(np.mean(q[x, order[n_top:]]), 1e-6)
        for c in range(k):
            precision[c] += (q[x, c] if c in own else others) * np.outer(features[x], features[x])
    return [np.linalg.inv(p) for p in precision]


@pytest.fixture
def nothing_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "NEGLIGIBLE", 0.0)


@pytest.mark.usefixtures("nothing_left_out")
@hypothesis.given(seed=SEEDS, n=st.integers(1, 12), k=st.integers(1, 6))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_preconditioner_equals_dense_inverses(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    d, prior = 24 if seed % 2 else 6, 0.4  # fewer and more points than features
    n = min(n, d // 2)  # the number of rows is limited
    features, weights = rng.normal(size=(n, d)), rng.uniform(0.2, 3.0, n)
    probs = softmax(2 * rng.normal(size=(n, k))) if k > 1 else rng.uniform(size=(n, 1))
    built = build_preconditioner(features, weights, probs, prior)
    expected = _dense(features, weights, probs, prior, min(3, k - 1))
    matrix = rng.normal(size=(d, k))
    close(built.apply(matrix), np.stack([expected[c] @ matrix[:, c] for c in range(k)], axis=1), rtol=1e-6)

    shared, changes, variances = built.times(features[0], list(range(k)))
    for c in range(k):
        close(shared + changes[c], expected[c] @ features[0], rtol=1e-6, atol=1e-8)
        close(variances[c], features[0] @ expected[c] @ features[0], rtol=1e-6)

    point, q = rng.normal(size=d), rng.uniform(size=k)
    extended = built.extend(point, q)
    for c in range(k):
        own = q[c] if c in np.argsort(-q)[:3] else 0.0
        after = np.linalg.inv(np.linalg.inv(expected[c]) + own * np.outer(point, point))
        column = extended.apply(np.outer(point, np.eye(k)[c]))[:, c]
        close(column, after @ point, rtol=1e-5, atol=1e-8)


@pytest.mark.usefixtures("nothing_left_out")
def test_optimum_of_one_label_equals_that_under_one_gaussian_per_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact, "OWN", -1.0)
    monkeypatch.setattr(exact, "solve_dual", partial(solve_dual, tolerance=1e-12))
    rng = np.random.default_rng(0)
    n, d, k, prior, weight = 9, 20, 4, 0.4, 1.7
    features, mean, h = rng.normal(size=(n, d)), rng.normal(size=(d, k)), rng.normal(size=d)
    probs, target = softmax(features @ mean), np.eye(k)[1]
    covs = _dense(features, np.ones(n), probs, prior, 3)
    post = Posterior(mean, np.eye(d), prior_precision=prior, bias=False)
    new = Labelled(h[None, :], np.array([1]), np.array([weight]))
    moved, _ = exact._single_label_start(
        post, new, target[None, :], build_preconditioner(features, np.ones(n), probs, prior)
    )

    def equation(a: Any) -> Any:
        return a - weight * (target - softmax(h @ mean + np.array([h @ cov @ h for cov in covs]) * a))

    a = root(equation, np.zeros(k), tol=1e-12).x
    close(moved, mean + np.stack([a[c] * covs[c] @ h for c in range(k)], axis=1), rtol=1e-5, atol=1e-6)


@hypothesis.given(seed=SEEDS, n_top=st.sampled_from([0, 3]))
def test_preconditioner_is_positive_definite_whatever_is_left_out(seed: int, n_top: int) -> None:
    rng = np.random.default_rng(seed)
    n, d, k = 40, 6, 5
    features, weights = 10 * rng.normal(size=(n, d)), rng.uniform(0.0, 3.0, n)
    built = build_preconditioner(features, weights, softmax(5 * rng.normal(size=(n, k))), 0.1, n_top)
    for _ in range(5):
        built = built.extend(10 * rng.normal(size=d), rng.uniform(0, 0.25, size=k))
    for c in range(k):
        block = np.stack([built.apply(np.outer(e, np.eye(k)[c]))[:, c] for e in np.eye(d)])
        assert np.all(np.linalg.eigvalsh(block) > 0)


def test_shared_preconditioner_has_the_mean_curvature() -> None:
    rng = np.random.default_rng(0)
    features, weights = rng.normal(size=(9, 4)), rng.uniform(size=9)
    probs = softmax(rng.normal(size=(9, 5)))
    built = build_preconditioner(features, weights, probs, 0.7, 0)
    assert isinstance(built, Preconditioner)
    mean = weights * np.mean(probs * (1 - probs), axis=1)
    close(built.shared, np.linalg.inv(0.7 * np.eye(4) + features.T @ np.diag(mean) @ features))


def _problem(seed: int, k: int) -> tuple[Objective, Point, Any]:
    rng = np.random.default_rng(seed)
    n, d = 12, 4
    features, weights = rng.normal(size=(n, d)), rng.uniform(0.2, 3.0, n)
    link = LIKELIHOODS["binary" if k == 1 else "gaussian"].link
    objective = Objective(features, weights, rng.normal(size=(d, k)), 0.3, link)
    mean = 0.3 * rng.normal(size=(d, k))
    point = Point(mean, features @ mean, link(features @ mean))
    return objective, point, objective.gradient(mean, point.probs)


def _hessian(objective: Objective, mean: Any) -> Any:
    """Return the Hessian by differences of the gradient."""

    def gradient(flat: Any) -> Any:
        w = flat.reshape(mean.shape)
        return objective.gradient(w, objective.link(objective.features @ w)).ravel()

    steps = 1e-5 * np.eye(mean.size)
    columns = [(gradient(mean.ravel() + e) - gradient(mean.ravel() - e)) / 2e-5 for e in steps]
    return np.stack(columns, axis=1)


@pytest.fixture
def whole_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve every step fully and take the full step."""
    monkeypatch.setattr(newton, "FORCING", 0.0)
    monkeypatch.setattr(newton, "SMALL", np.inf)


@pytest.mark.usefixtures("whole_steps")
@hypothesis.given(seed=SEEDS, k=st.sampled_from([1, 3]))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_newton_step_is_the_dense_one(seed: int, k: int) -> None:
    objective, start, gradient = _problem(seed, k)
    dense = -np.linalg.solve(_hessian(objective, start.mean), gradient.ravel()).reshape(gradient.shape)
    step = newton_step(objective, start, gradient, lambda r: r, 1e-22, 200)
    close(step.end.mean - start.mean, dense, rtol=1e-5, atol=1e-6)
    close(step.end.logits, objective.features @ step.end.mean, atol=1e-9)
    close(step.end.probs, objective.link(step.end.logits))
    close(step.decrement, np.sum(gradient**2))  # in the norm of the preconditioner, here I


@hypothesis.given(seed=SEEDS, k=st.sampled_from([1, 3]), far=st.sampled_from([1.0, 30.0, 1000.0]))
def test_too_long_step_ends_where_the_slope_is_zero(seed: int, k: int, far: float) -> None:
    objective, start, gradient = _problem(seed, k)
    direction = -far * gradient
    change = objective.features @ direction
    step = newton.line_search(objective, start, gradient, direction, change, 1.0)
    slope = np.sum(objective.gradient(step.end.mean, step.end.probs) * direction)
    assert slope <= newton.STEEP * np.sum(gradient * -direction)
    assert step.whole or slope >= newton.STEEP * np.sum(gradient * direction)
    close(step.end.logits, objective.features @ step.end.mean, rtol=1e-9, atol=1e-9)
