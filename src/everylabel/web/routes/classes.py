"""Endpoints for the classes and the settings of a project."""

from asyncio import wrap_future
from typing import Any

from fastapi import APIRouter

from everylabel.labelling.service import Service
from everylabel.web.bodies import (
    ChangeBody,
    ClassBody,
    OrderBody,
    PersonBody,
    RemoveBody,
    SettingsBody,
    UndoClassesBody,
    WishBody,
    problems,
)


def classes(service: Service) -> APIRouter:
    """Return the endpoints for classes and settings."""
    router = APIRouter(prefix="/api")

    @router.get("/classes")
    async def all_classes() -> dict[str, Any]:
        """Return the classes."""
        return await wrap_future(service.views.classes())

    @router.post("/classes", responses=problems(409))
    async def add_class(body: ClassBody) -> dict[str, Any]:
        """Add a class."""
        return await wrap_future(service.classes.add(body.person, body.name, body.key, sure=body.sure))

    @router.patch("/classes/{number}", responses=problems(409))
    async def change_class(number: int, body: ChangeBody) -> dict[str, Any]:
        """Change a class's name, description, key or colour."""
        return await wrap_future(
            service.classes.change(
                body.person,
                number,
                name=body.name,
                description=body.description,
                own_key=body.own_key,
                colour=body.colour,
                sure=body.sure,
            )
        )

    @router.post("/classes/{number}/remove", responses=problems(409))
    async def remove_class(number: int, body: RemoveBody) -> dict[str, Any]:
        """Remove a class, or merge it into another."""
        return await wrap_future(service.classes.remove(body.person, number, body.into))

    @router.post("/classes/{number}/restore", responses=problems(409))
    async def restore_class(number: int, body: PersonBody) -> dict[str, Any]:
        """Restore a removed class with its labels."""
        return await wrap_future(service.classes.restore(body.person, number))

    @router.post("/classes/order", responses=problems(409))
    async def order_classes(body: OrderBody) -> dict[str, Any]:
        """Change the order of the classes."""
        return await wrap_future(service.classes.arrange(body.person, body.order))

    @router.post("/classes/undo", responses=problems(409))
    async def undo_classes(body: UndoClassesBody) -> dict[str, Any]:
        """Undo the last change of classes."""
        return await wrap_future(service.classes.undo(body.person, body.saved))

    @router.get("/figures")
    async def figures() -> dict[str, Any]:
        """Return precision, recall and confusions of the classes, by random checks and by the test set."""
        return await wrap_future(service.views.figures_by_class())

    @router.post("/wish", responses=problems(409))
    async def wish(body: WishBody) -> dict[str, Any]:
        """Check a class more often: draw checks among the items predicted as this class."""
        return await wrap_future(service.wish(body.person, body.class_, body.checks, body.key))

    @router.patch("/settings", responses=problems())
    async def settings(body: SettingsBody) -> dict[str, Any]:
        """Change the strategy, the rate of random checks, the use of class names, or fine-tuning."""
        changes = body.model_dump(exclude={"person"}, exclude_none=True)
        return await wrap_future(service.change_settings(body.person, changes))

    return router
