"""Leaving one label out in closed form, against training without it."""

import numpy as np
import pytest

import everylabel as el
from everylabel.core import leave_one_out as module
from everylabel.core.leave_one_out import leave_one_out


def _problem(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d))
    y = rng.integers(k, size=n)
    return rng.normal(size=(n, d)) + centres[y], y, rng.uniform(0.5, 2.0, size=n)


def _posterior(
    x: np.ndarray, y: np.ndarray, k: int, weights: np.ndarray, precision: float, likelihood: str
) -> el.Posterior:
    binary = likelihood == "binary"
    mean = el.fit_map(x, y, k, precision, weights=weights, binary=binary)
    return el.laplace(mean, x, likelihood, precision, weights=weights, labels=y)


@pytest.mark.parametrize(
    ("n", "d", "k", "likelihood"), [(40, 3, 4, "gaussian"), (25, 60, 3, "gaussian"), (60, 4, 2, "binary")]
)
def test_leave_one_out_is_close_to_training_without_each_label(
    n: int, d: int, k: int, likelihood: str
) -> None:
    x, y, weights = _problem(n, d, k)
    precision = 1.7
    posterior = _posterior(x, y, k, weights, precision, likelihood)
    found = np.asarray(leave_one_out(posterior))
    seen = np.asarray(el.logits(posterior, x))
    true = np.empty_like(found)
    for i in range(n):
        rest = np.arange(n) != i
        without = el.fit_map(
            x[rest], y[rest], k, precision, weights=weights[rest], binary=likelihood == "binary"
        )
        true[i] = (np.r_[x[i], 1.0] @ without).reshape(-1)
    if found.shape[1] > 1:  # a shift of all logits changes nothing
        found, seen, true = (f - f.mean(axis=1, keepdims=True) for f in (found, seen, true))
    assert np.abs(found - true).mean() < 0.15 * np.abs(seen - true).mean()


def test_solving_in_n_or_d_dimensions_gives_the_same_logits() -> None:
    x, y, weights = _problem(12, 11, 3)  # 12 points, 12 columns with the bias: n x n
    posterior = _posterior(x, y, 3, weights, 0.6, "gaussian")
    wide = np.asarray(leave_one_out(posterior))
    more, label = x[:1] * 0.0, y[:1]  # a thirteenth of weight 0 makes it d x d
    again = _posterior(np.r_[x, more], np.r_[y, label], 3, np.r_[weights, 0.0], 0.6, "gaussian")
    np.testing.assert_allclose(np.asarray(leave_one_out(again))[:12], wide, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [90, 8])
def test_approximation_for_many_classes_is_close_to_the_exact_one(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, weights = _problem(n, 9, 12)
    posterior = _posterior(x, y, 12, weights, 1.7, "gaussian")
    whole, trained = np.asarray(leave_one_out(posterior)), np.asarray(el.logits(posterior, x))
    monkeypatch.setattr(module, "MOST_WORK", 0)
    monkeypatch.setattr(module, "SEEN", 0.0)
    np.testing.assert_allclose(leave_one_out(posterior), whole, rtol=1e-8, atol=1e-9)  # all are seen
    monkeypatch.setattr(module, "SEEN", 1e-3)
    monkeypatch.setattr(module, "MOST_SEEN", 20)
    found = np.asarray(leave_one_out(posterior))
    assert np.abs(found - whole).mean() < 0.1 * np.abs(trained - whole).mean()


@pytest.mark.parametrize("most_work", [0, 10**10])
def test_parts_make_no_difference(most_work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, weights = _problem(90, 9, 5)
    posterior = _posterior(x, y, 5, weights, 1.7, "gaussian")
    monkeypatch.setattr(module, "MOST_WORK", most_work)
    whole = np.asarray(leave_one_out(posterior))
    monkeypatch.setattr(module, "AT_ONCE", 7)
    np.testing.assert_allclose(leave_one_out(posterior), whole, rtol=1e-9, atol=1e-10)


def test_leave_one_out_needs_the_labelled_instances() -> None:
    x, y, _ = _problem(8, 3, 2)
    posterior = el.laplace(el.fit_map(x, y, 2), x, keep_data=False)
    with pytest.raises(el.EverylabelError, match="keep_data"):
        leave_one_out(posterior)
