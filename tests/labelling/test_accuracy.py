"""The accuracy on what is left against a slow twin, and whether its interval holds the truth."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logit
from scipy.stats import binomtest

from everylabel.labelling import accuracy
from everylabel.labelling.accuracy import Verdicts, accuracy_left, wilson


@pytest.mark.parametrize(("right", "n"), [(0, 1), (3, 7), (40, 50), (50, 50)])
def test_the_interval_is_wilsons(right: int, n: int) -> None:
    twin = binomtest(right, n).proportion_ci(0.99, method="wilson")
    np.testing.assert_allclose(wilson(right / n, n)[1:], (twin.low, twin.high), atol=1e-6)


def _verdicts(rng: np.random.Generator, n: int, overconfident: float) -> tuple[Verdicts, np.ndarray, float]:
    """Return verdicts of which every fifth is drawn, largest probabilities of what is left, and the truth."""
    sure, left = rng.beta(3, 2, n), rng.beta(6, 1, 2000)
    drawn = np.arange(n) % 5 == 0
    sure[drawn] = rng.choice(left, drawn.sum())
    right = rng.random(n) < expit(logit(sure) - overconfident)
    return Verdicts(sure, right, drawn.astype(float)), left, float(expit(logit(left) - overconfident).mean())


def test_the_estimate_equals_a_slow_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "CHOSEN", 0.4)
    monkeypatch.setattr(accuracy, "LEVEL", 0.8)
    monkeypatch.setattr(accuracy, "SLOPE", 0.3)
    monkeypatch.setattr(accuracy, "DRAWN", 0.7)
    (sure, right, drawn), left, _ = _verdicts(np.random.default_rng(0), 60, 0.5)
    drawn *= np.linspace(0.5, 2.0, len(drawn))

    def loss(theta: np.ndarray) -> float:
        p = expit(theta[0] + theta[1] * logit(sure) + theta[2] * (drawn > 0))
        each = np.where(drawn > 0, drawn, 0.4) * np.log(np.where(right, p, 1 - p))
        spread = (theta - [0.0, 1.0, 0.0]) / [0.8, 0.3, 0.7]
        return float(0.5 * spread @ spread - each.sum())

    best = minimize(loss, np.array([0.0, 1.0, 0.0]), tol=1e-12).x
    true = expit(best[0] + best[1] * logit(left) + best[2])
    found = accuracy_left(Verdicts(sure, right, drawn), left)
    assert found.estimate == pytest.approx(true.mean(), abs=1e-5)
    at = np.column_stack([np.ones_like(left), logit(left), np.ones_like(left)])
    hessian = approx_fprime(best, lambda theta: approx_fprime(theta, loss, 1e-5), 1e-4)
    j = (true * (1 - true)) @ at / len(left)
    variance = j @ np.linalg.inv(hessian) @ j
    n = true.mean() * (1 - true.mean()) / variance
    np.testing.assert_allclose(found, wilson(float(true.mean()), float(n)), atol=1e-4)


def test_the_interval_holds_the_truth_of_a_model_that_is_too_sure() -> None:
    held = []
    for seed in range(100):
        verdicts, left, truth = _verdicts(np.random.default_rng(seed), 100, 1.0)
        found = accuracy_left(verdicts, left)
        held.append(found.low <= truth <= found.high)
        assert 0.0 < found.low < found.estimate < found.high < 1.0
    assert np.mean(held) >= 0.95


def test_it_is_never_a_clipped_hundred() -> None:
    all_right = Verdicts(np.full(40, 0.99), np.ones(40, bool), np.tile([1.0, 0.0], 20))
    found = accuracy_left(all_right, np.full(500, 0.999))
    assert 0.9 < found.estimate < 1.0
    assert found.low < found.estimate < found.high
