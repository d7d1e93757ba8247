"""Connections that never ask: real sockets against a real server; 127.0.0.2 is another address."""

import asyncio
import contextlib
import functools
import itertools
import logging
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response
from uvicorn.server import ServerState

from everylabel.web.addresses import network_of
from everylabel.web.connections import Seldom, guarded
from tests.web.servers import limited, served

if sys.platform == "linux":
    import fcntl
    import termios

LARGE = 50_000_000  # bytes: more than the system takes for a client that does not read


@contextlib.contextmanager
def server(**limits: Any) -> Iterator[int]:
    """Yield the port of a server with these limits."""
    app = FastAPI()

    @app.get("/")
    async def greet() -> str:
        return "ok"

    @app.get("/large")
    async def large() -> Response:
        return Response(b"x" * LARGE)

    with served(limited(app, **limits)) as port:
        yield port


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


def is_closed_to_bytes(one: socket.socket) -> bool:
    """Return whether the other side closes while a byte comes now and then."""
    one.settimeout(0.05)
    for byte in itertools.islice(itertools.cycle(b"1\r\na\r\n"), 1000):
        try:
            one.sendall(bytes([byte]))
            return one.recv(1) == b""
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


UNREAD = {
    "a length": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n",
    "chunks": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
    "a body of GET": b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n",
}


def answered(port: int, says: bytes, ends: bytes) -> socket.socket:
    """Return a connection on which a reply has come."""
    made, reply = connected(port, says=says), b""
    while not reply.endswith(ends):
        got = made.recv(1000)
        assert got, reply
        reply += got
    return made


@pytest.mark.parametrize("says", UNREAD.values(), ids=UNREAD)
def test_the_rest_of_a_request_that_is_answered_is_not_waited_for(says: bytes) -> None:
    ends = b'"ok"' if says.startswith(b"GET") else b'"Method Not Allowed"}'
    with server(most=40, head_seconds=0.3) as port:
        silent, dribbling = answered(port, says, ends), answered(port, says, ends)
        silent.sendall(b"1")
        assert is_closed_to_bytes(dribbling)
        assert is_closed(silent)
        silent.close()
        dribbling.close()


def test_a_request_whose_rest_comes_after_its_answer_is_followed_by_others() -> None:
    with server(most=40, head_seconds=600) as port:
        one = answered(port, UNREAD["a body of GET"], b'"ok"')
        one.sendall(b"1" * 100_000 + WHOLE)
        assert one.recv(15) == b"HTTP/1.1 200 OK"
        one.close()


def test_who_takes_nothing_of_a_reply_is_not_waited_for() -> None:
    with server(most=1, taken_seconds=0.3) as port:
        idle = connected(port, says=b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        for _ in range(600):  # until its place is free
            with contextlib.suppress(httpx.TransportError):
                assert httpx.get(f"http://127.0.0.1:{port}/").json() == "ok"
                break
            time.sleep(0.1)
        else:
            pytest.fail("the connection that takes nothing is still there")
        got = 0
        with contextlib.suppress(ConnectionError):
            while some := idle.recv(1_000_000):
                got += len(some)
        assert got < LARGE
        idle.close()


class Lazy:
    """A transport whose other side takes what it is told to, and a clock that is told to go on."""

    def __init__(self) -> None:
        self.left, self.aborted, self.peer = 0, False, "192.0.2.7"
        self.next: Callable[[], None] = lambda: None
        self.socket: socket.socket | None = None

    def get_extra_info(self, name: str) -> Any:
        return {"peername": (self.peer, 5000), "socket": self.socket}.get(name)

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.aborted = True

    def call_later(self, _: float, call: Any, *values: Any) -> Any:
        self.next = functools.partial(call, *values)
        return asyncio.get_running_loop().call_later(1e6, lambda: None)


def made(protocol: Any, lazy: Lazy) -> Any:
    """Return a connection of this protocol over a transport of ours."""
    config = uvicorn.Config(FastAPI(), log_level="error", log_config=None)
    one = protocol(config, ServerState(), {}, lazy)
    one.connection_made(lazy)
    return one


def test_who_takes_a_little_of_a_reply_is_waited_for() -> None:
    async def check() -> None:
        lazy = Lazy()
        one = made(guarded(most=40), lazy)
        lazy.left = 200_000
        one.pause_writing()
        for lazy.left in (190_000, 180_000, 10):  # a little each time
            lazy.next()
        assert not lazy.aborted
        lazy.next()
        assert lazy.aborted

    asyncio.run(check())


@contextlib.contextmanager
def filled() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection of which the system holds as much as it takes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname(), timeout=60)
        here = listening.accept()[0]
    with client, here:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
        here.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                here.send(bytes(1_000_000))
        yield here, client


def held(one: socket.socket) -> int:
    """Return how many bytes the system holds for the other side."""
    return int.from_bytes(fcntl.ioctl(one.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def take_until_told(here: socket.socket, client: socket.socket) -> None:
    """Read until this end knows of it: the system tells it in steps."""
    before = held(here)
    for _ in range(600):
        client.recv(20_000)
        if held(here) < before:
            return
        time.sleep(0.01)
    pytest.fail("the system never told that something was taken")


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells what it holds")
def test_who_takes_a_little_of_what_the_system_holds_is_waited_for() -> None:
    async def check() -> None:
        with filled() as (here, client):
            lazy = Lazy()
            lazy.socket, one = here, made(guarded(most=40), lazy)
            lazy.left = 200_000  # stays so: the system takes more when a third of what it holds is gone
            one.pause_writing()
            for _ in range(3):
                take_until_told(here, client)
                lazy.next()
            assert not lazy.aborted
            assert not select.select([], [here], [], 0)[1]
            for _ in range(600):  # what is on its way still counts
                if lazy.aborted:
                    return
                time.sleep(0.01)
                lazy.next()
            pytest.fail("who takes nothing is still waited for")

    asyncio.run(check())


def test_a_machine_with_many_addresses_cannot_have_all_connections() -> None:
    async def check() -> None:
        protocol, crowd = guarded(most=40, from_one=3), [Lazy() for _ in range(5)]
        for at, lazy in enumerate(crowd):
            lazy.peer = f"2001:db8::{at}"
            made(protocol, lazy)
        assert [lazy.aborted for lazy in crowd] == [False] * 3 + [True] * 2

    asyncio.run(check())


def test_a_network_counts_as_one_address() -> None:
    assert network_of("192.0.2.7") == network_of("::ffff:192.0.2.7") == "192.0.2.7"
    assert network_of("::ffff:192.0.2.8") != network_of("::ffff:192.0.2.7")
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
    assert network_of("testclient") == "testclient"


def test_the_same_trouble_is_told_once_in_a_while() -> None:
    now = [0.0]
    seldom = Seldom(lambda: now[0])

    def told(text: str) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, text, None, None)
        return record.getMessage() if seldom.filter(record) else None

    assert [told("odd"), told("odd"), told("else"), told("odd")] == ["odd", None, "else", None]
    now[0] = 20.0
    assert told("odd") == "odd (and 2 times before)"
