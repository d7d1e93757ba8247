"""What makes the experiments quick, each against its slow twin."""

from dataclasses import replace

import numpy as np
import pytest

import everylabel as el
from everylabel.experiments import candidates, members, updating
from everylabel.experiments.data import load
from everylabel.experiments.engine import Cell
from everylabel.experiments.training import refit

DIGITS = load("digits", "")


@pytest.mark.parametrize(
    ("strategy", "score"),
    [("margin", candidates.narrow_margin), ("badge_norm", candidates.gradient_norm)],
)
def test_picks_one_by_one_are_those_of_select(strategy: str, score: candidates.Score) -> None:
    x, y = DIGITS.x[:400], DIGITS.y[:400]
    post = el.laplace(el.fit_map(x[:30], y[:30], 10, prior_precision=0.3), x[:30], prior_precision=0.3)
    pool = el.Pool(x[30:], post)
    rng = np.random.default_rng(0)
    slow = el.select(pool, strategy, 25, rng, ask=lambda i: int(y[30:][i]))
    fast = candidates.pick_one_by_one(post, x[30:], y[30:], score, 25)
    np.testing.assert_array_equal(fast, slow)


def test_refit_is_fit_map() -> None:
    rng = np.random.default_rng(0)
    x, y = 2.0 * rng.normal(size=(300, 20)), rng.integers(7, size=300)
    x[:, :7] += 1.5 * np.eye(7)[y]
    start = np.asarray(el.fit_map(x[:150], y[:150], 7))
    exact = el.fit_map(x, y, 7)
    np.testing.assert_allclose(refit(x, y, 7, start, tol=1e-5), exact, atol=2e-4)
    assert np.abs(refit(x, y, 7, start) - exact).max() < 0.01 < np.abs(start - exact).max()
    np.testing.assert_allclose(
        refit(x[:15], y[:15], 7, start, tol=1e-8), el.fit_map(x[:15], y[:15], 7), atol=1e-6
    )


@pytest.mark.parametrize("seed", [3, 4, 5])  # the best sample is in another chunk
@pytest.mark.parametrize("chunk", [10**7, 64 * 256])
def test_a_stream_of_samples_is_sample_update_predict(
    chunk: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "CHUNK", chunk)
    monkeypatch.setattr(members, "ROWS", 16)
    weightings = [(1, 0.005), (8, 0.005), (8, 1.0), (8, 400.0)]  # the last would underflow
    new, at, m = slice(50, 58), DIGITS.test_x[:40], 100
    x, y = DIGITS.x[new], DIGITS.y[new]
    bases = [el.laplace(el.fit_map(DIGITS.x[:n], DIGITS.y[:n], 10), DIGITS.x[:n]) for n in (20, 50)]
    taught = [members.Taught(base, x, y, weightings) for base in bases]
    found = members.reweighted(taught, at, m, np.random.default_rng(seed))
    for base, mixtures in zip(bases, found, strict=True):
        rng = np.random.default_rng(seed)
        size = min(m, chunk // (65 * 10))
        parts = [el.sample(base, min(size, m - start), rng) for start in range(0, m, size)]
        assert len(parts) == (1 if chunk == 10**7 else 4)
        drawn = np.concatenate([part.members for part in parts])
        samples = replace(parts[0], members=drawn, log_weights=np.full(m, -np.log(m)))
        for (n, step), probs in zip(weightings, mixtures, strict=True):
            slow = el.predict_proba(el.update(samples, x[:n], y[:n], step_size=step), at)
            np.testing.assert_allclose(probs, slow, rtol=2e-3, atol=1e-5)


def test_sizes_share_one_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of several sizes of D+ from one base are those of each size on its own."""
    monkeypatch.setattr(updating, "SAMPLES", 200)
    cell = Cell("new-sizes", "digits", 0, "fast")
    draws = [updating.draw(DIGITS, 30, 20, cell.shared_rng())]
    together = updating.compare(cell, DIGITS, draws, [[(5, 5), (20, 20)]])
    alone = updating.compare(cell, DIGITS, draws, [[(20, 20)]])
    values = {(row.variant, row.metric): row.value for row in alone}
    assert len(together) == 2 * len(alone)
    for row in together:
        if row.x == 20:
            assert row.value == pytest.approx(values[row.variant, row.metric], abs=1e-6)
