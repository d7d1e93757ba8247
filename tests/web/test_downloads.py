"""Simultaneous downloads by sockets that read nothing, from a real server."""

import contextlib
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from everylabel.web.access import answer_errors
from everylabel.web.downloads import file_reply
from everylabel.web.routes import reading as routes
from everylabel.web.server import server_config
from tests.web.servers import served

BLOCK, BLOCKS = b"x" * 1_000_000, 60  # more than the system takes for a client that does not read
WHOLE = BLOCKS * len(BLOCK)
PATHS = ("/api/export", "/api/model")


class State:
    """The pieces of a file."""


class Made:
    """The number of started files, their content, and a gate that holds their pieces."""

    guesses = None  # of other endpoints

    def __init__(self) -> None:
        self.files, self.began, self.open = 0, threading.Semaphore(0), threading.Event()
        self.states: list[weakref.ref[State]] = []
        self.pieces: Callable[[], Iterator[bytes]] = self._blocks
        self.folder: str | None = None
        self.open.set()

    @property
    def desk(self) -> "Made":
        return self

    def read(self, view: Callable[[], None]) -> "Future[None]":
        found: Future[None] = Future()
        view()
        found.set_result(None)
        return found

    def label_set(self) -> None:
        """Return no labels: the pieces do not depend on them."""

    def export(self, *_: object) -> Response:
        self.files += 1
        return file_reply(self.pieces(), "text/csv", "ä labels.csv", self.folder)

    model = export

    def _blocks(self) -> Iterator[bytes]:
        state = State()
        self.states.append(weakref.ref(state))
        self.began.release()
        for _ in range(BLOCKS):
            self.open.wait()
            yield BLOCK
        del state


@contextlib.contextmanager
def server(at_once: int, made: Made) -> Iterator[str]:
    """Yield the address of a server of large files; at_once: the number of files made at a time."""
    app = FastAPI()
    answer_errors(app)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "FILES_AT_ONCE", at_once)
        app.include_router(routes.reading(made, None, made, {}))  # type: ignore[arg-type]
    with served(server_config(app)) as port:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            made.open.set()


def asking(address: str, path: str) -> socket.socket:
    """Return a connection that requests a file and reads nothing."""
    made = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60)
    made.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
    return made


def got(address: str, path: str = PATHS[0]) -> httpx.Response:
    return httpx.get(address + path, timeout=60)


def wait_until(true: Callable[[], bool]) -> None:
    """Wait for a condition, up to a limit."""
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to pass")


def test_two_files_are_made_at_once_and_others_wait() -> None:
    made = Made()
    made.open.clear()
    with ThreadPoolExecutor(4) as threads, server(2, made) as address:
        crowd = [threads.submit(got, address, path) for path in PATHS * 2]
        assert all(made.began.acquire(timeout=60) for _ in range(2))
        assert not made.began.acquire(timeout=0.2)
        assert made.files == 2
        made.open.set()
        assert [len(each.result().content) for each in crowd] == [WHOLE] * 4
        headers = crowd[0].result().headers
        assert headers["content-length"] == str(WHOLE)
        assert headers["content-type"].startswith("text/csv")
        assert headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%A4%20labels.csv"


def test_stalled_download_holds_neither_a_slot_nor_the_project() -> None:
    made = Made()
    with server(1, made) as address:
        idle = [asking(address, path) for path in PATHS]
        for path in PATHS:
            assert len(got(address, path).content) == WHOLE
        wait_until(lambda: len(made.states) == 4 and not any(state() for state in made.states))
        for each in idle:
            each.close()


def test_a_file_that_cannot_be_made_gives_its_turn_to_others() -> None:
    made = Made()
    with server(1, made) as address:
        whole, made.export = made.export, None  # type: ignore[assignment, method-assign]
        assert got(address).status_code == 500
        made.export = whole  # type: ignore[method-assign]
        assert got(address).status_code == 200


def full() -> Any:
    """Return a file on a disk that is full."""
    return Path("/dev/full").open("r+b")


def test_a_full_disk_is_reported_and_small_files_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made()
    blocks = made.pieces
    if not Path("/dev/full").exists():
        pytest.skip("a device that is always full is needed")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full())
    with server(1, made) as address:
        reply = got(address)
        assert (reply.status_code, reply.json()["error"]["code"]) == (507, "no_room")
        assert "make some there, and try again; all answers are kept" in reply.json()["error"]["message"]
        made.pieces = lambda: iter([b"a,b\n", b"1,2\n"])
        assert got(address).text == "a,b\n1,2\n"
        monkeypatch.undo()
        made.pieces, made.folder = blocks, str(tmp_path)
        assert len(got(address).content) == WHOLE


def test_a_large_file_lies_in_the_folder_and_has_no_name(tmp_path: Path) -> None:
    made = Made()
    made.folder = str(tmp_path)
    with server(1, made) as address, asking(address, PATHS[0]) as idle:
        assert idle.recv(10)  # it is sent, so it is complete
        assert not list(tmp_path.iterdir())


def test_trouble_with_the_source_is_not_taken_for_a_full_disk() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise FileNotFoundError("the source is gone")

    made = Made()
    made.pieces = broken
    with server(1, made) as address:
        assert got(address).status_code == 500
