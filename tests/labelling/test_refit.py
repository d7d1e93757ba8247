"""Training in the background ends when it should."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from everylabel.labelling import refit as training
from everylabel.labelling.desk import Desk
from everylabel.labelling.learner import Change
from everylabel.labelling.records import Place
from everylabel.labelling.refit import Refitter
from everylabel.selection.pool import Where
from tests.labelling.desks import label, service


def test_a_stop_while_a_training_begins_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, asked, refit = threading.Event(), threading.Event(), training.refit

    def late(desk: Desk, keep: bool = False) -> None:
        begun.set()
        asked.wait(30)
        refit(desk, keep)  # which takes up all labels: nothing is left to wake the thread

    monkeypatch.setattr(training, "refit", late)
    with service(tmp_path / "log") as made:
        label(made, 12)
        refitter = Refitter(made.desk)
        assert begun.wait(30)
        stopping = threading.Thread(target=refitter.close, daemon=True)
        stopping.start()
        while not refitter._stopped.is_set() or not made.desk.learned.is_set():
            stopping.join(0.01)
        asked.set()
        stopping.join(30)
        assert not stopping.is_alive()


class Busy:
    """A desk where so many changes have come each time it is asked; each is an event of its own."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)

    def read(self, look: Callable[[], list[Change]]) -> "Future[list[Change]]":
        future: Future[list[Change]] = Future()
        future.set_result(look())
        return future

    def changes_since(self, seq: int) -> list[Change]:
        return [
            Change(seq + i, seq + i, None, Place(Where.FREE), 2) for i in range(1, self.counts.pop(0) + 1)
        ]


@pytest.mark.parametrize(
    ("counts", "seen"),
    [
        ((800, 300, 90, 15), 1190),  # it gains on the desk, down to a few
        ((800, 401, 90), 800),  # it does not gain enough
        ((800, 800, 800), 800),
        ((90, 40, 20, 20, 20), 150),  # so few are followed as often as there are parts
        ((15, 800), 0),
    ],
)
def test_a_training_takes_over_where_people_answer_as_fast_as_it_follows(
    counts: tuple[int, ...], seen: int
) -> None:
    followed: list[int] = []

    class Follower:
        def follow(self, changes: list[Change], later: bool) -> None:
            followed.append(len(changes))

    found = training._caught_up(Busy(*counts), Follower(), 0, 19, 3, later=True)  # type: ignore[arg-type]
    assert found == sum(followed) == seen


def test_one_round_of_many_changes_is_not_left_to_the_desk() -> None:
    followed: list[int] = []

    class Follower:
        def follow(self, changes: list[Change], later: bool) -> None:
            followed.append(len(changes))

    class Bulk(Busy):
        def changes_since(self, seq: int) -> list[Change]:
            return [change._replace(block=seq) for change in super().changes_since(seq)]

    found = training._caught_up(Bulk(500, 3), Follower(), 0, training.ONE, 10, later=False)  # type: ignore[arg-type]
    assert (found, followed) == (500, [500])
