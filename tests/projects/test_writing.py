"""Nothing is acknowledged into nothing: files that go away, disks that fill, connections that break."""

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from everylabel.data.known import Known
from everylabel.projects.database import guard as module
from everylabel.projects.database.store import Store, StoreError
from tests.projects.proxies import proxied
from tests.projects.test_sealing import events, written
from tests.projects.test_store import event


def delete(path: Path) -> None:
    for file in path.parent.glob("labels.sqlite*"):
        file.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def overwrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))


def delete_what_is_written_ahead(path: Path) -> None:
    path.with_name("labels.sqlite-wal").unlink()


def truncate(path: Path) -> None:
    os.truncate(path, 4096)


def truncate_what_is_written_ahead(path: Path) -> None:
    os.truncate(path.with_name("labels.sqlite-wal"), 0)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (delete, "is gone: it was deleted or moved"),
        (move, "is gone: it was deleted or moved"),
        (replace, "it was replaced"),
        (delete_what_is_written_ahead, "is gone: it was deleted"),
        (overwrite, "damaged|malformed"),
        (truncate, "damaged|malformed"),
        (truncate_what_is_written_ahead, "damaged|malformed|disk I/O"),
    ],
)
def test_a_file_that_goes_away_is_noticed(tmp_path: Path, fault: Callable[[Path], None], says: str) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        store.append([event(121)])
        assert store.refusal() is None
        fault(path)
        for _ in range(2):
            told = store.refusal()
            assert told is not None
            with pytest.raises(StoreError, match=says):
                raise told
        rescued = list(tmp_path.glob("*-rescued-*.sqlite"))
        if "is gone" in says or "replaced" in says:
            with closing(Store(rescued[0], "p")) as copy:
                assert copy.read() == [*events(120), event(121)]
            assert str(rescued[0]) in str(told)
            assert len(rescued) == 1
        else:
            assert rescued == []


def test_a_file_that_comes_back_is_written_to_again(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        path.rename(tmp_path / "elsewhere")
        assert store.refusal() is not None
        with pytest.raises(StoreError, match="whether this was saved is not known"):
            store.append([event(121)])
        (tmp_path / "elsewhere").rename(path)
        assert store.refusal() is None
        store.append([event(122)])
        assert [each.seq for each in store.read(after=119)] == [120, 121, 122]


def test_a_file_that_was_cut_off_and_put_back_is_written_to_again(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        whole = path.read_bytes()
        os.truncate(path, 4096)
        for _ in range(2):
            assert "Export the labels before the server is stopped" in str(store.refusal())
        path.write_bytes(whole)
        assert store.refusal() is None
        store.append([event(121)])
    with closing(Store(path, "p")) as store:
        assert store.read(after=119) == [events(120)[-1], event(121)]


def test_what_was_said_since_the_last_rescue_is_rescued_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, times = tmp_path / "labels.sqlite", iter(range(1, 9))

    clock = SimpleNamespace(now=lambda: datetime(2026, 1, next(times)))
    monkeypatch.setattr("everylabel.projects.database.store.datetime", clock)
    written(path)
    with closing(Store(path, "p")) as store:
        for number in (121, 122):
            path.rename(tmp_path / "elsewhere")
            told = str(store.refusal())
            assert told == str(store.refusal())
            rescued = max(tmp_path.glob("*-rescued-*.sqlite"))
            assert str(rescued) in told
            with closing(Store(rescued, "p", write=False)) as copy:
                assert len(copy.read()) == number - 1
            (tmp_path / "elsewhere").rename(path)
            assert store.refusal() is None
            store.append([event(number)])


def test_what_others_wrote_is_noticed_though_the_log_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        path.with_name("labels.sqlite.lock").unlink()  # so that another server believes itself alone
        with closing(Store(path, "p")) as other:
            other.append([event(121)])
        told = store.refusal()
        assert told is not None
        assert "somebody else has written to it" in str(told)
    with closing(Store(path, "p")) as store:
        assert store.read(after=119) == [events(120)[-1], event(121)]


def test_another_log_in_its_place_is_not_rescued(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    shutil.copyfile(path, tmp_path / "older")
    with closing(Store(path, "p")) as store:
        store.append([event(121)])
        (tmp_path / "older").replace(path)
        path.with_name("labels.sqlite-wal").unlink()
        store._engine.dispose()  # what was open is lost: the next connection is to the other file
        told = str(store.refusal())
        assert "it was replaced" in told or "is gone" in told
        assert "no copy could be made (the file that is open is another one)" in told
    assert list(tmp_path.glob("*-rescued-*")) == []


def test_others_who_change_nothing_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        path.touch()
        with closing(Store(path, "p", write=False)) as reader:
            reader.read()
        assert store.refusal() is None
        store.append([event(121)])


def test_a_disk_without_room_is_known_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        with monkeypatch.context() as full:
            full.setattr(module, "ROOM", 2**62)
            told = store.refusal()
            assert told is not None
            assert "is full; make room there" in str(told)
        assert store.refusal() is None


def test_two_threads_may_write(tmp_path: Path) -> None:
    def note() -> None:
        for i in range(30):
            store.set_items(Known([str(i)], ["1"]))

    with closing(Store(tmp_path / "log", "p")) as store:
        noting = threading.Thread(target=note)
        noting.start()
        for i in range(1, 31):
            store.append([event(i)])
        noting.join()
        assert len(store.read()) == 30
        assert store.items() == Known(["29"], ["1"])


def test_what_was_saved_is_known_after_the_connection_broke(postgres: str) -> None:
    with proxied(postgres) as (proxy, url), closing(Store(url, "cut")) as store:
        store.append([event(1)])
        proxy.mode = "cut after commit"
        store.append([event(2, "k")])  # it is in the log, and nobody is told that it is not
        assert proxy.cuts == 1
        proxy.mode = "cut before commit"
        with pytest.raises(StoreError, match="nothing was saved"):
            store.append([event(3)])
        assert proxy.cuts == 2
        assert store.refusal() is None
        assert store.read() == [event(1), event(2, "k")]
        store.append([event(3)])
        with closing(Store(postgres, "cut", write=False)) as reader:
            assert len(reader.read()) == 3


def test_what_is_not_known_is_said_so_and_found_out_later(postgres: str) -> None:
    with proxied(postgres) as (proxy, url), closing(Store(url, "unknown")) as store:
        store.append([event(1)])
        proxy.mode = "swallow"
        with pytest.raises(StoreError, match=r"nothing was saved|whether this was saved is not known"):
            store.append([event(2)])
        told = store.refusal()
        assert told is not None
        assert "nothing can be saved" in str(told)
        proxy.mode = "forward"
        assert store.refusal() is None
        assert store.read() == [event(1)]
        store.append([event(2)])  # by a session that has the lock: the one that was lost is ended
        with pytest.raises(StoreError, match="in use by another server"):
            Store(postgres, "unknown")
        assert len(store.read()) == 2
