"""The desk on a log in memory: grouping of requests, writes, and next items."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling import desk as module
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.state.state import digest
from everylabel.labelling.state.types import Refused
from everylabel.log import events
from everylabel.log.events import Event
from everylabel.selection.pool import Where
from tests.labelling.desks import CLASSES, FEATURES, IDS, Y


class Memory:
    """A log that is a list of writes and can be made to fail."""

    shown = "in memory"

    def __init__(self, **settings: Any) -> None:
        first = events.Project(CLASSES, {"strategy": "margin", "check_every": 0, **settings}, seed=0)
        self.writes: list[list[Event]] = [[Event(1, 0.0, "", first)]]
        self.failing: Exception | None = None
        self.known: EverylabelError | None = None  # why it would fail

    def read(self, after: int = 0) -> list[Event]:
        return [event for write in self.writes for event in write if event.seq > after]

    def append(self, events: Sequence[Event]) -> None:
        if self.failing is not None:
            raise self.failing
        self.writes.append(list(events))

    def mark(self, seq: int) -> str:
        return ""

    def hurry(self, seconds: float) -> None:
        pass

    def refusal(self) -> EverylabelError | None:
        return self.known


@contextmanager
def desk(log: Memory, n: int = 60) -> Iterator[Desk]:
    made = Desk(FeatureTable(IDS[:n], FEATURES[:n], ready=True), log)
    try:
        yield made
    finally:
        made.close()


def saying(made: Desk, *said: tuple[str, events.Body], ask: bool = False) -> Callable[[], Finish]:
    """Return a command that emits answers and returns people's next items."""

    def command() -> Finish:
        for person, body in said:
            made.emit(person, body)
            if ask:
                made.request_item(person)
        return lambda: dict(made.state.leases)

    return command


def asking(made: Desk, *people: str) -> Any:
    """Let people request items; return each person's item."""

    def command() -> Finish:
        for person in people:
            made.request_item(person)
        return lambda: {person: lease for person, lease in made.state.leases.items() if person in people}

    return made.submit(command).result()


@contextmanager
def busy(made: Desk) -> Iterator[None]:
    """Block the desk's thread while requests arrive."""
    begun, go_on = threading.Event(), threading.Event()

    def look() -> None:
        begun.set()
        go_on.wait()

    looking = made.read(look)
    begun.wait()
    yield
    go_on.set()
    looking.result()


def test_a_log_that_was_not_begun_is_refused() -> None:
    log = Memory()
    log.writes = []
    with pytest.raises(EverylabelError, match="log holds no event; expected one"):
        Desk(FeatureTable(IDS, FEATURES, ready=True), log)


def test_requests_that_wait_are_learned_and_written_together() -> None:
    log = Memory()
    with desk(log) as made:
        with busy(made):
            said = [saying(made, (f"p{i}", events.Label(IDS[i], i)), ask=True) for i in range(3)]
            futures = [made.submit(command) for command in said]
        for future in futures:
            future.result()
        (_, write) = log.writes
        assert [event.body.kind for event in write] == ["label"] * 3 + ["out"] * 3
        assert [event.seq for event in write] == list(range(2, 8))
        assert made.state.labels == {0: 0, 1: 1, 2: 2}
        assert len({lease.item for lease in made.state.leases.values()}) == 3


def test_exclusive_command_runs_alone() -> None:
    log = Memory()
    with desk(log) as made:
        with busy(made):
            said = [saying(made, ("me", events.Label(IDS[i], i))) for i in range(3)]
            futures = [made.submit(command, alone=i == 1) for i, command in enumerate(said)]
        for future in futures:
            future.result()
        assert [len(write) for write in log.writes] == [1, 1, 1, 1]


def test_a_refusal_reaches_one_person_and_the_others_continue() -> None:
    log = Memory()

    def refuse() -> Finish:
        raise Refused(409, "no", "not now")

    with desk(log) as made:
        with busy(made):
            refused = made.submit(refuse)
            fine = made.submit(saying(made, ("me", events.Label(IDS[0], 1))))
        fine.result()
        with pytest.raises(Refused, match="not now"):
            refused.result()
        assert made.state.labels == {0: 1}


def test_failed_write_changes_nothing() -> None:
    log = Memory()
    with desk(log) as made:
        made.submit(saying(made, ("me", events.Label(IDS[0], 1)))).result()
        log.failing = EverylabelError("the disk is full")
        with busy(made):
            futures = [made.submit(saying(made, ("me", events.Label(IDS[i], 2)))) for i in (1, 2)]
        for future in futures:
            with pytest.raises(EverylabelError, match="the disk is full"):
                future.result()
        assert made.read(lambda: dict(made.state.labels)).result() == {0: 1}
        assert made.learner.pool.labelled_idx.tolist() == [0]
        log.failing = None
        made.submit(saying(made, ("me", events.Label(IDS[1], 2)))).result()
        assert made.state.labels == {0: 1, 1: 2}
        assert len(log.writes) == 3


def test_an_unknown_failure_is_logged_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    with desk(Memory()) as made:
        with pytest.raises(ZeroDivisionError):
            made.submit(lambda: 1 / 0).result()  # type: ignore[arg-type, return-value]
        assert "a round of the desk failed" in caplog.text
        assert made.read(lambda: made.state.seq).result() == 1


def test_leases_end_at_the_next_request() -> None:
    log = Memory(lease_seconds=-1)
    with desk(log) as made:
        asking(made, "me")
        assert made.submit(saying(made)).result() == {}
        assert log.read()[-1].body.kind == "release"


def test_a_lease_ends_if_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    with desk(Memory(lease_seconds=600)) as made:
        asking(made, "me")
        monkeypatch.setattr(time, "time", lambda: now - 300)
        assert made.submit(saying(made)).result().keys() == {"me"}
        monkeypatch.setattr(time, "time", lambda: now - 3600)
        assert made.submit(saying(made)).result() == {}


def test_reading_ends_no_lease() -> None:
    with desk(Memory(lease_seconds=-1)) as made:
        made.submit(saying(made, ("me", events.Leased(IDS[0], "asked")))).result()
        assert made.read(lambda: dict(made.state.leases)).result().keys() == {"me"}
        assert made.submit(saying(made)).result() == {}


def test_each_person_gets_a_different_item_and_keeps_it() -> None:
    with desk(Memory()) as made:
        made.submit(saying(made, *(("me", events.Label(IDS[i], i % 3)) for i in range(6)))).result()
        first = asking(made, "anna", "ben", "anna")
        assert len({lease.item for lease in first.values()}) == 2
        assert asking(made, "anna", "ben", "carl").items() >= first.items()
        assert {lease.reason for lease in made.state.leases.values()} == {"chosen"}
        assert all(
            made.learner.pool.where(lease.item) is Where.LEASED for lease in made.state.leases.values()
        )
        assert list(made.state.curve.values())[-1] == round(made.learner.expected_accuracy(), 6)


def test_item_records_the_strategy_that_chose_it() -> None:
    with desk(Memory(check_every=0)) as made:
        assert asking(made, "anna")["anna"].by == "typiclust"  # the model cannot choose yet
        made.submit(saying(made, *(("me", events.Label(IDS[i], i % 3)) for i in range(6)))).result()
        assert asking(made, "ben")["ben"].by == made.state.settings["strategy"] == "margin"
        made.submit(saying(made, ("me", events.Settings(strategy="random")))).result()
        assert asking(made, "carl")["carl"].by == "random"
        skipped = [("me", events.Skip(name)) for name in made.state.ids if name not in IDS[:6]]
        made.submit(saying(made, *skipped)).result()
        assert asking(made, "dora")["dora"].by == "left"


def test_second_opinions_come_first_then_checks_then_choices() -> None:
    with desk(Memory(annotators_per_item=2, check_every=2)) as made:
        label = ("anna", events.Label(IDS[7], 1))
        made.submit(saying(made, label)).result()
        second = asking(made, "ben")["ben"]
        assert (second.item, second.reason) == (7, "second")
        assert asking(made, "anna")["anna"].reason == "chosen"  # she has said so already
        assert asking(made, "carl")["carl"].reason == "check"  # ben has the item; every second is drawn
        assert asking(made, "dora")["dora"].reason == "chosen"


def test_every_nth_lease_is_a_check_however_many_people_ask_at_once() -> None:
    for people in (1, 4, 7):
        log, names = Memory(check_every=5, strategy="random"), [f"p{i}" for i in range(people)]
        with desk(log) as made:
            asking(made, *names)
            while made.state.handed < 40:
                held = {name: made.state.leases[name].item for name in names}
                said = [(name, events.Skip(IDS[item])) for name, item in held.items()]
                made.submit(saying(made, *said, ask=True)).result()
        reasons = [event.body.reason for event in log.read() if isinstance(event.body, events.Leased)]
        for n in range(people, len(reasons) + 1, people):  # after every round
            assert reasons[:n].count("check") == n // 5


def test_skipped_items_come_back_last_and_others_first() -> None:
    with desk(Memory(), n=3) as made:
        skips = [("me", events.Skip(IDS[0])), ("anna", events.Skip(IDS[1]))]
        made.submit(saying(made, *skips, ("me", events.Label(IDS[2], 1)))).result()
        assert asking(made, "me")["me"].item == 1  # hers before his own
        assert asking(made, "ben")["ben"].item == 0
        assert asking(made, "carl") == {}  # nothing is left


def test_a_trained_model_takes_over_with_labels_given_meanwhile() -> None:
    log = Memory()
    with desk(log) as made:
        made.submit(saying(made, *(("me", events.Label(IDS[i], i % 3)) for i in range(9)))).result()
        assert made.learned.is_set()
        trained = Learner(made.rows, made.ids, made.read(made.training_set).result())
        made.submit(saying(made, ("me", events.Label(IDS[20], 1)), ("me", events.Undo(10)))).result()

        def take() -> Finish:
            made.replace_model(trained)
            return lambda: None

        made.submit(take, alone=True).result()
        assert made.learner is trained
        assert trained.pool.labelled_idx.tolist() == sorted(made.state.labels)
        assert [event.body.kind for event in log.read()[-2:]] == ["label", "undo"]  # nothing is written


def test_a_closed_desk_has_finished_its_requests_and_refuses_more() -> None:
    log = Memory()
    with desk(log) as made, busy(made):
        future = made.submit(saying(made, ("me", events.Label(IDS[0], 1))))
    assert future.result() == {}
    assert len(log.writes) == 2
    with pytest.raises(Refused, match="the server is stopping"):
        made.submit(saying(made)).result()


def test_invalid_event_is_refused_before_anything_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Memory(lease_seconds=-1)
    with desk(log) as made:
        asking(made, "ana")
        before = made.state.seq
        monkeypatch.setattr(log, "read", lambda: 1 / 0)  # the state is not read again
        log.known = EverylabelError("the disk is full")
        log.failing = log.known
        answer = saying(made, ("ana", events.Label(IDS[0], 1)))
        for command in (answer, saying(made, ("ben", events.Skip(IDS[1])), ask=True)):
            with pytest.raises(EverylabelError, match="the disk is full"):
                made.submit(command).result()
        with pytest.raises(EverylabelError, match="the disk is full"):
            asking(made, "ben")
        assert made.read(lambda: made.state.seq).result() == before
        assert list(asking(made, "ana")) == ["ana"]  # has something already, and keeps it
        log.known = log.failing = None
        assert made.submit(answer).result() == {}


def test_readers_are_answered_though_a_write_fails() -> None:
    log = Memory()
    with desk(log) as made:
        log.failing = EverylabelError("no room")
        with busy(made):
            saying_so = made.submit(saying(made, ("ana", events.Label(IDS[0], 1))))
            looking = made.read(lambda: len(made.state.labels))
        assert looking.result() == 0
        with pytest.raises(EverylabelError, match="no room"):
            saying_so.result()


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


def unreadable(after: int = 0) -> list[Event]:
    raise EverylabelError("the log is damaged")


@pytest.mark.parametrize("where", ["after an event", "in an event", "in a model that takes over"])
def test_nothing_is_built_on_half_applied_events(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    log = Memory()
    with desk(log) as made:
        made.submit(saying(made, ("ana", events.Label(IDS[0], 1)))).result()
        before = digest(made.state)
        trained = Learner(made.rows, made.ids, made.read(made.training_set).result())

        def command() -> Finish:
            if where == "in a model that takes over":
                made.replace_model(trained)
            made.emit("ana", events.Label(IDS[1], 1))
            return fail()

        with monkeypatch.context() as patch:
            patch.setattr(log, "read", unreadable)
            if where == "in an event":
                patch.setattr(module, "apply", fail)
            with pytest.raises(ZeroDivisionError):
                made.submit(command, alone=True).result()
            for _ in range(2):
                with pytest.raises(EverylabelError, match="the log is damaged"):
                    made.read(lambda: dict(made.state.labels)).result()
        assert made.read(lambda: dict(made.state.labels)).result() == {0: 1}
        assert digest(made.state) == before


def test_leased_items_are_where_a_start_would_put_them() -> None:
    """Second opinions are leased after a round's labels; nobody looks before the next ones come."""
    log, rows = Memory(annotators_per_item=2), FeatureTable(IDS[:60], FEATURES[:60], ready=True)
    with closing(Desk(rows, log)) as desk:
        for i in range(12):
            desk.submit(saying(desk, ("A", events.Label(IDS[i], int(Y[i])))), alone=True).result()

        def ask() -> Finish:
            for person in ("B", "C", "D"):
                desk.request_item(person)
            return lambda: len(desk.state.leases)

        assert desk.submit(ask, alone=True).result() == 3
        desk.submit(saying(desk, ("A", events.Label(IDS[20], int(Y[20])))), alone=True).result()
        state = desk.read(lambda: digest(desk.state)).result()
        places = desk.read(lambda: np.array(desk.learner.pool.state)).result()
    with closing(Desk(rows, log)) as desk:
        assert digest(desk.state) == state
        np.testing.assert_array_equal(desk.learner.pool.state, places)
