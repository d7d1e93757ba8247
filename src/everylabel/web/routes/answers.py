"""What a person does with an instance; each ends in the next one."""

from asyncio import wrap_future
from typing import Any

from fastapi import APIRouter

from everylabel.labelling.service import Service
from everylabel.web.bodies import ItemBody, LabelBody, PersonBody, UndoBody
from everylabel.web.errors import problems


def answers(service: Service) -> APIRouter:
    """Return the endpoints of a service."""
    router = APIRouter(prefix="/api")

    @router.post("/next", responses=problems())
    async def next_item(body: PersonBody) -> dict[str, Any]:
        """Return the person's instance: the one they have, or the best to ask next."""
        return await wrap_future(service.next(body.person))

    @router.post("/label", responses=problems(404, 409))
    async def label(body: LabelBody) -> dict[str, Any]:
        """Learn a class and return the next instance."""
        return await wrap_future(service.label(body.person, body.item, body.class_, body.key))

    @router.post("/not", responses=problems(404, 409))
    async def rule_out(body: LabelBody) -> dict[str, Any]:
        """Learn a class that the instance is not of; it stays with the person."""
        return await wrap_future(service.rule_out(body.person, body.item, body.class_, body.key))

    @router.post("/skip", responses=problems(404, 409))
    async def skip(body: ItemBody) -> dict[str, Any]:
        """Leave an instance for later and return the next."""
        return await wrap_future(service.skip(body.person, body.item, body.key))

    @router.post("/cannot_tell", responses=problems(404, 409))
    async def cannot_tell(body: ItemBody) -> dict[str, Any]:
        """Note that one cannot tell and return the next instance."""
        return await wrap_future(service.cannot_tell(body.person, body.item, body.key))

    @router.post("/none", responses=problems(404, 409))
    async def none_of_these(body: ItemBody) -> dict[str, Any]:
        """Learn that no class fits and return the next instance."""
        return await wrap_future(service.none_of_these(body.person, body.item, body.key))

    @router.post("/undo", responses=problems(409))
    async def undo(body: UndoBody) -> dict[str, Any]:
        """Take back the person's last answer and show it again."""
        return await wrap_future(service.undo(body.person, body.saved, body.key))

    @router.post("/jump", responses=problems(404, 409))
    async def jump(body: ItemBody) -> dict[str, Any]:
        """Give the person this instance, to label it or to label it anew."""
        return await wrap_future(service.jump(body.person, body.item, body.key))

    return router
