"""Damage of a log is reported: flipped bits, changed, lost, moved or truncated rows."""

import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from everylabel.data.source_diff import RecordedRows
from everylabel.log import database
from everylabel.log.database import connect
from everylabel.log.events import Event, Label, Project, Skip
from everylabel.log.store import Damaged, Store, StoreError

KNOWN = RecordedRows([f"row {i}" for i in range(60)], [f"{i:016x}" for i in range(60)])


def events(n: int) -> list[Event]:
    """Return a log: a project, then answers."""
    first = Event(1, 1.5, "", Project(["a", "b"], {"check_every": 2}, 0, "id"))
    rest = [
        Event(
            i,
            1e9 + i / 7,
            f"pérson {i % 3}",
            Label(f"row {i % 60}", i % 2, sure=i / n),
            f"key {i}",
        )
        for i in range(2, n)
    ]
    return [first, *rest, Event(n, 1e9 + n, "me", Skip("row 1"))]


def written(where: str | Path, n: int = 120) -> None:
    with closing(Store(where, "p")) as store:
        store.append(events(n)[: n // 2])
        store.set_items(KNOWN)
        store.append(events(n)[n // 2 :])


def change(where: str, statement: str) -> None:
    """Change a log behind everylabel's back."""
    if "://" not in where:
        with closing(sqlite3.connect(where)) as connection, connection:
            connection.execute(statement)
        return
    engine = connect(where, write=True)
    with engine.begin() as session:
        session.execute(sa.text(statement))
    engine.dispose()


def read(where: str, write: bool) -> tuple[list[Event], RecordedRows | None]:
    with closing(Store(where, "p", write=write)) as store:
        return store.read(), store.items()


def said(path: Path) -> Any:
    """Return the events of a log by a reader and by a writing server; None if damage is reported."""
    try:
        found, known = read(str(path), False)
        with closing(Store(path, "p")) as store:
            assert (store.read(), store.items(), store.note) == (found, known, "")
            more = Event(found[-1].seq + 1, 1.0, "me", Skip("row 2"))
            store.append([more])
            assert store.read() == [*found, more]
        return found, known
    except StoreError as error:
        return None if "labels.sqlite" in str(error) else error


def test_flipped_bit_is_harmless_or_reported(tmp_path: Path) -> None:
    whole = tmp_path / "labels.sqlite"
    written(whole)
    content, draw = whole.read_bytes(), random.Random(5)
    flips = [*range(0, 800, 13), *(draw.randrange(8 * len(content)) for _ in range(140))]
    told = 0
    for flip in flips:
        folder = tmp_path / str(flip)
        folder.mkdir()
        damaged = bytearray(content)
        damaged[flip // 8] ^= 1 << flip % 8
        (folder / "labels.sqlite").write_bytes(damaged)
        found = said(folder / "labels.sqlite")
        assert found in (None, (events(120), KNOWN)), f"bit {flip}: other labels"
        told += found is None
        shutil.rmtree(folder)
    assert 20 < told < len(flips)


EARLIER = (  # a head that was there once, as a lost write leaves it
    "UPDATE everylabel_heads SET seq = {0}, chain = (SELECT chain FROM everylabel_events WHERE seq = {0})"
)
CHANGES = [
    (
        "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7",
        "event 7 does not fit .* the 6 events before",
    ),
    ("UPDATE everylabel_events SET at = at + 1 WHERE seq = 7", "event 7 does not fit the hash chain"),
    ("UPDATE everylabel_events SET key = NULL WHERE seq = 7", "event 7 does not fit the hash chain"),
    ("UPDATE everylabel_events SET chain = NULL WHERE seq = 7", "event 7 does not fit the hash chain"),
    ("UPDATE everylabel_events SET seq = 1000 WHERE seq = 7", "event 8 does not fit the hash chain"),
    ("DELETE FROM everylabel_events WHERE seq = 7", "event 8 does not fit the hash chain"),
    ("DELETE FROM everylabel_events WHERE seq > 7", "events after 7 are missing, of 120"),
    ("DELETE FROM everylabel_events", "events after 0 are missing, of 120"),
    ("UPDATE everylabel_heads SET seq = 119", "its head is not that of event 120, its last"),
    ("UPDATE everylabel_heads SET chain = 'x'", "its head is not that of event 120, its last"),
    (EARLIER.format(100), "its head is not that of event 120, its last; the events themselves are whole"),
    ("UPDATE everylabel_heads SET seq = -1", "its head is not that of event 120, its last"),
    ("DELETE FROM everylabel_heads", "its head is lost; 120 events are there"),
    ("UPDATE everylabel_items SET items = replace(items, 'row 7', 'row 8')", "the stored source was changed"),
    ("DELETE FROM everylabel_items", "the stored source was changed"),
    ("DROP TABLE everylabel_heads", "no such table: everylabel_heads"),
    ("DROP TABLE everylabel_items", "no such table: everylabel_items"),
]


@pytest.mark.parametrize(("statement", "says"), CHANGES)
def test_changes_are_reported(tmp_path: Path, statement: str, says: str) -> None:
    where = str(tmp_path / "labels.sqlite")
    written(where)
    change(where, statement)
    for write in (False, True):
        with pytest.raises(Damaged, match=f"(?s){says}.*everylabel doctor PROJECT"):
            read(where, write)


def test_events_read_later_are_checked(where: str) -> None:
    written(where)
    with closing(Store(where, "p")) as store:
        assert store.read() == events(120)
        change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 115")
        with pytest.raises(Damaged, match="event 115 does not fit the hash chain"):
            store.read()


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, then: Callable[[], None]) -> None:
    """Run an action once, just before a part of a log is read."""
    read_it, left = getattr(database, name), [then]

    def read_later(*args: Any) -> Any:
        if left:
            left.pop()()
        return read_it(*args)

    monkeypatch.setattr(database, name, read_later)


@pytest.mark.parametrize("look", [Store.read, Store.content])
def test_write_during_a_read_is_not_reported_as_damage(
    where: str, monkeypatch: pytest.MonkeyPatch, look: Callable[[Store], Any]
) -> None:
    written(where)
    more = Event(121, 1.0, "me", Skip("row 2"))
    with closing(Store(where, "p")) as store, closing(Store(where, "p", write=False)) as reader:
        before = look(reader)
        meanwhile(monkeypatch, "each_row", lambda: store.append([more]))  # the head was read
        assert look(reader) == before
        assert reader.read() == [*events(120), more]


def test_nothing_is_appended_to_a_log_whose_end_was_cut_off(where: str) -> None:
    written(where)
    more = Event(121, 1.0, "me", Skip("row 2"))
    with closing(Store(where, "p")) as store:
        change(where, "DELETE FROM everylabel_events WHERE seq = 120")
        with pytest.raises(StoreError, match="nothing of this was saved"):
            store.append([more])


def test_log_of_version_0_1_is_chained_once(where: str) -> None:
    written(where)
    change(where, "DROP TABLE everylabel_heads")
    change(where, "ALTER TABLE everylabel_events DROP COLUMN chain")
    change(where, "UPDATE everylabel_items SET format = 2")
    with closing(Store(where, "p", write=False)) as reader:
        assert reader.read() == events(120)
        assert reader.items() == KNOWN
    with closing(Store(where, "p")) as store:
        assert "its 120 events are chained now" in store.note
        assert store.read() == events(120)
    with closing(Store(where, "p")) as store:
        assert store.note == ""
    change(where, "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7")
    with pytest.raises(Damaged, match="event 7"):
        Store(where, "p")


def test_only_the_owner_can_read_a_log(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "labels.sqlite", "p")) as store:
        store.append(events(3))
        assert len(list(tmp_path.iterdir())) >= 4
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_events_of_one_kind_are_read_without_the_others(where: str) -> None:
    written(where)
    with closing(Store(where, "p")) as store:
        assert store.glance("skip") == events(120)[-1:]
        assert store.first() == events(120)[0]
        assert len(store.glance("label")) == 118
        change(where, "UPDATE everylabel_events SET body = '[' WHERE kind = 'label' AND seq = 7")
        assert store.glance("skip") == events(120)[-1:]
        with pytest.raises(Damaged, match="cannot be read"):
            store.glance("label")
