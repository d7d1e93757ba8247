"""The advice to stop."""

import math

import pytest

from everylabel.labelling.quality.stopping import AHEAD, LITTLE, stop
from everylabel.labelling.state.state import State
from everylabel.log.events import Assessed

EDGE = LITTLE * math.log(1.25) / math.log(2)  # gain of the last fifth of 100 labels that foretells LITTLE


def _ledger(*looks: tuple[int, float | None], labels: int = 200) -> State:
    made = State([str(i) for i in range(1000)])
    made.labels.update(dict.fromkeys(range(labels), 0))
    made.assessed = [
        Assessed(n, 0, 0.9, gain=gain, without=None if gain is None else n // 5) for n, gain in looks
    ]
    return made


def test_stop_is_suggested_when_the_last_labels_gained_little_twice() -> None:
    advice = stop(_ledger((90, EDGE / 2), (100, 0.0)))
    assert advice["suggest"]
    assert advice["sentence"] == (
        "The last 20 labels did not raise the expected accuracy. More labels bring little: you may stop here."
    )
    assert AHEAD == 100
    for factor, expected in ((0.99, True), (1.01, False)):
        assert stop(_ledger((90, 0.0), (100, factor * EDGE)))["suggest"] is expected


@pytest.mark.parametrize(
    "looks",
    [
        [],
        [(100, None)],
        [(100, EDGE / 2)],  # once only
        [(95, EDGE / 2), (100, EDGE / 2)],  # hardly twice
        [(90, 2 * EDGE), (100, EDGE / 2)],
        [(90, EDGE / 2), (100, 2 * EDGE)],
        [(30, EDGE / 2), (40, EDGE / 2)],  # too early
        [(290, EDGE / 2), (300, EDGE / 2)],  # answers that were taken back since
    ],
)
def test_stop_is_not_suggested_otherwise(looks: list[tuple[int, float | None]]) -> None:
    assert not stop(_ledger(*looks))["suggest"]


def test_progress_sentence_appears_before_the_advice_to_stop() -> None:
    sentence = stop(_ledger((100, 0.021)))["sentence"]
    assert sentence == "The last 20 labels raised the expected accuracy by 2.1 points."
