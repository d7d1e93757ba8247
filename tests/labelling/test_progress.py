"""Displayed accuracy, agreement and speed, against published formulas."""

import pytest
from msgspec.structs import replace

from everylabel.labelling import progress
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Agreement
from everylabel.log.events import Assessed, CannotTell, Event, Generation, Label, Project


def state(n_labels: int, n_checks: int = 0) -> State:
    made = State([str(i) for i in range(1000)])
    apply(made, Event(1, 0.0, "", Project(["a"], {}, seed=0)))
    for i in range(n_labels):
        said = Label(str(i), 0, guess=0, check=True) if i < n_checks else Label(str(i), 0)
        apply(made, Event(made.seq + 1, 0.0, "me", said))
    return made


def say(made: State, times: list[float], bulk: int | None = None) -> None:
    """Answer as "me" at these times."""
    for at in times:
        apply(made, Event(made.seq + 1, at, "me", Label("1", 0, bulk=bulk)))


def test_no_figure_is_shown_before_there_are_enough_checks() -> None:
    made = state(40, 3)
    assert progress.accuracy(made)["needed"] == 2
    look = Assessed(100, 12, 0.9, estimate=0.8, low=0.6, high=0.9, commonest=1, share=0.7)
    made.assessed = [look]
    assert progress.accuracy(made)["estimate"] is None  # answers were taken back since
    made = state(100, 12)
    assert progress.accuracy(made)["estimate"] is None  # nobody has looked yet
    made.assessed = [replace(look, estimate=0.5), look]
    found = progress.accuracy(made)
    assert (found["needed"], found["estimate"], found["better"], found["labels"]) == (0, 0.8, True, 100)
    made.assessed = [replace(look, checks=9)]
    assert progress.accuracy(made)["checks"] == 9  # of the moment that the labels are of
    made.assessed = [replace(look, share=0.85)]
    assert progress.accuracy(made)["better"] is False


def test_a_check_without_an_answer_does_not_count() -> None:
    made = state(100, 6)
    apply(made, Event(made.seq + 1, 0.0, "me", CannotTell("1")))
    assert progress.accuracy(made)["checks"] == 5


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


def test_breaks_and_bulk_answers_are_left_out_of_the_speed() -> None:
    made = state(0)
    times = [0.0, *(1000.0 + 3.0 * i for i in range(10))]
    say(made, times)
    assert progress.per_minute(made, "me") == pytest.approx(20.0)
    assert progress.per_minute(made, "anna") is None
    say(made, [1030.0 + 1e-3 * i for i in range(100)], bulk=1)
    assert progress.per_minute(made, "me") == pytest.approx(20.0)
    say(made, [at - 3600 for at in times])  # the clock was set back
    assert progress.per_minute(made, "me") == pytest.approx(20.0)


def test_curve_has_a_limited_number_of_points_and_keeps_the_last() -> None:
    made = state(999)
    for n in range(1000):
        made.curve[n] = n / 2000
    made.assessed = [Assessed(999, 9, 0.4, estimate=0.5, low=0.25, high=0.75), Assessed(1200, 9, 0.4)]
    points = progress.curve(made)
    assert len(points) <= progress.POINTS
    assert points[-1]["expected"] == 999 / 2000
    assert [points[-1][name] for name in ("labels", "accuracy", "low", "high")] == [999, 0.5, 0.25, 0.75]
    assert points[0] == {
        "labels": 0,
        "expected": 0.0,
        "accuracy": None,
        "low": None,
        "high": None,
        "checks": 0,
    }


@pytest.mark.parametrize(
    ("tuned", "told"),
    [
        (0.9, "right on 90\xa0% of held-out labels, before 85\xa0%."),
        (0.852, "held-out labels got higher probabilities (right on 85\xa0%, before 85\xa0%)."),
        (0.84, "held-out labels got higher probabilities (right on 84\xa0%, before 85\xa0%)."),
    ],
)
def test_a_better_network_is_not_said_to_be_right_more_often_if_it_is_not(tuned: float, told: str) -> None:
    made = state(140)
    made.generations = [Generation(1, 140, trusted=True, frozen_accuracy=0.85, tuned_accuracy=tuned)]
    sentence = progress.NetworkState().sentence(made)
    assert sentence == f"Since label 140 the model reads your items better: {told}"
