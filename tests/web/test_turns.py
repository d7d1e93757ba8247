"""Downloads beside each other: real sockets that read nothing, against a real server."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse

from everylabel.web.errors import answer_errors
from everylabel.web.routes import downloads as routes
from everylabel.web.turns import InTurn, Turns
from tests.web.servers import limited, served

BLOCK, BLOCKS = b"x" * 1_000_000, 60  # more than the system takes for a client that does not read


class Made:
    """How many files were begun, and how many blocks of them were made."""

    def __init__(self) -> None:
        self.files, self.blocks, self.began = 0, 0, threading.Semaphore(0)

    async def file(self) -> Response:
        self.files += 1
        self.began.release()
        return StreamingResponse(self._pieces())

    def snapshot(self) -> "Future[None]":
        found: Future[None] = Future()
        found.set_result(None)
        return found

    def export(self, *_: object) -> Response:
        return asyncio.run(self.file())

    model = export

    def _pieces(self) -> Iterator[bytes]:
        for _ in range(BLOCKS):
            self.blocks += 1
            yield BLOCK


@contextlib.contextmanager
def server(turns: Turns, made: Made, taken_seconds: float) -> Iterator[int]:
    """Yield the port of a server of large files."""
    app = FastAPI()
    answer_errors(app)

    @app.get("/")
    async def export() -> Response:
        return InTurn(turns, made.file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "Turns", lambda: turns)
        app.include_router(routes.downloads(made, None, made))  # type: ignore[arg-type]
    with served(limited(app, most=1000, from_one=None, taken_seconds=taken_seconds)) as port:
        yield port


def asking(port: int, path: str = "/") -> socket.socket:
    """Return a connection that asks for a file and reads nothing of it."""
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
    return made


def test_two_files_are_sent_at_once_and_others_are_told_to_come_again() -> None:
    made = Made()
    with server(Turns(2, patience=0.1), made, taken_seconds=600) as port:
        crowd = [asking(port) for _ in range(2)]
        assert all(made.began.acquire(timeout=60) for _ in crowd)
        reply = httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
        assert reply.status_code == 429
        assert reply.json()["error"]["code"] == "busy"
        assert "2 files are being downloaded" in reply.json()["error"]["message"]
        assert int(reply.headers["retry-after"]) > 0
        assert made.files == 2
        assert made.blocks < 2 * BLOCKS  # the next is made when one was taken
        for each in crowd:
            each.close()


def test_exports_and_models_wait_for_their_turn() -> None:
    made, paths = Made(), ("/api/export", "/api/model")
    with server(Turns(2, patience=0.1), made, taken_seconds=600) as port:
        crowd = [asking(port, path) for path in paths]
        assert all(made.began.acquire(timeout=60) for _ in crowd)
        for path in paths:
            assert httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60).status_code == 429
        for each in crowd:
            each.close()


def test_who_takes_nothing_of_a_file_gives_its_turn_to_others() -> None:
    made = Made()
    with server(Turns(1, patience=60), made, taken_seconds=0.3) as port:
        idle = asking(port)
        assert made.began.acquire(timeout=60)
        reply = httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
        assert len(reply.content) == BLOCKS * len(BLOCK)
        idle.close()


def test_a_file_that_cannot_be_made_gives_its_turn_to_others() -> None:
    made = Made()
    with server(Turns(1, patience=60), made, taken_seconds=600) as port:
        whole, made.file = made.file, None  # type: ignore[assignment, method-assign]
        assert httpx.get(f"http://127.0.0.1:{port}/", timeout=60).status_code == 500
        made.file = whole  # type: ignore[method-assign]
        assert httpx.get(f"http://127.0.0.1:{port}/", timeout=60).status_code == 200
