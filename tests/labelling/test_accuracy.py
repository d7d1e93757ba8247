"""The accuracy on unlabelled items against a slow twin, and the coverage of its interval."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logit
from scipy.stats import binomtest

from everylabel.labelling.quality import accuracy
from everylabel.labelling.quality.accuracy import Verdicts, accuracy_on_unlabelled, wilson


@pytest.mark.parametrize(("right", "n"), [(0, 1), (3, 7), (40, 50), (50, 50)])
def test_the_interval_is_wilsons(right: int, n: int) -> None:
    twin = binomtest(right, n).proportion_ci(0.998, method="wilson")
    np.testing.assert_allclose(wilson(right / n, n)[1:], (twin.low, twin.high), atol=1e-6)


def _verdicts(rng: np.random.Generator, n: int, overconfident: float) -> tuple[Verdicts, np.ndarray, float]:
    """Return verdicts (every fifth of a random check), probabilities of unlabelled items, and the truth."""
    left = rng.beta(6, 1, 2000)
    drawn = np.arange(n) % 5 == 0

    def said() -> tuple[np.ndarray, np.ndarray]:
        sure = np.where(drawn, rng.choice(left, n), rng.beta(3, 2, n))
        return sure, rng.random(n) < expit(logit(sure) - overconfident)

    verdicts = Verdicts(*said(), *said(), drawn.astype(float))
    return verdicts, left, float(expit(logit(left) - overconfident).mean())


def test_the_estimate_equals_a_slow_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CHOSEN": 0.4, "LEVEL": 0.8, "SLOPE": 0.3, "DRAWN": 0.6}.items():
        monkeypatch.setattr(accuracy, name, value)
    given, left, _ = _verdicts(np.random.default_rng(0), 60, 0.5)
    drawn = given.drawn * np.linspace(0.5, 2.0, 60)
    before = np.where(np.arange(60) % 3 == 0, np.nan, given.sure_before)

    def loss(theta: np.ndarray) -> float:
        total = 0.5 * float(np.sum(((theta - [0.0, 1.0, 0.0]) / [0.8, 0.3, 0.6]) ** 2))
        for i in range(60):
            told = [(given.sure[i], given.right[i])]
            told += [] if np.isnan(before[i]) else [(before[i], given.right_before[i])]
            for sure, right in told:
                p = expit(theta[0] + theta[1] * logit(sure) + theta[2] * (drawn[i] > 0))
                total -= (drawn[i] or 0.4) / len(told) * np.log(p if right else 1 - p)
        return total

    best = minimize(loss, np.array([0.0, 1.0, 0.0]), tol=1e-10).x
    true = expit(best[0] + best[1] * logit(left) + best[2])
    found = accuracy_on_unlabelled(given._replace(drawn=drawn, sure_before=before), left)
    assert found.estimate == pytest.approx(true.mean(), abs=1e-5)
    at = np.column_stack([np.ones_like(left), logit(left), np.ones_like(left)])
    hessian = approx_fprime(best, lambda theta: approx_fprime(theta, loss, 1e-5), 1e-4)
    j = (true * (1 - true)) @ at / len(left)
    n = true.mean() * (1 - true.mean()) / (j @ np.linalg.inv(hessian) @ j)
    np.testing.assert_allclose(found, wilson(float(true.mean()), float(n)), atol=1e-3)


def test_a_model_that_is_very_sure_and_often_wrong_is_flagged() -> None:
    n = 3000
    right, sure = np.arange(n) % 10 < 7, np.full(n, 1.0 - 1e-7)
    found = accuracy_on_unlabelled(Verdicts(sure, right, sure, right, np.ones(n)), sure)
    assert found.low < 0.7 < found.high
    assert found.high - found.low < 0.1


def test_the_interval_holds_the_truth_of_a_model_that_is_too_sure() -> None:
    held = []
    for seed in range(100):
        verdicts, left, truth = _verdicts(np.random.default_rng(seed), 100, 1.0)
        found = accuracy_on_unlabelled(verdicts, left)
        held.append(found.low <= truth <= found.high)
        assert 0.0 < found.low < found.estimate < found.high < 1.0
    assert np.mean(held) >= 0.95


def test_accuracy_estimate_of_right_verdicts_stays_below_100_percent() -> None:
    sure, right = np.full(40, 0.99), np.ones(40, bool)
    all_right = Verdicts(sure, right, sure, right, np.tile([1.0, 0.0], 20))
    found = accuracy_on_unlabelled(all_right, np.full(500, 0.999))
    assert 0.9 < found.estimate < 1.0
    assert found.low < found.estimate < found.high
