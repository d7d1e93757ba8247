"""Files that are large to make are made and sent some at a time, so that those who label need not wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from everylabel.labelling.refused import Refused

AT_ONCE = 2  # files
PATIENCE = 5.0  # seconds that a request waits for its turn


class Turns:
    """Who may make a file now.

    at_once : how many may; patience : seconds that others wait before they are sent away
    """

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._at_once, self._patience = at_once, patience
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn, and have it until the block is left."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience)
        except TimeoutError as error:
            told = f"{self._at_once} files are being downloaded, which is as many as go at once; try again"
            raise Refused(429, "busy", f"{told} in some seconds") from error
        try:
            yield
        finally:
            self._free.release()


class InTurn(Response):
    """A reply that is made when it is its turn, and gives that up when all is sent or nobody takes it."""

    def __init__(self, turns: Turns, make: Callable[[], Awaitable[Response]]) -> None:
        super().__init__()
        self._turns, self._make = turns, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._turns.turn():
            made = await self._make()
            await made(scope, receive, send)
