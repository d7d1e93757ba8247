"""Figures, summaries and claims on numbers small enough to check by hand."""

import numpy as np

from everylabel.experiments.claims import CLAIMS, judge
from everylabel.experiments.metrics import (
    brier_score,
    calibration_error,
    distance,
    flips,
    log_loss,
    share_of_gain,
)
from everylabel.experiments.results import Row
from everylabel.experiments.summary import curve_mean, curves, estimate, paired

PROBS = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])


def test_metrics_by_hand() -> None:
    labels = np.array([0, 1, 1])
    np.testing.assert_allclose(log_loss(PROBS, labels), -np.mean(np.log([0.9, 0.4, 0.8])))
    # confidences .9, .6, .8 in bins of their own: |.9 - 1| + |.6 - 0| + |.8 - 1|, over 3
    np.testing.assert_allclose(calibration_error(PROBS, labels), (0.1 + 0.6 + 0.2) / 3)
    np.testing.assert_allclose(brier_score(PROBS, labels), (0.02 + 0.72 + 0.08) / 3)
    other = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    np.testing.assert_allclose(distance(PROBS, other), 0.2 / 3)
    np.testing.assert_allclose(flips(PROBS, other), 1 / 3)
    np.testing.assert_allclose(share_of_gain(0.5, 0.6, 0.7), 0.5)
    assert np.isnan(share_of_gain(0.5, 0.6, 0.5))


def _rows(values: dict[str, list[list[float]]], experiment: str = "batch-selection") -> list[Row]:
    return [
        Row(experiment, "digits", rep, "fast", variant, float(x), "accuracy", value)
        for variant, repetitions in values.items()
        for rep, curve in enumerate(repetitions)
        for x, value in enumerate(curve)
    ]


def test_means_errors_and_pairs() -> None:
    rows = _rows({"margin": [[0.5, 0.7], [0.3, 0.9]], "random": [[0.4, 0.5], [0.2, 0.8]]})
    assert curves(rows, "accuracy", "digits")["margin"][0.0] == estimate([0.5, 0.3])
    gap = paired(rows, "accuracy", "digits", "margin", "random")
    np.testing.assert_allclose([gap[0.0].mean, gap[0.0].error], [0.1, 0.0], atol=1e-12)
    np.testing.assert_allclose([gap[1.0].mean, gap[1.0].error], [0.15, 0.05])
    np.testing.assert_allclose(curve_mean(rows, "accuracy", "digits", "margin", "random").mean, 0.125)
    assert np.isnan(estimate([]).mean)
    assert estimate([0.5]).n == 1


def test_claims_are_judged_by_what_was_measured() -> None:
    better, worse = [[0.6, 0.8], [0.5, 0.9]], [[0.5, 0.7], [0.4, 0.7]]
    for values, verdict in (((better, worse), "holds"), ((worse, better), "does not hold")):
        rows = _rows({"margin with updates": values[0], "margin": values[1]})
        found = {v.claim: v.verdict for v in judge({"batch-selection": rows})}
        assert found["Margin with updates outperforms margin top-b."] == verdict
    once = judge({"batch-selection": _rows({"margin with updates": better[:1], "margin": worse[:1]})})
    assert (
        "one repetition decides nothing"
        in {v.claim: v.found for v in once}["Margin with updates outperforms margin top-b."]
    )
    untested = judge({})
    assert len(untested) == len(CLAIMS)
    assert {v.verdict for v in untested} == {"not tested"}
