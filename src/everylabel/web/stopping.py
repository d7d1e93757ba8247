"""A server that stops: what still waits for an answer then is told so."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everylabel.web.access import refuse

PATIENCE = 3  # seconds that open requests get when the server stops
WITHIN = 10.0  # seconds that the log gets then, for all that is asked of it
TOLD = (
    "the server is stopping; whether this was saved is not known: send it again later with the same key, "
    "which counts once"
)


class Stopping:
    """Middleware around an application whose requests are cancelled when the server stops."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except asyncio.CancelledError:  # by the server alone, which ends with this task
            if not began:
                await refuse(send, 503, "closing", TOLD)
