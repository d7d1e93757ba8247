"""`everylabel doctor` copies the events before a damage to a new log, and leaves the old one alone."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.source_diff import RecordedRows
from everylabel.log.backup import back_up
from everylabel.log.database import digest
from everylabel.log.events import Event, Extended, Label
from everylabel.log.store import Damaged, Store, StoreError
from everylabel.projects.doctor import Findings, LogLocation, examine, find_log
from tests.log.test_integrity import EARLIER, KNOWN, change, events, meanwhile, written

NEW = "new.sqlite"


def examined(where: str | Path, tmp_path: Path) -> Findings:
    return examine(LogLocation(tmp_path, str(where), "p"), tmp_path / NEW)


def read(path: Path) -> tuple[list[Event], RecordedRows | None]:
    with closing(Store(path, "p")) as store:
        return store.read(), store.items()


def test_a_whole_log_is_left_alone(where: str, tmp_path: Path) -> None:
    written(where)
    found = examined(where, tmp_path)
    assert found.wrong == []
    assert "120 events, all whole" in found.fine[0]
    assert not (tmp_path / NEW).exists()


@pytest.mark.parametrize(
    ("statement", "says", "left"),
    [
        (
            "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7",
            "event 7 does not fit the hash chain",
            6,
        ),
        ("UPDATE everylabel_events SET chain = 'x' WHERE seq = 7", "event 7 does not fit the hash chain", 6),
        ("UPDATE everylabel_events SET chain = NULL WHERE seq = 7", "event 7 does not fit the hash chain", 6),
        ("UPDATE everylabel_events SET chain = 'x' WHERE seq = 120", "event 120 does not fit", 119),
        ("DELETE FROM everylabel_events WHERE seq IN (8, 9)", "event 10 does not fit the hash chain", 7),
        ("DELETE FROM everylabel_events WHERE seq > 110", "events after 110 are missing", 110),
        ("DELETE FROM everylabel_heads", "its head is lost", 120),
        ("DROP TABLE everylabel_heads", "everylabel_heads", 120),
        (EARLIER.format(100), "its head is not that of event 120, its last", 120),
        ("UPDATE everylabel_heads SET seq = -1", "its head is not that of event 120, its last", 120),
    ],
)
def test_the_events_before_a_damage_are_copied(
    where: str, tmp_path: Path, statement: str, says: str, left: int
) -> None:
    written(where)
    change(where, statement)
    found = examined(where, tmp_path)
    assert found.written == tmp_path / NEW
    assert says in found.wrong[0]
    assert f"{left} events of the log" in found.fine[0]
    assert f"up to event {left}" in found.fine[0]
    assert read(tmp_path / NEW) == (events(120)[:left], KNOWN)
    with pytest.raises(StoreError):  # the old one is as it was
        Store(where, "p")


def test_a_noted_source_that_is_damaged_is_left_out(where: str, tmp_path: Path) -> None:
    written(where)
    change(where, "UPDATE everylabel_items SET items = replace(items, 'row 7', 'row 8')")
    assert any("the stored source is lost" in each for each in examined(where, tmp_path).wrong)
    assert read(tmp_path / NEW) == (events(120), None)


@pytest.mark.parametrize(
    "noted",
    [
        *("null", "[]", "[1]", "7", '"text"', "{}", "[null, null]", "[7, [1]]", "[[1], []]", "[" * 10**5),
        '{"keys": ["row 1"], "digests": "abc"}',
        '{"keys": ["row 1"], "digests": ["x"], "own_ids": []}',
        '{"keys": ["row 1"], "digests": ["x"], "own_ids": 7}',
        '{"keys": ["row 1"], "digests": ["x"], "gone": "x"}',
        '{"keys": ["row 1"], "digests": ["x"], "id_column": []}',
        '{"keys": ["row 1"], "digests": ["x"], "other": 1}',
    ],
)
def test_any_record_of_the_source_survives(tmp_path: Path, noted: str) -> None:
    where = tmp_path / "labels.sqlite"
    all_of_it = [*events(20), Event(21, 1.0, "", Extended(list(KNOWN.keys), "abc"))]
    with closing(Store(where, "p")) as store:
        store.append(all_of_it)
        store.set_items(KNOWN)
    change(str(where), f"UPDATE everylabel_items SET items = '{noted}'")
    found = examined(where, tmp_path)
    assert any("the stored source is lost" in each for each in found.wrong)
    assert read(tmp_path / NEW) == (all_of_it, None)
    change(str(where), f"UPDATE everylabel_heads SET items = '{digest(noted)}'")
    with closing(Store(where, "p", write=False)) as log, pytest.raises((Damaged, AssertionError)):
        assert log.items() == KNOWN


def test_a_head_without_a_number_is_reported(tmp_path: Path) -> None:
    where = str(tmp_path / "labels.sqlite")
    written(where)
    change(where, "UPDATE everylabel_heads SET seq = 'x'")
    assert any("values that cannot be read" in each for each in examined(where, tmp_path).wrong)
    assert read(tmp_path / NEW) == (events(120), KNOWN)


def test_writes_of_a_server_are_no_damage(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(postgres)
    more = Event(121, 1.0, "me", Label("row 2", 1))
    with closing(Store(postgres, "p")) as store:
        meanwhile(monkeypatch, "each_row", lambda: store.append([more]))  # the head was read
        assert examined(postgres, tmp_path).wrong == []
    assert "121 events, all whole" in examined(postgres, tmp_path).fine[0]


def test_unreadable_log_is_reported_and_not_replaced(
    tmp_path: Path,
) -> None:
    where = tmp_path / "labels.sqlite"
    written(where)
    content = bytearray(where.read_bytes())
    with closing(sqlite3.connect(where)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'everylabel_events'"
        (root,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content[(root - 1) * size] ^= 0xFF  # what kind of page it is
    where.write_bytes(content)
    with pytest.raises(StoreError, match="everylabel doctor"):
        read(where)
    found = examined(where, tmp_path)
    assert found.written is None
    assert "backup" in found.wrong[-1]
    assert not (tmp_path / NEW).exists()


def test_a_flipped_bit_never_gives_another_log(tmp_path: Path) -> None:
    where, new = tmp_path / "labels.sqlite", tmp_path / NEW
    written(where)
    content, draw, copied = where.read_bytes(), random.Random(1), 0
    for _ in range(60):
        flip = draw.randrange(8 * len(content))
        damaged = bytearray(content)
        damaged[flip // 8] ^= 1 << flip % 8
        where.write_bytes(damaged)
        try:
            found = examined(where, tmp_path)
        except StoreError:  # it cannot be read at all
            continue
        assert where.read_bytes() == damaged
        if found.written is not None:
            valid, _ = read(new)
            assert valid == events(120)[: len(valid)]
            copied += 1
            new.unlink()
    assert copied > 5


def test_events_before_a_lost_page_are_copied(tmp_path: Path) -> None:
    where = tmp_path / "labels.sqlite"
    written(where, 400)
    with closing(sqlite3.connect(where)) as connection:
        query = (
            "SELECT pageno FROM dbstat WHERE name = 'everylabel_events' AND pagetype = 'leaf' ORDER BY pageno"
        )
        try:
            pages = [page for (page,) in connection.execute(query)]
        except sqlite3.OperationalError:
            pytest.skip("this SQLite was built without dbstat")
    content = bytearray(where.read_bytes())
    content[(pages[-2] - 1) * 4096 : pages[-2] * 4096] = bytes(4096)
    where.write_bytes(content)
    with pytest.raises(StoreError):
        read(where)
    found = examined(where, tmp_path)
    kept, _ = read(tmp_path / NEW)
    assert 100 < len(kept) < 400
    assert kept == events(400)[: len(kept)]
    assert f"up to event {len(kept)}" in found.fine[0]


def test_an_output_that_is_there_is_refused(tmp_path: Path) -> None:
    where = tmp_path / "labels.sqlite"
    written(where)
    change(str(where), "DELETE FROM everylabel_heads")
    (tmp_path / NEW).write_text("mine")
    with pytest.raises(EverylabelError, match="which exists; expected a new file"):
        examined(where, tmp_path)
    assert (tmp_path / NEW).read_text() == "mine"


@pytest.mark.parametrize("damage", ["{", None])
def test_a_log_is_found_without_its_source_and_project_file(tmp_path: Path, damage: str | None) -> None:
    folder = tmp_path / "old.csv.everylabel"
    folder.mkdir()
    written(folder / "labels.sqlite")
    if damage is not None:
        (folder / "project.json").write_text(damage)
    for source in (str(folder), str(tmp_path / "old.csv")):
        place = find_log(source, None, None)
        assert (place.folder, place.name) == (folder, "p")
        assert back_up(place.store, place.name, tmp_path / NEW) == 120
        assert read(tmp_path / NEW) == read(folder / "labels.sqlite")
        (tmp_path / NEW).unlink()
    with sqlite3.connect(folder / "labels.sqlite") as db:
        db.execute("INSERT INTO everylabel_events SELECT 'q', seq, block, at, person, kind, body, key, chain "
                   "FROM everylabel_events")  # fmt: skip
    with pytest.raises(EverylabelError, match=r"project\.json"):  # which of the two logs is meant?
        find_log(str(folder), None, None)
