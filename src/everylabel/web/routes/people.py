"""Who has the page open."""

from asyncio import wrap_future
from typing import Any

from fastapi import APIRouter

from everylabel.labelling.presence import Presence, Tab
from everylabel.web.bodies import HereBody, LeaveBody
from everylabel.web.errors import problems


def people(presence: Presence, asks: bool) -> APIRouter:
    """Return the endpoints of who is here; `asks` for a name of everybody."""
    router = APIRouter(prefix="/api")

    @router.post("/here", responses=problems())
    async def here(body: HereBody) -> dict[str, Any]:
        """Note that somebody has the page open; return whether they have to tell a name first."""
        tab = Tab(body.person, body.browser, body.tab)
        return await wrap_future(presence.here(tab, named=body.named, known=body.known, asks=asks))

    @router.post("/leave", responses=problems())
    async def leave(body: LeaveBody) -> dict[str, Any]:
        """Note that somebody has closed the page."""
        return await wrap_future(presence.leave(body.tab))

    return router
