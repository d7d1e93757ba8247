"""Connections that never ask: real sockets against a real server; 127.0.0.2 is another address."""

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from everylabel.web.connections import Seldom, guarded


@contextlib.contextmanager
def server(**limits: Any) -> Iterator[int]:
    """Yield the port of a server with these limits."""
    app = FastAPI()

    @app.get("/")
    async def greet() -> str:
        return "ok"

    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=guarded(**limits), log_level="error", lifespan="off", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield bound.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join()
        bound.close()


WHOLE = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


def connected(port: int, source: str = "127.0.0.2", says: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0))
    with contextlib.suppress(ConnectionError):  # closed at once: that is for the test to see
        made.sendall(says)
    return made


def is_closed(one: socket.socket) -> bool:
    """Return whether the other side has closed; waits for that, not for ever."""
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_one_address_cannot_have_all_connections() -> None:
    with server(most=40, from_one=10, head_seconds=600) as port:
        crowd = [connected(port) for _ in range(30)]
        assert httpx.get(f"http://127.0.0.1:{port}/").json() == "ok"
        assert all(map(is_closed, crowd[10:]))
        crowd[0].close()
        one = connected(port, says=WHOLE)
        while is_closed(one):  # until the server has noticed that one has gone
            one.close()
            one = connected(port, says=WHOLE)
        for each in [*crowd, one]:
            each.close()


def test_all_together_have_no_more_than_there_are() -> None:
    with server(most=12, from_one=None, head_seconds=600) as port:
        crowd = [connected(port) for _ in range(30)]
        assert all(map(is_closed, crowd[12:]))
        for each in crowd:
            each.close()


def test_a_request_that_does_not_come_is_not_waited_for() -> None:
    with server(most=40, head_seconds=0.3) as port:
        silent, half = connected(port), connected(port, says=b"GET / HTTP/1.1\r\nhost: a\r\n")
        assert is_closed(silent)
        assert is_closed(half)
        again, reply = connected(port, says=WHOLE), b""
        while not reply.endswith(b'"ok"'):
            reply += again.recv(1000)
        again.sendall(b"G")  # and a second one that is never finished
        assert is_closed(again)
        for each in (silent, half, again):
            each.close()


def test_the_same_trouble_is_told_once_in_a_while() -> None:
    now = [0.0]
    seldom = Seldom(lambda: now[0])

    def told(text: str) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, text, None, None)
        return record.getMessage() if seldom.filter(record) else None

    assert [told("odd"), told("odd"), told("else"), told("odd")] == ["odd", None, "else", None]
    now[0] = 20.0
    assert told("odd") == "odd (and 2 times before)"
