"""The classes and the settings of a project."""

from asyncio import wrap_future
from typing import Any

from fastapi import APIRouter

from everylabel.labelling.service import Service
from everylabel.web.bodies import ChangeBody, ClassBody, SettingsBody
from everylabel.web.errors import problems


def classes(service: Service) -> APIRouter:
    """Return the endpoints of a service."""
    router = APIRouter(prefix="/api")

    @router.get("/classes")
    async def all_classes() -> dict[str, Any]:
        """Return the classes."""
        return await wrap_future(service.views.classes())

    @router.post("/classes", responses=problems(409))
    async def add_class(body: ClassBody) -> dict[str, Any]:
        """Add a class."""
        return await wrap_future(service.add_class(body.person, body.name, body.key))

    @router.patch("/classes/{number}", responses=problems(409))
    async def change_class(number: int, body: ChangeBody) -> dict[str, Any]:
        """Give a class another name, or say what it is about."""
        return await wrap_future(service.change_class(body.person, number, body.name, body.description))

    @router.patch("/settings", responses=problems())
    async def settings(body: SettingsBody) -> dict[str, Any]:
        """Change the strategy, how often a random check comes, or whether class names teach."""
        changes = body.model_dump(exclude={"person"}, exclude_none=True)
        return await wrap_future(service.change_settings(body.person, changes))

    return router
