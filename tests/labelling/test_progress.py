"""Accuracy, agreement, speed and the advice to stop, each against a slow or published twin."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from everylabel.labelling import progress
from everylabel.labelling.agreement import Agreement
from everylabel.labelling.events import Label
from everylabel.labelling.ledger import Check, Entry, Ledger


@pytest.mark.parametrize(("right", "n"), [(0, 1), (3, 7), (40, 50), (50, 50)])
def test_the_interval_is_wilsons(right: int, n: int) -> None:
    twin = binomtest(right, n).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(progress.wilson(right / n, n), (twin.low, twin.high), atol=1e-6)


def ledger(n_labels: int, checks: list[bool]) -> Ledger:
    made = Ledger([str(i) for i in range(1000)])
    made.labels = dict.fromkeys(range(n_labels), 0)
    made.checks = [Check(i, i, i, 0 if right else 1, 0.75) for i, right in enumerate(checks)]
    return made


def accuracy(made: Ledger, expected: float = 0.75) -> dict[str, Any]:
    found = progress.accuracy(expected, made.standing_checks(progress.WINDOW))
    assert found is not None
    return found


def test_accuracy_is_what_is_expected_set_right_by_the_last_checks() -> None:
    checks = [False] * 30 + [True] * 50
    assert progress.accuracy(0.8, []) is None
    assert accuracy(ledger(100, checks))["estimate"] == 1.0
    assert accuracy(ledger(100, checks[:40]))["right"] == 10
    assert accuracy(ledger(100, [True, True, False, True]), 0.9)["estimate"] == pytest.approx(0.9)
    assert accuracy(ledger(100, [True, False, False, True]), 0.9)["estimate"] == pytest.approx(0.65)


def test_a_check_is_judged_by_the_answer_that_stands() -> None:
    made = ledger(100, [False, True])
    made.labels[0] = 1  # corrected: the guess was right
    assert accuracy(made)["right"] == 2
    del made.labels[1]  # nobody can tell any more
    assert accuracy(made)["checks"] == 1


def test_alpha_equals_the_published_example() -> None:
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", nominal data, two observers
    a = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    b = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    sums = Agreement()
    sums.add([3, 4, 5])
    for unit in zip(a, b, strict=True):
        sums.add(unit)
    sums.add([3, 4, 5], -1)
    found = sums.figures()
    assert found is not None
    assert found["share"] == pytest.approx(0.6)
    assert found["alpha"] == pytest.approx(0.095, abs=5e-4)


def test_agreement_needs_two_answers_and_more_than_one_class() -> None:
    sums = Agreement()
    sums.add([0])
    assert sums.figures() is None
    sums.add([0, 0])
    assert sums.figures() == {"items": 1, "share": 1.0, "alpha": None}


def test_breaks_are_left_out_of_the_speed() -> None:
    made = ledger(0, [])
    times = [0.0, *(1000.0 + 3.0 * i for i in range(10))]
    made.history = [Entry(i, at, "me", 1, Label("1", 0)) for i, at in enumerate(times)]
    assert progress.per_minute(made, "me") == pytest.approx(20.0)
    assert progress.per_minute(made, "anna") is None


def test_it_suggests_to_stop_when_little_changes_and_accuracy_is_level() -> None:
    level = [True, True, False, True] * 10
    advice = progress.stop(ledger(100, level), (0.004, 20))
    assert advice["suggest"]
    assert "Without the last 20 labels, 0.4% of the pool" in advice["sentence"]
    known = accuracy(ledger(100, level))
    assert "75%" in progress.stop(ledger(100, level), (0.004, 20), known)["sentence"]
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
    assert points[-1]["accuracy"] == pytest.approx(999 / 2000 + 0.25)
