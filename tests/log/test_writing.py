"""Nothing is acknowledged without being stored: deleted files, full disks, broken connections."""

import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from everylabel.data.source_diff import RecordedRows
from everylabel.log.store import Store, StoreError
from tests.log.test_integrity import events, written
from tests.log.test_store import event
from tests.projects.proxies import proxied


def delete(path: Path) -> None:
    for file in path.parent.glob("labels.sqlite*"):
        file.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (delete, "was deleted or moved while the server has it open"),
        (move, "was deleted or moved"),
        (replace, "was replaced"),
    ],
)
def test_deleted_or_replaced_file_is_reported(
    tmp_path: Path, fault: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        store.append([event(121)])
        assert store.refusal() is None
        fault(path)
        for _ in range(2):
            told = str(store.refusal())
            assert says in told
            assert "Export the labels before the server is stopped" in told
        with pytest.raises(StoreError, match="it is not known whether this was saved"):
            store.append([event(122)])


def test_events_of_another_server_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        path.with_name("labels.sqlite.lock").unlink()  # so that another server believes itself alone
        with closing(Store(path, "p")) as other:
            other.append([event(121)])
        with pytest.raises(StoreError, match="another server; nothing of this was saved"):
            store.append([event(121, "other")])
    with closing(Store(path, "p")) as store:
        assert store.read()[119:] == [events(120)[-1], event(121)]


def test_file_that_comes_back_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        path.rename(tmp_path / "elsewhere")
        assert store.refusal() is not None
        with pytest.raises(StoreError, match="it is not known whether this was saved"):
            store.append([event(121)])
        (tmp_path / "elsewhere").rename(path)
        assert store.refusal() is None
        store.append([event(122)])
        assert [each.seq for each in store.read()[119:]] == [120, 121, 122]


def test_other_readers_do_not_disturb_writing(tmp_path: Path) -> None:
    path = tmp_path / "labels.sqlite"
    written(path)
    with closing(Store(path, "p")) as store:
        path.touch()
        with closing(Store(path, "p", write=False)) as reader:
            reader.read()
        assert store.refusal() is None
        store.append([event(121)])


def test_two_threads_may_write(tmp_path: Path) -> None:
    def note() -> None:
        for i in range(30):
            store.set_items(RecordedRows([str(i)], ["1"]))

    with closing(Store(tmp_path / "log", "p")) as store:
        noting = threading.Thread(target=note)
        noting.start()
        for i in range(1, 31):
            store.append([event(i)])
        noting.join()
        assert len(store.read()) == 30
        assert store.items() == RecordedRows(["29"], ["1"])


def test_log_is_written_on_after_the_connection_broke(postgres: str) -> None:
    with proxied(postgres) as (proxy, url), closing(Store(url, "cut")) as store:
        store.append([event(1)])
        proxy.mode = "cut after commit"
        with pytest.raises(StoreError, match="it is not known whether this was saved"):
            store.append([event(2, "k")])
        assert proxy.cuts == 1
        assert store.read() == [event(1), event(2, "k")]
        proxy.mode = "cut before commit"
        with pytest.raises(StoreError, match=r"nothing was saved|it is not known whether this was saved"):
            store.append([event(3)])
        assert proxy.cuts == 2
        assert store.refusal() is None
        assert store.read() == [event(1), event(2, "k")]
        store.append([event(3)])
        with closing(Store(postgres, "cut", write=False)) as reader:
            assert len(reader.read()) == 3


def test_unknown_commit_is_reported_and_resolved_later(postgres: str) -> None:
    with proxied(postgres) as (proxy, url), closing(Store(url, "unknown")) as store:
        store.append([event(1)])
        proxy.mode = "swallow"
        with pytest.raises(StoreError, match=r"nothing was saved|it is not known whether this was saved"):
            store.append([event(2)])
        told = store.refusal()
        assert told is not None
        assert "nothing was saved" in str(told)
        proxy.mode = "forward"
        assert store.refusal() is None
        assert store.read() == [event(1)]
        store.append([event(2)])  # by a session that has the lock
        with pytest.raises(StoreError, match="in use by another server"):
            Store(postgres, "unknown")
        assert len(store.read()) == 2
