"""Items that other programs send."""

from asyncio import to_thread
from typing import Any

from fastapi import APIRouter

from everylabel.data.sent import Sent
from everylabel.web.arrivals import Arrivals
from everylabel.web.bodies import SentBody
from everylabel.web.errors import problems


def sending(arrivals: Arrivals) -> APIRouter:
    """Return the endpoint that takes items."""
    router = APIRouter(prefix="/api")

    @router.post("/items", responses=problems(409))
    async def send(body: SentBody) -> dict[str, Any]:
        """Embed texts as the project's own were, and have them join the pool; an id counts once."""
        sent = [Sent.of(one.text, one.id, one.fields) for one in body.items]
        joined = await to_thread(arrivals.send, sent)
        return {"ids": [one.id for one in sent], "joined": joined, "items": len(arrivals.desk.ids)}

    return router
