"""Accuracy, agreement, speed and the advice to stop, each against a slow or published twin."""

import numpy as np
import pytest
from scipy.stats import binomtest

from everylabel.serving import progress
from everylabel.serving.ledger import Answer, Check, Ledger


@pytest.mark.parametrize(("right", "n"), [(0, 1), (3, 7), (40, 50), (50, 50)])
def test_the_interval_is_wilsons(right: int, n: int) -> None:
    twin = binomtest(right, n).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(progress.wilson(right, n), (twin.low, twin.high), atol=1e-6)


def test_accuracy_is_that_of_the_last_checks() -> None:
    checks = [Check(i, i, False) for i in range(30)] + [Check(i, i, True) for i in range(30, 80)]
    assert progress.accuracy([]) is None
    assert progress.accuracy(checks)["estimate"] == 1.0  # type: ignore[index]
    assert progress.accuracy(checks[:40])["right"] == 10  # type: ignore[index]


def test_alpha_equals_the_published_example() -> None:
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", nominal data, two observers
    a = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    b = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    units = [[Answer(i, "a", x), Answer(i, "b", y)] for i, (x, y) in enumerate(zip(a, b, strict=True))]
    found = progress.agreement(units)
    assert found is not None
    assert found["share"] == pytest.approx(0.6)
    assert found["alpha"] == pytest.approx(0.095, abs=5e-4)


def test_agreement_needs_two_answers_and_more_than_one_class() -> None:
    assert progress.agreement([[Answer(1, "a", 0)]]) is None
    found = progress.agreement([[Answer(1, "a", 0), Answer(2, "b", 0)]])
    assert found == {"items": 1, "share": 1.0, "alpha": None}


def ledger(n_labels: int, checks: list[bool]) -> Ledger:
    made = Ledger([str(i) for i in range(1000)])
    made.labels = dict.fromkeys(range(n_labels), 0)
    made.checks = [Check(i, i, right) for i, right in enumerate(checks)]
    return made


def test_it_suggests_to_stop_when_little_changes_and_accuracy_is_level() -> None:
    level = [True, True, False, True] * 10
    advice = progress.stop(ledger(100, level), (0.004, 20))
    assert advice["suggest"]
    assert "Without the last 20 labels, 0.4% of the pool" in advice["sentence"]
    assert "75%" in advice["sentence"]
    assert not progress.stop(ledger(100, level), (0.03, 20))["suggest"]
    assert not progress.stop(ledger(20, level), (0.004, 20))["suggest"]
    rising = [False] * 15 + [True] * 15
    assert not progress.stop(ledger(100, rising), (0.004, 20))["suggest"]
    assert not progress.stop(ledger(100, level), None)["suggest"]


def test_the_curve_has_at_most_so_many_points_and_keeps_the_last() -> None:
    made = ledger(999, [True] * 5)
    made.curve = [(n, n / 2000) for n in range(1000)]
    points = progress.curve(made)
    assert len(points) <= progress.POINTS
    assert points[-1]["labels"] == 999
    assert points[-1]["accuracy"] == 1.0
