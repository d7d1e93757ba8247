"""Connections that do nothing are closed, and nobody can have all of them.

uvicorn waits for ever for the first request of a connection, and takes as many as the system gives it: two
thousand that never ask took every file handle, and nobody could label. Here a request's head has to come
within some seconds, one address has only so many connections at once, and all together leave handles for the
project's own files. Between two requests a connection may be silent for as long as uvicorn allows.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # from the first byte, or the connection, to a whole head
FROM_ONE = 256  # connections of one address: a class of forty behind one router, six a browser
KEPT_BACK = 200  # file handles for the log, the items, threads
LEAST = 64  # connections in any case
SELDOM = 10.0  # seconds in which the same trouble is told once


def guarded(
    most: int, from_one: int | None = FROM_ONE, head_seconds: float = HEAD_SECONDS
) -> type[H11Protocol]:
    """Return the protocol of one server.

    most : connections in all; from_one : of one address, None behind a proxy, from which all come
    """
    there: Counter[str] = Counter()

    class Guarded(H11Protocol):
        """A connection that has to come to the point."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.waiting: asyncio.TimerHandle | None = None
            self.address = self.client[0] if self.client else ""
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
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                if self.timeout_keep_alive_task is None:
                    self._wait()
            else:
                self._go_on()

        def _wait(self) -> None:
            if self.waiting is None:
                self.waiting = self.loop.call_later(head_seconds, self.transport.abort)

        def _go_on(self) -> None:
            if self.waiting is not None:
                self.waiting.cancel()
                self.waiting = None

    return Guarded


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
    for name in ("uvicorn.error", "asyncio", "everylabel.web.errors"):
        logger = logging.getLogger(name)
        if not any(isinstance(each, Seldom) for each in logger.filters):
            logger.addFilter(Seldom())
