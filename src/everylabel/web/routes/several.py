"""Several instances at once: one class for all of them."""

from asyncio import wrap_future
from typing import Any

from fastapi import APIRouter

from everylabel.labelling.service import Service
from everylabel.labelling.several import label_many
from everylabel.web.bodies import ManyBody
from everylabel.web.errors import problems


def several(service: Service) -> APIRouter:
    """Return the endpoints of a service."""
    router = APIRouter(prefix="/api")

    @router.post("/label_many", responses=problems(404, 409))
    async def many(body: ManyBody) -> dict[str, Any]:
        """Learn one class for several instances and return the next; one undo takes all of them back."""
        return await wrap_future(label_many(service, body.person, body.items, body.class_, body.key))

    return router
