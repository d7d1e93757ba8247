"""The updating experiments give the same figures for several sizes at once as for each alone."""

import numpy as np
import pytest

import everylabel as el
from everylabel.experiments import updating
from everylabel.experiments.data import load
from everylabel.experiments.engine import Cell

DIGITS = load("digits", "")


def test_batched_weightings_equal_update_and_predict() -> None:
    weightings = [(1, 0.005), (8, 0.005), (8, 1.0), (8, 400.0)]  # the last would underflow
    x, y, at = DIGITS.x[50:58], DIGITS.y[50:58], DIGITS.test_x[:300]
    base = el.laplace(el.fit_map(DIGITS.x[:20], DIGITS.y[:20], 10), DIGITS.x[:20])
    found = updating.reweighted(base, x, y, weightings, at, 100, np.random.default_rng(3))
    samples = el.sample(base, 100, np.random.default_rng(3))
    for (n, step), probs in zip(weightings, found, strict=True):
        alone = el.predict_proba(el.update(samples, x[:n], y[:n], step_size=step), at)
        np.testing.assert_allclose(probs, alone, rtol=1e-4, atol=1e-6)


def test_sizes_share_one_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of several sizes of D+ from one base are those of each size on its own."""
    monkeypatch.setattr(updating, "SAMPLES", 200)
    cell = Cell("new-sizes", "digits", 0, "fast")
    old, new = updating.draw(DIGITS, 30, 20, cell.shared_rng())
    together = updating.compare(cell, DIGITS, [(old, new, {5: 5, 20: 20})])
    alone = updating.compare(cell, DIGITS, [(old, new, {20: 20})])
    values = {(row.variant, row.metric): row.value for row in alone}
    assert len(together) == 2 * len(alone)
    for row in together:
        if row.x == 20:
            assert row.value == pytest.approx(values[row.variant, row.metric], abs=1e-6)
