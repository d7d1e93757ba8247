"""What makes the experiments quick, each against its slow twin."""

from dataclasses import replace

import numpy as np
import pytest

import everylabel as el
from everylabel.experiments import candidates, updating
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


def test_all_weightings_of_one_draw_are_updates_one_by_one() -> None:
    rng = np.random.default_rng(0)
    base = el.laplace(el.fit_map(DIGITS.x[:50], DIGITS.y[:50], 10), DIGITS.x[:50])
    samples = el.sample(base, 300, rng)
    new, at = slice(50, 58), DIGITS.test_x[:40]
    weightings = [(1, 0.005), (8, 0.005), (8, 1.0)]
    found = updating.reweighted(samples, DIGITS.x[new], DIGITS.y[new], weightings, at)
    for (size, step), probs in zip(weightings, found, strict=True):
        x, y = DIGITS.x[new][:size], DIGITS.y[new][:size]
        slow = el.predict_proba(el.update(samples, x, y, step_size=step), at)
        np.testing.assert_allclose(probs, slow, rtol=1e-4, atol=1e-6)
        again = el.reweight(
            np.stack([np.c_[x, np.ones(size)] @ w for w in samples.members]), y, step_size=step
        )
        np.testing.assert_allclose(
            probs, el.predict_proba(replace(samples, log_weights=again), at), rtol=1e-4, atol=1e-6
        )


def test_sizes_share_one_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of several sizes of D+ from one base are those of each size on its own."""
    monkeypatch.setattr(updating, "SAMPLES", 200)
    cell = Cell("new-sizes", "digits", 0, "fast")
    old, new = updating.draw(DIGITS, 30, 20, cell.shared_rng())
    together = updating.compare(cell, DIGITS, old, new, (5, 20))
    alone = {(row.variant, row.metric): row.value for row in updating.compare(cell, DIGITS, old, new, [20])}
    for row in together:
        if row.x == 20:
            assert row.value == pytest.approx(alone[row.variant, row.metric], abs=1e-6)  # float32
