"""Connections that do nothing are closed, and nobody can have all of them.

uvicorn waits for ever for the first request of a connection, for the rest of a request that it has answered
already, and for a client that does not read; and it takes as many as the system gives it: two thousand that
never ask took every file handle, and nobody could label. Here whatever no application waits for has to come
within some seconds, a client has to take what it asked for, one address has only so many connections at once,
and all together leave handles for the project's own files. Between two requests a connection may be silent
for as long as uvicorn allows.
"""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from everylabel.web.addresses import network_of

HEAD_SECONDS = 10.0  # from the first byte, or the connection, to a whole head; and for the rest of a body
# in which a client has to take some of what waits for it: a proxy in between takes more when a third of the
# 4 MB that the system holds for it is gone, at 10 KB a second after 130 seconds
TAKEN_SECONDS = 180.0
FROM_ONE = 256  # connections of one address: a class of forty behind one router, six a browser
KEPT_BACK = 200  # file handles for the log, the items, threads
LEAST = 64  # connections in any case
SELDOM = 10.0  # seconds in which the same trouble is told once


def guarded(
    most: int,
    from_one: int | None = FROM_ONE,
    head_seconds: float = HEAD_SECONDS,
    taken_seconds: float = TAKEN_SECONDS,
) -> type[H11Protocol]:
    """Return the protocol of one server.

    most : connections in all; from_one : of one address, None behind a proxy, from which all come
    head_seconds : that a request, or the rest of one that is answered, may take
    taken_seconds : in which a client has to take some of what waits for it
    """
    there: Counter[str] = Counter()

    class Guarded(H11Protocol):
        """A connection that has to come to the point."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.waiting: asyncio.TimerHandle | None = None
            self.taking: asyncio.TimerHandle | None = None
            self.address = network_of(self.client[0]) if self.client else ""
            there[self.address] += 1
            if there.total() > most or (from_one is not None and there[self.address] > from_one):
                transport.abort()
                return
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            there[self.address] -= 1
            if not there[self.address]:
                del there[self.address]
            self._go_on()
            self._taken()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            answering = self.cycle is not None and not self.cycle.response_complete
            if answering or self.transport.is_closing():
                self._go_on()  # what the application waits for has a limit of its own
            else:
                self._wait()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.taking is None:
                self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._taken()
            self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._taken()

        def _wait(self) -> None:
            """Give the client some seconds, which no further byte prolongs."""
            if self.waiting is None:
                self.waiting = self.loop.call_later(head_seconds, self.transport.abort)

        def _go_on(self) -> None:
            if self.waiting is not None:
                self.waiting.cancel()
                self.waiting = None

        def _taken(self) -> None:
            if self.taking is not None:
                self.taking.cancel()
                self.taking = None

        def _watch(self, before: int = 0) -> None:
            """Close the connection if nothing was taken of what waits here and in the system."""
            left = self.transport.get_write_buffer_size()
            left += left and _held_by_system(self.transport)
            if left and left == before:
                self.transport.abort()
            elif left:
                self.taking = self.loop.call_later(taken_seconds, self._watch, left)
            else:
                self.taking = None

    return Guarded


def _held_by_system(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes the system holds for a client; 0 where it does not tell.

    It holds megabytes, and asks for more only when a third of them is gone: minutes, for a slow client.
    """
    try:
        import fcntl
        import termios

        told = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    except (ImportError, AttributeError, OSError, ValueError):  # Windows, no socket, one that is closed
        return 0
    return int.from_bytes(told, sys.byteorder)


def most_connections() -> int:
    """Return how many connections this process may have, after asking the system for all it may give."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass
    unlimited = soft == resource.RLIM_INFINITY
    return 10_000 if unlimited else max(LEAST, min(10_000, soft - KEPT_BACK))


class Seldom(logging.Filter):
    """Lets the same trouble be told once in a while, and then how often it was there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[Any, tuple[float, int]] = {}  # -> when, and how often since

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = (record.name, record.levelno, str(record.msg)[:200]), self._clock()
        at, missed = self._told.get(key, (now - SELDOM, 0))
        if now - at < SELDOM:
            self._told[key] = at, missed + 1
            return False
        if len(self._told) > 1000:
            self._told.clear()
        self._told[key] = now, 0
        if missed:
            record.msg = f"{record.msg} (and {missed:,} times before)"
        return True


def tell_seldom() -> None:
    """Keep the logs of the server from being flooded by whoever connects."""
    for name in ("uvicorn.error", "asyncio", "everylabel.web.errors", "everylabel.web.tokens"):
        logger = logging.getLogger(name)
        if not any(isinstance(each, Seldom) for each in logger.filters):
            logger.addFilter(Seldom())
