"""The advice to stop."""

import pytest

from everylabel.labelling.progress import LITTLE, stop
from everylabel.labelling.state.state import State
from everylabel.log.events import Assessed


def _ledger(*looks: tuple[int, float | None], labels: int = 200) -> State:
    made = State([str(i) for i in range(1000)])
    made.labels.update(dict.fromkeys(range(labels), 0))
    made.assessed = [
        Assessed(n, 0, 0.9, gain=gain, without=None if gain is None else n // 5) for n, gain in looks
    ]
    return made


def test_it_suggests_to_stop_when_the_last_labels_brought_little_twice() -> None:
    advice = stop(_ledger((90, LITTLE / 2), (100, 0.001)))
    assert advice["suggest"]
    assert advice["sentence"] == (
        "The last 20 labels made the model 0.1 points surer of what it says: more of this kind bring little, "
        "you may stop here."
    )


@pytest.mark.parametrize(
    "looks",
    [
        [],
        [(100, None)],
        [(100, LITTLE / 2)],  # once only
        [(95, LITTLE / 2), (100, LITTLE / 2)],  # hardly twice
        [(90, 2 * LITTLE), (100, LITTLE / 2)],
        [(90, LITTLE / 2), (100, 2 * LITTLE)],
        [(30, LITTLE / 2), (40, LITTLE / 2)],  # too early
        [(290, LITTLE / 2), (300, LITTLE / 2)],  # answers that were taken back since
    ],
)
def test_it_does_not_otherwise(looks: list[tuple[int, float | None]]) -> None:
    assert not stop(_ledger(*looks))["suggest"]


def test_the_sentence_is_there_before_it_is_advice() -> None:
    sentence = stop(_ledger((100, 0.021)))["sentence"]
    assert sentence == "The last 20 labels made the model 2.1 points surer of what it says."
