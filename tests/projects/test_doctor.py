"""What `everylabel doctor` finds and rebuilds: everything that is whole, nothing that was not said."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.known import Known
from everylabel.labelling.events import Event, Extended, Label, NewClass, Not, Sent
from everylabel.projects.database.chain import Row, chained, digest
from everylabel.projects.database.doctor import Findings, Place, examine
from everylabel.projects.database.mending import mended
from everylabel.projects.database.store import Damaged, Store, StoreError
from tests.projects.test_sealing import EARLIER, KNOWN, change, events, meanwhile, written

NEW = "new.sqlite"


def examined(where: str | Path, tmp_path: Path, keep_later: bool = False) -> Findings:
    return examine(Place(tmp_path, str(where), "p"), tmp_path / NEW, keep_later)


def read(path: Path) -> list[Event]:
    with closing(Store(path, "p")) as store:
        assert store.items() in (None, KNOWN)
        return store.read()


def test_a_whole_log_is_left_alone(where: str, tmp_path: Path) -> None:
    written(where)
    found = examined(where, tmp_path)
    assert found.wrong == []
    assert "120 events, all whole" in found.fine[0]
    assert not (tmp_path / NEW).exists()


@pytest.mark.parametrize(
    ("statement", "says", "lost"),
    [
        (
            "UPDATE everylabel_events SET person = 'eve' WHERE seq = 7",
            "event 7 .* a label on item 'row 7'",
            {7},
        ),
        ("UPDATE everylabel_events SET chain = 'x' WHERE seq = 7", "event 7: its digest had changed", set()),
        ("UPDATE everylabel_events SET chain = 'x' WHERE seq = 120", "event 120: its digest", set()),
        (
            "DELETE FROM everylabel_events WHERE seq > 110",
            "after 110, up to 120, are missing",
            set(range(111, 121)),
        ),
        ("DELETE FROM everylabel_heads", "its seal is lost", set()),
        (EARLIER.format(100), "its seal is behind: that of event 100", set()),
        ("DELETE FROM everylabel_items", "noted of the source is lost", set()),
    ],
)
def test_what_is_whole_is_rebuilt(
    where: str, tmp_path: Path, statement: str, says: str, lost: set[int]
) -> None:
    written(where)
    change(where, statement)
    found = examined(where, tmp_path)
    assert found.written == tmp_path / NEW
    assert found.left == 0
    with pytest.raises(AssertionError, match=says):
        raise AssertionError("\n".join(found.wrong))
    assert read(tmp_path / NEW) == [event for event in events(120) if event.seq not in lost]
    with pytest.raises(StoreError):  # the old one is as it was
        read(Path(where)) if "://" not in where else Store(where, "p")


@pytest.mark.parametrize(
    "noted",
    [
        *("null", "[]", "[1]", "7", '"text"', "{}", "[null, null]", "[7, [1]]", "[[1], []]", "[" * 10**5),
        '{"keys": [], "digests": [], "numbered": 1000000000000000000}',
        '{"keys": 1000000000000000000, "digests": []}',
        '{"keys": 99999999999, "digests": []}',
        '{"keys": -1, "digests": []}',
        '{"keys": ["row 1"], "digests": "abc"}',
        '{"keys": ["row 1"], "digests": ["x"], "own_ids": []}',
        '{"keys": ["row 1"], "digests": ["x"], "own_ids": 7}',
        '{"keys": ["row 1"], "digests": ["x"], "gone": "x"}',
        '{"keys": ["row 1"], "digests": ["x"], "id_column": []}',
        '{"keys": ["row 1"], "digests": ["x"], "other": 1}',
    ],
)
def test_what_is_noted_of_the_source_may_be_anything(tmp_path: Path, noted: str) -> None:
    where = tmp_path / "labels.sqlite"
    all_of_it = [*events(20), Event(21, 21, 1.0, "", Extended(list(KNOWN.keys), "abc"))]
    with closing(Store(where, "p")) as store:
        store.append(all_of_it)
        store.set_items(KNOWN)
    change(str(where), f"UPDATE everylabel_items SET items = '{noted}'")
    change(str(where), "UPDATE everylabel_events SET chain = 'x' WHERE seq = 7")
    found = examined(where, tmp_path)
    assert any("what was noted of the source is lost" in each for each in found.wrong)
    assert read(tmp_path / NEW) == all_of_it
    change(str(where), f"UPDATE everylabel_heads SET items = '{digest(noted)}'")
    with closing(Store(where, "p", write=False)) as log, pytest.raises((Damaged, AssertionError)):
        assert log.items() == KNOWN


def test_a_seal_without_a_number_is_told(tmp_path: Path) -> None:
    where = str(tmp_path / "labels.sqlite")
    written(where)
    change(where, "UPDATE everylabel_heads SET seq = 'x'")
    assert any("its seal is behind: that of event x" in each for each in examined(where, tmp_path).wrong)
    assert read(tmp_path / NEW) == events(120)


def test_what_a_server_writes_meanwhile_is_no_damage(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(postgres)
    more = Event(121, 121, 1.0, "me", Label("row 2", 1))
    with closing(Store(postgres, "p")) as store:
        meanwhile(monkeypatch, "read_head", lambda: store.append([more]))  # the events were read
        assert examined(postgres, tmp_path).wrong == []
    assert "121 events, all whole" in examined(postgres, tmp_path).fine[0]


def test_what_a_loss_may_have_given_another_meaning_is_asked_for(tmp_path: Path) -> None:
    where = tmp_path / "labels.sqlite"
    with closing(Store(where, "p")) as store:
        store.append(events(20)[:19])
        store.append([Event(20, 20, 1.0, "me", NewClass("c")), Event(21, 21, 1.0, "me", Label("row 1", 2))])
    change(str(where), "UPDATE everylabel_events SET person = 'eve' WHERE seq = 20")
    found = examined(where, tmp_path)
    assert found.left == 1
    assert [event.seq for event in read(tmp_path / NEW)] == list(range(1, 20))
    (tmp_path / NEW).unlink()
    change(str(where), "DELETE FROM everylabel_events WHERE seq IN (8, 9)")
    assert "the events from 8 to 9 are missing" in examined(where, tmp_path).wrong[0]
    assert [event.seq for event in read(tmp_path / NEW)] == list(range(1, 8))
    (tmp_path / NEW).unlink()
    later = examined(where, tmp_path, keep_later=True)
    assert any("event 21 stands on one that is lost" in text for text in later.wrong)
    assert [event.seq for event in read(tmp_path / NEW)] == [*range(1, 8), *range(11, 20)]


@pytest.mark.parametrize("body", [Not("row 1", 0), Sent(5)])
def test_a_loss_that_changes_no_other_s_meaning_costs_itself_alone(tmp_path: Path, body: Any) -> None:
    where = tmp_path / "labels.sqlite"
    with closing(Store(where, "p")) as store:
        store.append(events(20)[:19])
        store.append([Event(20, 20, 1.0, "me", body), Event(21, 21, 1.0, "me", Label("row 1", 1))])
    change(str(where), "UPDATE everylabel_events SET person = 'eve' WHERE seq = 20")
    assert examined(where, tmp_path).left == 0
    assert [event.seq for event in read(tmp_path / NEW)] == [*range(1, 20), 21]


def test_a_log_of_which_nothing_can_be_read_is_told_and_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
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


def test_flipped_bits_are_put_right(tmp_path: Path) -> None:
    """Most of them hit an event, whose chain tells what it was; a rebuilt log never says anything else."""
    where, new = tmp_path / "labels.sqlite", tmp_path / NEW
    written(where)
    content, draw, right = where.read_bytes(), random.Random(1), 0
    for _ in range(40):
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
            rebuilt = read(new)
            assert [event for event in rebuilt if event not in events(120)] == []
            right += rebuilt == events(120)
            new.unlink()
    assert right > 5


def test_a_file_whose_pages_are_lost_is_read_row_by_row(tmp_path: Path) -> None:
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
    kept = read(tmp_path / NEW)
    assert 100 < len(kept) < 400
    assert kept == events(400)[: len(kept)]
    assert "are missing" in "\n".join(found.wrong)


@pytest.mark.parametrize("field", Row._fields[:-1])
def test_one_bit_of_any_field(field: str) -> None:
    row = Row(5, 4, 1e9 + 0.25, "änna", "label", '{"item": "ü"}', "k")
    (linked,) = chained("before", [row])
    value: Any = getattr(row, field)
    if isinstance(value, str):
        changes: dict[str, Any] = {field: value[:-1] + chr(ord(value[-1]) ^ 1)}
    else:
        changes = {field: -value if field == "at" else value ^ 8}
    assert mended(linked._replace(**changes), "before") == linked
    assert mended(linked._replace(**changes), "another") is None


def test_a_log_in_use_and_an_output_that_is_there_are_refused(tmp_path: Path) -> None:
    where = tmp_path / "labels.sqlite"
    written(where)
    with closing(Store(where, "p")), pytest.raises(StoreError, match="in use by a server"):
        examined(where, tmp_path)
    change(str(where), "DELETE FROM everylabel_heads")
    (tmp_path / NEW).write_text("mine")
    with pytest.raises(EverylabelError, match="which is there; expected a file that is not"):
        examined(where, tmp_path)
    assert (tmp_path / NEW).read_text() == "mine"


def test_a_bit_of_a_long_event_or_of_what_is_noted_is_put_right(tmp_path: Path) -> None:
    """The items of a large source are one long event, and one long text beside it."""
    where, new = tmp_path / "labels.sqlite", tmp_path / NEW
    ids = [f"row {i}" for i in range(3000)]
    known = Known(ids, [f"{i:016x}" for i in range(3000)])
    first = [events(3)[0], Event(2, 1, 1.0, "", Extended(ids, "0" * 16))]
    stored = [*first, Event(3, 3, 2.0, "me", Label("row 7", 1))]
    with closing(Store(where, "p")) as store:
        store.append(stored)
        store.set_items(known)
    content = where.read_bytes()
    for what, bit in ((b'"row 1203"', 9), (b'"row 1203"', 40), (b'"row 1203",', 82), (b'"row 2210"', 79)):
        for place in (content.index(what), content.rindex(what)):  # of the event, and of what is noted
            damaged = bytearray(content)
            damaged[place + bit // 8] ^= 1 << bit % 8
            where.write_bytes(damaged)
            found = examined(where, tmp_path)
            assert "put right" in found.wrong[0], found
            with closing(Store(new, "p")) as store:
                assert (store.read(), store.items()) == (stored, known)
            new.unlink()
    damaged = bytearray(content)
    damaged[content.rindex(b"00000000000004d2") + 2] ^= 0x80  # no longer UTF-8
    where.write_bytes(damaged)
    assert "put right" in examined(where, tmp_path).wrong[0]
