"""What something else vouches for is checked beside the work; what is wrong with it is told all the same."""

import errno
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from everylabel.labelling.events import Event, Skip
from everylabel.labelling.kept import Kept
from everylabel.labelling.packing import WHAT, maker, vouched
from everylabel.projects.database import checking
from everylabel.projects.database.chain import Head
from everylabel.projects.database.checking import Checking, Slowly
from everylabel.projects.database.store import Damaged, Store, StoreError
from everylabel.projects.log import opened_store
from everylabel.projects.model_file import ModelFile
from tests.projects.test_sealing import CHANGES, EARLIER, KNOWN, change, events, read, said, written

N, UP_TO = 120, 80
MORE = Event(N + 1, N + 1, 1.0, "me", Skip("row 2"))


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have short logs checked as long ones are."""
    monkeypatch.setattr(checking, "FROM", 1)


def mark(where: str | Path, seq: int = UP_TO) -> Head:
    with closing(Store(where, "p", write=False)) as store:
        return Head(seq, store.mark(seq))


def opened(where: str | Path, to: Head) -> tuple[Store, list[StoreError]]:
    """Return a log of which all is checked by now, and what was told of it meanwhile."""
    told: list[StoreError] = []
    store = Store(where, "p", vouched=to, lost=told.append)
    store.wait_checked()
    return store, told


def test_a_log_that_is_whole_is_written_to(where: str) -> None:
    written(where)
    store, told = opened(where, mark(where))
    with closing(store):
        assert (store.refusal(), told) == (None, [])
        store.append([MORE])
        assert store.read(UP_TO) == [*events(N)[UP_TO:], MORE]
        assert store.read() == [*events(N), MORE]


IN_TABLES = [(statement, says) for statement, says in CHANGES if "DROP TABLE" not in statement]
LATER = [
    ("UPDATE everylabel_events SET person = 'eve' WHERE seq = 80", "event 80 is not what was written"),
    ("UPDATE everylabel_events SET person = 'eve' WHERE seq = 81", "event 81 is not .* the 80 events before"),
    ("UPDATE everylabel_events SET chain = 'eve' WHERE seq = 80", "event 80 is not what was written"),
    ("DELETE FROM everylabel_events WHERE seq = 80", "event 81 is not what was written"),
    ("DELETE FROM everylabel_events WHERE seq = 1", "event 2 is not what was written"),
    ("DELETE FROM everylabel_events WHERE seq > 80", "events after 80 are missing, of 120"),
    ("UPDATE everylabel_heads SET seq = 80", "its seal is not that of event 80"),
    (EARLIER.format(79), "its seal is behind: that of event 79, and its last is 120"),
    (EARLIER.format(80), "its seal is behind: that of event 80, and its last is 120"),
]


@pytest.mark.parametrize(("statement", "says"), [*IN_TABLES, *LATER])
def test_all_is_told_that_opening_would_tell(where: str, statement: str, says: str) -> None:
    written(where)
    by = mark(where)
    change(where, statement)
    with pytest.raises(Damaged, match=says) as at_once:
        Store(where, "p")
    try:
        store, told = opened(where, by)
    except Damaged as error:
        store, told = None, [error]
    assert [str(error) for error in told] == [str(at_once.value)]
    if store is None:
        return
    with closing(store):
        assert f"nothing can be saved: {at_once.value}. Export" in str(store.refusal())
        assert store.read(110) == events(N)[110:]
        store.append([MORE])  # had begun before: nobody is told otherwise
        assert store.read(110) == [*events(N)[110:], MORE]
    with pytest.raises(Damaged, match=says):
        read(where, write=False)


@pytest.mark.parametrize("other", [Head(UP_TO, "another"), Head(N + 5, "none"), Head(0, "")])
def test_what_vouches_for_another_log_vouches_for_nothing(where: str, other: Head) -> None:
    written(where)
    change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7")
    with pytest.raises(Damaged, match="event 7 is not what was written"):
        Store(where, "p", vouched=other)


def test_a_short_log_is_checked_at_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "FROM", UP_TO + 1)
    written(where)
    by = mark(where)
    change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7")
    with pytest.raises(Damaged, match="event 7 is not what was written; the 6 events before"):
        Store(where, "p", vouched=by)


def _told(path: Path, by: Head) -> bool:
    """Return whether damage is told, at once or after a while; what is read meanwhile is what was written."""
    try:
        store, told = opened(path, by)
    except StoreError:
        return True
    with closing(store):
        try:
            assert store.read(UP_TO) == events(N)[UP_TO:]
            assert store.items() == KNOWN
            assert store.glance("skip") == events(N)[-1:]
        except Damaged:
            return True
        return bool(told) and store.refusal() is not None


def test_a_flipped_bit_is_told_if_opening_would_tell_it(tmp_path: Path) -> None:
    whole = tmp_path / "labels.sqlite"
    written(whole)
    by, content, draw = mark(whole), whole.read_bytes(), random.Random(6)
    flips = [draw.randrange(8 * len(content)) for _ in range(120)]
    told = 0
    for flip in flips:
        damaged = bytearray(content)
        damaged[flip // 8] ^= 1 << flip % 8
        for name in ("vouched", "twin"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "labels.sqlite").write_bytes(damaged)
        found = said(tmp_path / "twin" / "labels.sqlite")
        now = _told(tmp_path / "vouched" / "labels.sqlite", by)
        assert now == (found is None), f"bit {flip}"
        told += now
        for name in ("vouched", "twin"):
            shutil.rmtree(tmp_path / name)
    assert 20 < told < len(flips)


def test_events_of_a_kind_are_what_was_written(where: str) -> None:
    written(where)
    with closing(Store(where, "p")) as store:
        assert store.glance("skip") == events(N)[-1:]
        assert store.first() == events(N)[0]
        assert len(store.glance("label")) == N - 2
        change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7")
        assert store.glance("skip") == events(N)[-1:]
        with pytest.raises(Damaged, match="event 7 is not what was written; the 6 events before"):
            store.glance("label")
        change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 1")
        with pytest.raises(Damaged, match="event 1 is not"):
            store.first()


def test_a_store_that_is_closed_leaves_the_rest(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "REST", 1e12)  # for ever
    monkeypatch.setattr(checking, "AT_A_TIME", 1)
    written(where)
    by = mark(where)
    change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 70")
    told: list[StoreError] = []
    Store(where, "p", vouched=by, lost=told.append).close()
    assert told == []


def test_a_ledger_that_may_not_vouch_is_taken_away(tmp_path: Path) -> None:
    shelf, kept = ModelFile(tmp_path, pytest.fail), Kept(7, "digest", "", maker(), {})
    shelf.put(kept, WHAT)
    assert vouched(shelf) == (7, "digest")
    shelf.put(kept._replace(made_by="another"), WHAT)
    assert vouched(shelf) is None
    shelf.put(kept, WHAT)
    assert vouched(shelf) == (7, "digest")
    shelf.discard(WHAT)
    shelf.put(kept, WHAT)
    assert shelf.get(WHAT) is None
    assert vouched(shelf) is None is vouched(None)
    shelf.put(kept)
    assert shelf.get() is not None  # the model stays


def test_what_could_not_be_checked_is_checked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checking, "AGAIN", 0.0)
    gone = [StoreError("gone"), ZeroDivisionError("odd"), StoreError("gone")]
    tries: Iterator[Exception] = iter([*gone, Damaged("log", "odd")])
    told: list[StoreError] = []

    def check(slowly: Slowly) -> None:
        raise next(tries)

    Checking(check, told.append).thread.join()
    assert ["odd" in str(error) for error in told] == [True]
    assert ("ZeroDivisionError" in caplog.text, caplog.text.count("tried again: gone")) == (True, 2)


def test_damage_is_told_though_the_ledger_cannot_be_taken_away(where: str, tmp_path: Path) -> None:
    written(where)
    by, notes = mark(where), list[str]()
    shelf = ModelFile(tmp_path, notes.append)
    shelf.put(Kept(by.seq, by.chain, "", maker(), {}), WHAT)
    change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with closing(opened_store(where, "p", shelf, notes.append)) as store:
            store.wait_checked()
            assert store.refusal() is not None
    assert "no more answers are taken" in notes[0]
    assert "ledger.kept.npz' cannot be taken away (Read-only file system); delete it, so" in notes[1]


def refuse(path: Path, missing_ok: bool = False) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
