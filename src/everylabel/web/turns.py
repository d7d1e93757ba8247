"""Files that are large to make are made some at a time, so that those who label need not wait.

To make one takes memory and a core, so two are made at once, each in a turn. To send one takes as long as its
client does, so that is done outside of the turn, from a file (`spooled.py`). There are places for some of
these; when all are taken, one whose client takes next to nothing is given to the next who asks.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import ceil
from typing import IO
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from everylabel.web.errors import AGAIN, Busy
from everylabel.web.spooled import File, spool

AT_ONCE = 2  # files that are made
PLACES = 16  # files that are there: made, waited for, sent
PATIENCE = 5.0  # seconds that a request waits for its turn
SLOW = 10_000  # bytes a second, less than which nobody may take when others want the place
BEHIND = 30.0  # seconds that a client may be behind that
LATEST = 3600  # seconds after which one may ask again in any case
BLOCK = 2**17  # bytes that are read at a time


class Place:
    """Of one file: how much of it was sent, and what ends that."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: float | None = None
        self._size, self.sent = 0, 0
        self._limit = asyncio.timeout(None)

    @asynccontextmanager
    async def sending(self, size: int) -> AsyncIterator[None]:
        """Have what is sent in this block count; it ends early if the place is another's."""
        self._began, self._size = self._clock(), size
        with suppress(TimeoutError):
            async with self._limit:
                yield

    def give_up(self) -> None:
        """End the sending of this file."""
        self._limit.reschedule(asyncio.get_running_loop().time())

    def behind(self) -> float:
        """Return for how many seconds longer than the slowest may the client has been at it."""
        return 0.0 if self._began is None else self._clock() - self._began - self.sent / SLOW

    def left(self) -> float:
        """Return in how many seconds all is sent, at the pace so far."""
        if self._began is None:
            return 0.0
        pace = self.sent / max(self._clock() - self._began, 1.0)
        return (self._size - self.sent) / max(pace, SLOW)


class Turns:
    """Who may make a file now, and who may be sent one.

    at_once : how many are made; patience : seconds that others wait before they are sent away
    places : how many there are
    """

    def __init__(
        self,
        at_once: int = AT_ONCE,
        patience: float = PATIENCE,
        places: int = PLACES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once, self._patience, self._most, self._clock = at_once, patience, places, clock
        self._free = asyncio.Semaphore(at_once)
        self._begun: list[float] = []  # when those that are made were
        self._places: list[Place] = []

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn, and have it until the block is left."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience)
        except TimeoutError as error:
            told = f"{self._at_once} files are being made, which is as many as go at once"
            raise _busy(told, self._clock() - min(self._begun, default=self._clock())) from error
        begun = self._clock()
        self._begun.append(begun)
        try:
            yield
        finally:
            self._begun.remove(begun)
            self._free.release()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """Have a place for a file until the block is left."""
        if len(self._places) >= self._most and not self._make_place():
            told = f"{self._most} files are being downloaded, which is as many as go at once"
            raise _busy(told, min(place.left() for place in self._places))
        place = Place(self._clock)
        self._places.append(place)
        try:
            yield place
        finally:
            if place in self._places:
                self._places.remove(place)

    def _make_place(self) -> bool:
        """Take the place of the client that is furthest behind; return whether there was one."""
        slowest = max(self._places, key=Place.behind)
        if slowest.behind() <= BEHIND:
            return False
        self._places.remove(slowest)
        slowest.give_up()
        return True


class InTurn(Response):
    """A file that is made when it is its turn, and sent when that is another's."""

    def __init__(self, turns: Turns, make: Callable[[], Awaitable[File]]) -> None:
        super().__init__()
        self._turns, self._make = turns, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stop = threading.Event()
        listening = asyncio.create_task(_wait_for_the_end(receive, stop))
        try:
            async with self._turns.place() as place:
                async with self._turns.turn():
                    if stop.is_set():
                        return
                    file, headers = await self._spooled(stop)
                with file:
                    if not stop.is_set():
                        await _send_file(file, headers, place, send, stop)
        finally:
            stop.set()
            listening.cancel()

    async def _spooled(self, stop: threading.Event) -> tuple[IO[bytes], dict[str, str]]:
        """Return the file that was made; all that it was made of is let go."""
        made = await self._make()
        file = await asyncio.to_thread(spool, made.pieces, made.folders, stop)
        disposition = f"attachment; filename*=UTF-8''{quote(made.name)}"
        length = str(file.tell())
        return file, {
            "content-type": made.media,
            "content-length": length,
            "content-disposition": disposition,
        }


async def _send_file(
    file: IO[bytes], headers: dict[str, str], place: Place, send: Send, stop: threading.Event
) -> None:
    """Send a file that is at its end, a block at a time, while somebody takes it."""
    size = file.tell()
    file.seek(0)
    async with place.sending(size):
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        more = True
        while more and not stop.is_set():
            block = await asyncio.to_thread(file.read, BLOCK)
            more = place.sent + len(block) < size
            await send({"type": "http.response.body", "body": block, "more_body": more})
            place.sent += len(block)


async def _wait_for_the_end(receive: Receive, stop: threading.Event) -> None:
    """Note when nobody waits for the reply any more."""
    with suppress(HTTPException):  # the rest of the request did not come
        while (await receive())["type"] != "http.disconnect":
            pass
    stop.set()


def _busy(told: str, seconds: float) -> Busy:
    again = min(max(AGAIN, ceil(seconds)), LATEST)
    return Busy(f"{told}; try again in {again} seconds", again)
