"""Downloads beside each other: real sockets that read nothing, against a real server."""

import asyncio
import contextlib
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from everylabel.web import spooled
from everylabel.web.errors import answer_errors
from everylabel.web.routes import downloads as routes
from everylabel.web.spooled import File, spool
from everylabel.web.turns import BEHIND, LATEST, SLOW, InTurn, Place, Turns
from tests.web.servers import limited, served

BLOCK, BLOCKS = b"x" * 1_000_000, 60  # more than the system takes for a client that does not read
WHOLE = BLOCKS * len(BLOCK)


class State:
    """What a file is made of."""


class Made:
    """How many files were begun, what they were made of, and a gate that their pieces wait for."""

    def __init__(self) -> None:
        self.files, self.began, self.open = 0, threading.Semaphore(0), threading.Event()
        self.states: list[weakref.ref[State]] = []
        self.pieces: Callable[[], Iterator[bytes]] = self._blocks
        self.open.set()

    async def file(self) -> File:
        self.files += 1
        return File(self.pieces(), "text/csv", "ä labels.csv")

    def snapshot(self) -> "Future[None]":
        found: Future[None] = Future()
        found.set_result(None)
        return found

    def export(self, *_: object) -> File:
        self.files += 1
        return File(self.pieces(), "text/csv", "labels.csv")

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
def server(turns: Turns, made: Made, taken_seconds: float = 600) -> Iterator[str]:
    """Yield the address of a server of large files."""
    app = FastAPI()
    answer_errors(app)

    @app.get("/")
    async def export() -> Response:
        return InTurn(turns, made.file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "Turns", lambda: turns)
        app.include_router(routes.downloads(made, None, made))  # type: ignore[arg-type]
    with served(limited(app, most=1000, from_one=None, taken_seconds=taken_seconds)) as port:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            made.open.set()


def asking(address: str, path: str = "/") -> socket.socket:
    """Return a connection that asks for a file and reads nothing of it."""
    made = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60)
    made.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
    return made


def got(address: str, path: str = "/") -> httpx.Response:
    return httpx.get(address + path, timeout=60)


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until something is so, not for ever."""
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to pass")


def test_two_files_are_made_at_once_and_others_are_told_to_come_again() -> None:
    made = Made()
    made.open.clear()
    with ThreadPoolExecutor(2) as threads, server(Turns(2, patience=0.1), made) as address:
        crowd = [threads.submit(got, address) for _ in range(2)]
        assert all(made.began.acquire(timeout=60) for _ in crowd)
        reply = got(address)
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "busy")
        again = reply.headers["retry-after"]
        assert int(again) >= 10
        told = f"2 files are being made, which is as many as go at once; try again in {again} seconds"
        assert reply.json()["error"]["message"] == told
        assert made.files == 2
        made.open.set()
        assert [len(each.result().content) for each in crowd] == [WHOLE] * 2
        assert crowd[0].result().headers["content-length"] == str(WHOLE)
        assert crowd[0].result().headers["content-type"] == "text/csv"
        named = crowd[0].result().headers["content-disposition"]
        assert named == "attachment; filename*=UTF-8''%C3%A4%20labels.csv"


def test_exports_and_models_wait_for_their_turn() -> None:
    made, paths = Made(), ("/api/export", "/api/model")
    made.open.clear()
    with server(Turns(2, patience=0.1), made) as address:
        crowd = [asking(address, path) for path in paths]
        assert all(made.began.acquire(timeout=60) for _ in crowd)
        for path in paths:
            assert got(address, path).status_code == 429
        for each in crowd:
            each.close()


def test_who_takes_nothing_of_a_file_has_no_turn_and_holds_nothing_of_the_project() -> None:
    made = Made()
    with server(Turns(1, patience=60), made) as address:
        idle = [asking(address) for _ in range(3)]
        for path in ("/", "/api/export", "/api/model"):
            assert len(got(address, path).content) == WHOLE
        wait_until(lambda: len(made.states) == 6 and not any(state() for state in made.states))
        for each in idle:
            each.close()


def test_who_takes_next_to_nothing_gives_up_its_place_when_another_wants_it() -> None:
    made, now = Made(), [0.0]
    with server(Turns(places=1, clock=lambda: now[0]), made) as address:
        idle = asking(address)
        assert idle.recv(15) == b"HTTP/1.1 200 OK"
        now[0] = BEHIND
        reply = got(address)
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "busy")
        assert "1 files are being downloaded" in reply.json()["error"]["message"]
        assert 10 <= int(reply.headers["retry-after"]) <= LATEST
        now[0] = WHOLE / SLOW + BEHIND + 1  # nobody has a place for longer, if others want it
        assert len(got(address).content) == WHOLE
        taken = 0
        with contextlib.suppress(ConnectionError):
            while some := idle.recv(1_000_000):
                taken += len(some)
        assert taken < WHOLE
        idle.close()


def test_a_place_is_judged_by_what_was_sent() -> None:
    async def check() -> None:
        now = [100.0]
        place = Place(lambda: now[0])
        assert (place.behind(), place.left()) == (0.0, 0.0)
        async with place.sending(100 * SLOW):
            now[0] += 50
            assert (place.behind(), place.left()) == (50.0, 100.0)
            place.sent = 80 * SLOW
            assert (place.behind(), place.left()) == (-30.0, 12.5)

    asyncio.run(check())


def test_who_goes_away_while_a_file_is_made_gives_its_turn_to_others() -> None:
    made, over = Made(), threading.Event()
    blocks = made.pieces

    def endless() -> Iterator[bytes]:
        made.began.release()
        while not over.is_set():
            yield b""

    with server(Turns(1, patience=60), made) as address:
        try:
            made.pieces = endless
            one = asking(address)
            assert made.began.acquire(timeout=60)
            made.pieces = blocks
            one.close()
            assert len(got(address).content) == WHOLE
        finally:
            over.set()


def test_a_file_that_cannot_be_made_gives_its_turn_to_others() -> None:
    made = Made()
    with server(Turns(1, patience=60), made) as address:
        whole, made.file = made.file, None  # type: ignore[assignment, method-assign]
        assert got(address).status_code == 500
        made.file = whole  # type: ignore[method-assign]
        assert got(address).status_code == 200


def full(**_: Any) -> Any:
    """Return a file on a disk that is full."""
    return Path("/dev/full").open("r+b")


@pytest.mark.parametrize("how", ["no room", "kept free", "full"])
def test_a_full_disk_is_told_and_small_files_are_sent(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    blocks = made.pieces
    if how == "full":
        if not Path("/dev/full").exists():
            pytest.skip("a device that is always full is needed")
        monkeypatch.setattr(spooled, "TemporaryFile", full)
    elif how == "kept free":

        def then_full(dir: Path) -> Any:
            monkeypatch.setattr(spooled, "ROOM", 2**62)
            return TemporaryFile(dir=dir)

        monkeypatch.setattr(spooled, "TemporaryFile", then_full)
    else:
        monkeypatch.setattr(spooled, "ROOM", 2**62)
    with server(Turns(1, patience=60), made) as address:
        reply = got(address)
        assert (reply.status_code, reply.json()["error"]["code"]) == (507, "no_room")
        assert "make some there, and try again; all answers are kept" in reply.json()["error"]["message"]
        made.pieces = lambda: iter([b"a,b\n", b"1,2\n"])
        assert got(address).text == "a,b\n1,2\n"
        monkeypatch.undo()
        made.pieces = blocks
        assert len(got(address).content) == WHOLE


def test_a_file_lies_in_the_first_folder_that_can_be_written_to_and_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled, "IN_MEMORY", 10)
    pieces, asked = [b"12345", b"67890", b"", b"abc"], list[Path]()

    def noted(dir: Path) -> Any:
        asked.append(dir)
        return TemporaryFile(dir=dir)

    monkeypatch.setattr(spooled, "TemporaryFile", noted)
    with spool(iter(pieces), [tmp_path / "gone", tmp_path], threading.Event()) as file:
        assert file.tell() == 13
        file.seek(0)
        assert file.read() == b"".join(pieces)
        assert not list(tmp_path.iterdir())
    with spool(iter(pieces[:3]), [tmp_path], threading.Event()) as file:
        assert file.tell() == 10
    assert asked == [tmp_path]  # the second fits into memory


def test_trouble_with_the_source_is_not_taken_for_a_full_disk() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise FileNotFoundError("the source is gone")

    with pytest.raises(FileNotFoundError):
        spool(broken(), [], threading.Event())
