"""The step in the space of b instances against dense inverses of d x d matrices, away from the defaults."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everylabel.core.kernel import condition_cov_one, condition_seen, jointly, one_by_one, shrinkage
from everylabel.core.likelihoods.shared import SharedCovariance, binary, categorical, diagonal, gaussian
from tests.core import dense

SHARED = {"gaussian": gaussian, "categorical": categorical, "binary": binary}


class Problem:
    """Batches of b instances each, with a posterior, labels and weights."""

    def __init__(self, likelihood: str, batches: tuple[int, ...] = (3,), b: int = 4, d: int = 6) -> None:
        rng = np.random.default_rng(7)
        k = 1 if likelihood == "binary" else 3
        self.likelihood, self.kind, self.step = likelihood, SHARED[likelihood], 1.7
        half = rng.normal(size=(d, d))
        self.precision = 0.3 * np.eye(d) + half @ half.T
        self.cov = np.linalg.inv(self.precision)
        self.mean = rng.normal(size=(d, k))
        self.rows = 2.0 * rng.normal(size=(*batches, b, d))
        self.labels = rng.integers(max(k, 2), size=(*batches, b))
        self.weights = rng.uniform(0.5, 2.0, size=b)
        self.cov_h = self.cov @ np.swapaxes(self.rows, -1, -2)
        self.gram, self.logits = self.rows @ self.cov_h, self.rows @ self.mean
        self.targets = dense.targets(self.labels.ravel(), k).reshape(self.logits.shape)

    def dense(self, at: tuple[int, ...], joint: bool) -> tuple[Any, Any]:
        """Return the mean and the covariance after the labels of one batch."""
        new = self.rows[at], self.labels[at], self.weights
        mean, precision = dense.second_order(
            self.likelihood, self.mean, self.precision, *new, self.step, joint
        )
        return mean, np.linalg.inv(precision)

    def swept(self) -> Any:
        kind: SharedCovariance = self.kind
        return one_by_one(
            self.gram, self.logits, self.targets, self.weights, self.step, kind.link, kind.curvature
        )


@pytest.mark.parametrize("batches", [(), (3,), (2, 2)])
@pytest.mark.parametrize("likelihood", SHARED)
def test_one_by_one_is_dense_updates_in_turn(likelihood: str, batches: tuple[int, ...]) -> None:
    problem = Problem(likelihood, batches)
    given = problem.gram.copy(), problem.logits.copy()
    learned = problem.swept()
    means, roots = problem.mean - problem.cov_h @ learned.weights, problem.cov_h @ learned.root
    for at in np.ndindex(batches):
        mean, cov = problem.dense(at, joint=False)
        assert_allclose(means[at], mean, rtol=1e-9)
        assert_allclose(problem.cov - roots[at] @ roots[at].T, cov, rtol=1e-8, atol=1e-10)
    assert np.array_equal(given[0], problem.gram)
    assert np.array_equal(given[1], problem.logits)


@pytest.mark.parametrize("likelihood", SHARED)
def test_jointly_is_one_dense_update(likelihood: str) -> None:
    problem = Problem(likelihood)
    probs = problem.kind.link(problem.logits)
    curvature = diagonal(problem.weights * problem.kind.curvature(probs))
    residual = problem.weights[:, None] * (probs - problem.targets)
    means = problem.mean - problem.step * problem.cov_h @ jointly(problem.gram, curvature, residual)
    for at in np.ndindex(3):
        assert_allclose(means[at], problem.dense(at, joint=True)[0], rtol=1e-9)


@pytest.mark.parametrize("batches", [(), (3,)])
def test_conditioning_any_projection_equals_the_dense_formula_and_can_be_reverted(
    batches: tuple[int, ...],
) -> None:
    problem, i = Problem("gaussian", batches), 2
    curvature = np.linspace(0.3, 0.8, max(1, int(np.prod(batches)))).reshape(batches)
    anything = np.random.default_rng(0).normal(size=(5, 6))
    seen, column = anything @ problem.cov_h, problem.gram[..., i]
    taken = shrinkage(column[..., i], curvature)
    after = condition_seen(seen, i, column, taken)
    gram = condition_seen(problem.gram, i, column, taken)
    for at in np.ndindex(batches):
        h = problem.rows[at][i]
        cov = np.linalg.inv(problem.precision + curvature[at] * np.outer(h, h))
        assert_allclose(after[at], anything @ cov @ problem.rows[at].T, rtol=1e-9, atol=1e-12)
        assert_allclose(gram[at], problem.rows[at] @ cov @ problem.rows[at].T, rtol=1e-9, atol=1e-12)
    back = shrinkage(gram[..., i, i], curvature, -1)
    assert_allclose(condition_seen(after, i, gram[..., i], back), seen, rtol=1e-8, atol=1e-11)


def test_taking_back_more_than_is_there_stays_finite() -> None:
    assert np.isfinite(shrinkage(np.float64(2.0), np.float64(0.5), -1))


@pytest.mark.parametrize("sign", [1, -1])
def test_one_instance_is_sherman_morrison(sign: int) -> None:
    problem = Problem("gaussian", ())
    h, c = problem.rows[0], 0.2
    precision = problem.precision + (c * np.outer(h, h) if sign < 0 else 0.0)
    cov = np.linalg.inv(precision)
    after = condition_cov_one(cov, cov @ h, float(h @ cov @ h), c, sign)
    assert_allclose(after, np.linalg.inv(precision + sign * c * np.outer(h, h)), rtol=1e-8, atol=1e-11)
