"""The log in real databases: order, atomic writes, one writer, concurrent readers, and errors."""

import json
import resource
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from everylabel.data.digests import text_digests
from everylabel.data.items import IdList, Numbered, stored_ids
from everylabel.data.source_diff import NOT_NOTED, RecordedRows
from everylabel.log.events import Event, Extended, Label
from everylabel.log.store import Store, StoreError, from_text, to_text


def event(seq: int, key: str | None = None) -> Event:
    return Event(seq, 1.5, "änna", Label("a\n\"b' ☃", 1), key)


def test_events_are_read_as_they_were_written(where: str) -> None:
    store = Store(where, "p")
    store.append([event(1, "k"), event(2)])
    store.append([])
    store.append([event(3)])
    assert store.read() == [event(1, "k"), event(2), event(3)]
    store.close()
    again = Store(where, "p")
    assert len(again.read()) == 3
    again.close()


def test_events_are_written_all_or_none(where: str) -> None:
    store = Store(where, "p")
    store.append([event(1)])
    with pytest.raises(StoreError, match="another server; nothing of this was saved"):
        store.append([event(2), event(1)])
    assert store.read() == [event(1)]
    store.append([event(2)])
    store.close()


def test_projects_in_one_database_are_separate(where: str) -> None:
    one = Store(where, "one")
    one.append([event(1, "k")])
    one.close()
    two = Store(where, "two")
    assert two.read() == []
    two.append([event(1, "k")])
    two.close()


def test_a_second_server_is_refused_and_a_reader_is_not(where: str) -> None:
    store = Store(where, "p")
    store.append([event(1)])
    with pytest.raises(StoreError, match="in use by another server"):
        Store(where, "p")
    reader = Store(where, "p", write=False)
    store.append([event(2)])
    assert len(reader.read()) == 2
    reader.close()
    store.close()
    Store(where, "p").close()


def test_source_is_stored_and_read(where: str) -> None:
    store = Store(where, "p")
    assert store.items() is None
    store.set_items(RecordedRows(["a", "b"], ["1", "2"]))
    store.set_items(RecordedRows(["a", "b", "c"], ["1", "2", "3"], ["x", "y", ""], "id", gone=1))
    assert store.items() == RecordedRows(["a", "b", "c"], ["1", "2", "3"], ["x", "y", ""], "id", gone=1)
    store.close()


@pytest.mark.parametrize("names", [[str(i) for i in range(5000)], [f"row {i}" for i in range(5000)]])
def test_numbered_rows_take_few_bytes(where: str, names: list[str]) -> None:
    known = RecordedRows(names, text_digests(names))
    with closing(Store(where, "p")) as store:
        store.set_items(known)
        store.append([Event(1, 1.0, "", Extended(stored_ids(IdList(names)), "abc"))])
        assert store.items() == known
        body = store.read()[0].body
        assert isinstance(body, Extended)
        assert list(body.names) == names
        rows, text = store.content()
        assert text is not None
        numbered = names[0] == "0"
        assert (len(rows[0].body) < 100) is numbered  # their number, in place of all names
        assert len(text) < 16 * len(names) + (100 if numbered else 20 * len(names))


def test_source_stored_by_an_earlier_version_is_read(where: str) -> None:
    names = [str(i) for i in range(5000)]
    known = RecordedRows(names, text_digests(names))
    one_by_one = json.dumps(known._asdict() | {"digests": list(known.digests)})
    assert from_text(one_by_one) == known
    assert from_text(json.dumps([names, list(known.digests)])) == known._replace(id_column=NOT_NOTED)
    assert from_text(to_text(known)) == known
    shards = RecordedRows(Numbered(7), ["one in all"])
    assert isinstance(from_text(to_text(shards)).keys, Numbered)
    assert from_text(to_text(shards)) == shards


def test_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no database, but long enough to be taken for one" * 10)
    with pytest.raises(StoreError, match="cannot be opened: file is not a database"):
        Store(tmp_path / "file", "p")
    with pytest.raises(StoreError, match=r"'mysql://.*expected a file's path or postgresql://"):
        Store("mysql://user@localhost/db", "p")
    with pytest.raises(StoreError, match="does not exist; expected the log"):
        Store(tmp_path / "nothing", "p", write=False)


def test_unreachable_database_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'everylabel[postgresql]'")
    with pytest.raises(StoreError) as told:
        Store("postgresql://anna:secret@127.0.0.1:1/db", "p")
    assert "127.0.0.1" in str(told.value)
    assert "secret" not in str(told.value)


def test_log_of_another_format_is_refused(tmp_path: Path) -> None:

    store = Store(tmp_path / "log", "p")
    store.set_items(RecordedRows(["a"], ["1"]))
    store.close()
    connection = sqlite3.connect(tmp_path / "log")
    connection.execute("UPDATE everylabel_items SET format = 99")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="has format 99; expected 4"):
        Store(tmp_path / "log", "p")


def test_path_may_hold_special_characters(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("run #1", "run #2", "what?", "100%41", "a&b=c")]
    for path in paths:
        store = Store(path, "p")
        store.append([event(1)])
        store.close()
        assert path.is_file()
    assert all(len(Store(path, "p", write=False).read()) == 1 for path in paths)


def test_impossible_store_is_named() -> None:
    for place in ("/dev/null/x.sqlite", "/proc/x.sqlite"):
        with pytest.raises(StoreError, match=f"store '{place}' cannot be"):
            Store(place, "p")


def test_lock_waits_for_a_session_that_is_ending(postgres: str) -> None:
    """PostgreSQL releases a lock some time after its connection was closed."""
    ending = Store(postgres, "ending")
    timer = threading.Timer(0.3, ending.close)
    timer.start()
    Store(postgres, "ending").close()
    timer.join()


def test_lock_of_a_lost_session_is_taken_again(postgres: str) -> None:
    import psycopg

    store = Store(postgres, "lost")
    store.append([event(1)])
    with psycopg.connect(postgres, autocommit=True) as connection:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        connection.execute(query)
    with pytest.raises(StoreError, match="nothing was saved"):
        store.append([event(2)])
    store.append([event(2)])
    with pytest.raises(StoreError, match="in use by another server"):
        Store(postgres, "lost")
    assert len(store.read()) == 2
    store.close()


FILL = """
import resource, signal, sys
from tests.labelling.desks import label, service
from everylabel.log.store import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with service(sys.argv[1]) as made:
    label(made, 3)
    loaded = []
    read, made.desk.log.read = made.desk.log.read, lambda: loaded.append(1) or read()
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    told, messages = 0, []
    for _ in range(60):
        item = made.next("me").result()["next"]["item"]["id"] if not told else item
        try:
            made.label("me", item, 1).result()
        except StoreError as error:
            told = told + 1
            messages.append(str(error))
            assert made.views.progress("me")["labelled"] == len(made.desk.state.labels)  # reading continues
            assert made.next("me").result()["next"]["item"]["id"] == item
    count = len(made.desk.state.labels)
    print("told", told, messages[0], "loaded", len(loaded))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    made.label("me", item, 1).result()
    print("after", len(made.desk.state.labels) - count)
"""


def test_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    limit = 120_000  # bytes a file may have: the log fills it within a few labels
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path / "log"), str(limit)], capture_output=True, text=True
    )
    assert "told" in done.stdout, done.stderr
    assert "nothing was saved" in done.stdout
    assert "loaded 1\n" in done.stdout  # by the first; the others cost no more than what is saved
    assert "after 1" in done.stdout


def test_two_threads_write_events_and_source(where: str) -> None:
    store = Store(where, "p")
    known = [RecordedRows([str(i)], [f"{i:016x}"]) for i in range(20)]
    with ThreadPoolExecutor(2) as threads:
        noted = threads.submit(lambda: list(map(store.set_items, known)))
        written = threads.submit(lambda: list(map(store.append, ([event(i + 1)] for i in range(20)))))
        noted.result()
        written.result()
    store.close()
    again = Store(where, "p")  # whole, as its head says
    assert (again.items(), len(again.glance("label")), again.glance("undo")) == (known[-1], 20, [])
    again.close()
