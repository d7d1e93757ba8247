"""Ruled-out classes, against finite differences and an optimiser of log(1 - p_c)."""

from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

import everylabel as el
from everylabel.core.arrays import softmax
from everylabel.core.candidates import log_sum, shares
from everylabel.core.newton import Objective, Point, newton_step
from everylabel.core.updates.partial import expected_shares, forget_shares, learn_shares, note_shares
from tests.conftest import Case, cases, design

close = np.testing.assert_allclose


def ruled(rng: np.random.Generator, m: int, k: int) -> np.ndarray:
    """Return candidates of m instances: some classes are ruled out, never all."""
    mask = rng.random((m, k)) < 0.6
    mask[np.arange(m), rng.integers(k, size=m)] = True
    return mask


def loss_of_not(f: np.ndarray, mask: np.ndarray) -> float:
    """Return -log(1 - the probability of the ruled-out classes), by the textbook formula."""
    p = np.exp(f - logsumexp(f))
    return -float(np.log(1.0 - p[~mask].sum()))


def by_brute_force(
    x: np.ndarray, y: np.ndarray, more: np.ndarray, mask: np.ndarray, prior: float
) -> np.ndarray:
    """Return SciPy's minimum of the penalised loss, from zero, by finite differences."""
    x, more, k = design(x), design(more), mask.shape[1]

    def loss(flat: np.ndarray) -> float:
        w = flat.reshape(-1, k)
        f, g = x @ w, more @ w
        told = np.sum(logsumexp(f, axis=1) - f[np.arange(len(y)), y])
        not_told = sum(loss_of_not(row, some) for row, some in zip(g, mask, strict=True))
        return float(told + not_told + 0.5 * prior * np.sum(w * w))

    start = np.zeros(x.shape[1] * k)
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    return best.x.reshape(-1, k)


def problem(seed: int, k: int = 4, d: int = 3, n: int = 9, m: int = 6) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, d)),
        rng.integers(k, size=n),
        rng.normal(size=(m, d)),
        ruled(rng, m, k),
    )


@hypothesis.given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 6))
def test_gradient_and_curvature_are_those_of_the_likelihood(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    f, mask, step = rng.normal(size=k) * 2, ruled(rng, 1, k), 1e-5

    def gradient(f: np.ndarray) -> np.ndarray:
        return np.asarray(softmax(f[None]) - shares(f[None], mask))[0]

    sides = [(f + step * e, f - step * e) for e in np.eye(k)]
    close(gradient(f), [(loss_of_not(a, mask[0]) - loss_of_not(b, mask[0])) / (2 * step) for a, b in sides],
          atol=1e-7)  # fmt: skip
    p, q = np.asarray(softmax(f)), shares(f[None], mask)[0]
    formula = np.diag(p) - np.outer(p, p) - np.diag(q) + np.outer(q, q)
    close(formula, [(gradient(a) - gradient(b)) / (2 * step) for a, b in sides], atol=1e-7)
    close(np.asarray(softmax(f))[mask[0]].sum(), np.exp(log_sum(f[None], mask) - logsumexp(f))[0])
    # the bound that EM goes by touches the loss at f and lies above it elsewhere
    other = f + rng.normal(size=k)
    above = logsumexp(other) - logsumexp(f) - q @ (other - f)
    assert loss_of_not(other, mask[0]) <= loss_of_not(f, mask[0]) + above + 1e-12


def test_the_curvature_alone_is_no_precision() -> None:
    p, q = np.array([0.1, 0.45, 0.45]), np.array([0.0, 0.5, 0.5])
    assert np.linalg.eigvalsh(np.diag(p) - np.outer(p, p) - np.diag(q) + np.outer(q, q)).min() < -0.01


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prior", [0.3, 2.0])
def test_training_equals_a_general_optimiser(seed: int, prior: float) -> None:
    x, y, more, mask = problem(seed)
    mean = el.fit_map(x, y, 4, prior, partial=(more, mask))
    close(mean, by_brute_force(x, y, more, mask, prior), atol=2e-4)


def test_training_on_ruled_out_classes_alone() -> None:
    x, y, more, mask = problem(5)
    mean = el.fit_map(x[:0], y[:0], 4, 0.5, partial=(more, mask))
    close(mean, by_brute_force(x[:0], y[:0], more, mask, 0.5), atol=2e-4)


def pull_at(mean: Any, told: tuple[Any, Any], partial: tuple[Any, Any]) -> Any:
    """Return the gradient of the loss without the prior."""
    x, g = design(told[0]), design(partial[0])
    pull = x.T @ (np.asarray(softmax(x @ mean)) - np.eye(mean.shape[1])[told[1]])
    return pull + g.T @ (np.asarray(softmax(g @ mean)) - shares(g @ mean, partial[1]))


@hypothesis.given(case=cases(), seed=st.integers(0, 1000), scale=st.sampled_from([1.0, 30.0]))
def test_gradient_is_zero_at_the_result(case: Case, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    more, mask = scale * rng.normal(size=(7, case.features.shape[1])), ruled(rng, 7, case.k)
    mean = el.fit_map(case.features, case.labels, case.k, 0.01, partial=(more, mask))
    close(pull_at(mean, (case.features, case.labels), (more, mask)) + 0.01 * mean, 0.0, atol=1e-4)


@pytest.mark.parametrize("seed", [145, 241, 26])
def test_training_goes_downhill_where_newton_steps_do_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of norm 30 under a prior of .01: found among 300 random problems, of which 34 are so."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(3, 8)), int(rng.integers(1, 6))
    more, mask = rng.choice([1, 30]) * rng.normal(size=(30, d)), rng.random((30, k)) < 0.4
    mask[np.arange(30), rng.integers(k, size=30)] = True
    x, y = rng.normal(size=(5, d)), rng.integers(k, size=5)
    values: list[float] = []

    def noted(objective: Objective, start: Point, *rest: Any) -> Any:
        if objective.candidates is not None:
            values.append(objective.value(start))
        return newton_step(objective, start, *rest)

    monkeypatch.setattr("everylabel.core.training.newton_step", noted)
    mean = el.fit_map(x, y, k, 0.01, partial=(more, mask))
    assert np.diff(values).max() <= 1e-12 * np.abs(values).max()
    close(pull_at(mean, (x, y), (more, mask)) + 0.01 * mean, 0.0, atol=1e-4)


def test_one_candidate_is_a_label() -> None:
    x, y, more, _ = problem(6)
    z = np.arange(6) % 4
    partial = el.fit_map(x, y, 4, 0.5, partial=(more, np.eye(4, dtype=bool)[z]))
    close(partial, el.fit_map(np.r_[x, more], np.r_[y, z], 4, 0.5), atol=1e-6)


def by_soft_labels(x: np.ndarray, targets: np.ndarray, prior: float) -> np.ndarray:
    """Return the optimum with soft labels, by SciPy."""
    x = design(x)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(x.shape[1], -1)
        f = x @ w
        value = np.sum(logsumexp(f, axis=1) - np.sum(targets * f, axis=1)) + 0.5 * prior * np.sum(w * w)
        return float(value), (x.T @ (np.asarray(softmax(f)) - targets) + prior * w).ravel()

    start = np.zeros(x.shape[1] * targets.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
    return found.x.reshape(x.shape[1], -1)


def test_an_exact_update_is_one_round_of_em_and_can_be_taken_back() -> None:
    x, y, more, mask = problem(7, n=30)
    before = el.laplace(el.fit_map(x, y, 4, 0.5), x, prior_precision=0.5, labels=y)
    q = expected_shares(before, more, mask)
    after = learn_shares(before, more, q, "exact", 1.0)
    close(after.mean, by_soft_labels(np.r_[x, more], np.r_[np.eye(4)[y], q], 0.5), atol=5e-3)
    assert after.cov is before.cov
    close(forget_shares(after, more, q).mean, before.mean, atol=5e-3)
    # later labels are learned on top of it, and distinguished from it if features are equal
    later = el.update(after, more[:1], [2], method="exact")
    rows, soft = np.r_[x, more, more[:1]], np.r_[np.eye(4)[y], q, np.eye(4)[[2]]]
    close(later.mean, by_soft_labels(rows, soft, 0.5), atol=5e-3)
    close(forget_shares(el.forget(later, more[:1], [2]), more, q).mean, before.mean, atol=5e-3)


def test_rounds_of_em_end_where_training_does() -> None:
    x, y, more, mask = problem(8)
    posterior = el.laplace(el.fit_map(x, y, 4, 0.5), x, prior_precision=0.5, labels=y)
    for _ in range(60):
        q = expected_shares(posterior, more, mask)
        plain = el.fit_map(np.r_[x, np.repeat(more, 4, axis=0)], np.r_[y, np.tile(np.arange(4), 6)], 4, 0.5,
                           weights=np.r_[np.ones(9), q.ravel()])  # fmt: skip
        posterior = posterior.replace(mean=plain)
    close(posterior.mean, el.fit_map(x, y, 4, 0.5, partial=(more, mask)), atol=1e-5)


def test_a_second_order_step_moves_the_mean_by_p_less_q() -> None:
    x, y, more, mask = problem(9)
    before = el.laplace(el.fit_map(x, y, 4, 0.5), x, prior_precision=0.5, labels=y)
    h, q = design(more[:1]), expected_shares(before, more[:1], mask[:1])
    after = learn_shares(before, more[:1], q, None, 3.0)
    cov = np.linalg.inv(np.linalg.inv(before.cov) + h.T @ h)
    close(after.mean, before.mean - 3.0 * cov @ h.T @ (np.asarray(softmax(h @ before.mean)) - q), atol=1e-10)
    assert after.cov is before.cov
    assert after.data is not None
    assert len(after.data) == 10


def test_a_trained_posterior_knows_its_soft_labels() -> None:
    """Exact updates start from the optimum of training with soft labels."""
    x, y, more, mask = problem(10, n=30)
    mean = el.fit_map(x, y, 4, 0.5, partial=(more, mask))
    posterior = el.laplace(mean, x, prior_precision=0.5, labels=y)
    posterior = note_shares(posterior, more, expected_shares(posterior, more, mask))
    q = expected_shares(posterior, more, mask)
    after = el.update(posterior, x[:1], [3], method="exact")
    rows, soft = np.r_[x, more, x[:1]], np.r_[np.eye(4)[y], q, np.eye(4)[[3]]]
    close(after.mean, by_soft_labels(rows, soft, 0.5), atol=5e-3)


def test_tensors_stay_tensors() -> None:
    x, y, more, mask = problem(11)
    mean = el.fit_map(torch.tensor(x), torch.tensor(y), 4, 0.5, partial=(torch.tensor(more), mask))
    assert isinstance(mean, torch.Tensor)
    close(mean.numpy(), el.fit_map(x, y, 4, 0.5, partial=(more, mask)), atol=1e-7)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        (np.ones((6, 3), bool), r"expected \(6, 4\)"),
        (np.ones((6, 4)), "dtype float64"),
        (np.zeros((6, 4), bool), "no class for 6"),
    ],
)
def test_bad_candidates_are_named(candidates: np.ndarray, said: str) -> None:
    x, y, more, _ = problem(12)
    with pytest.raises(el.EverylabelError, match=said):
        el.fit_map(x, y, 4, partial=(more, candidates))


def test_two_classes_of_one_column_have_no_candidates() -> None:
    x, y, more, mask = problem(13, k=2)
    with pytest.raises(el.EverylabelError, match="binary=True"):
        el.fit_map(x, y, 2, binary=True, partial=(more, mask))
    posterior = el.laplace(np.zeros((4, 1)), x, "binary")
    with pytest.raises(el.EverylabelError, match="give the label"):
        expected_shares(posterior, more, mask)
