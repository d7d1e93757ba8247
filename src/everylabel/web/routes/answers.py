"""Endpoints that change a project: answers, classes, settings, auto-labels, sent items; and presence."""

from asyncio import to_thread, wrap_future
from typing import Annotated, Any

from fastapi import APIRouter, Query

from everylabel.data.items import Sent
from everylabel.labelling.auto_label import Finishing
from everylabel.labelling.presence import Presence, Tab
from everylabel.labelling.service import Service, label_many, suggest
from everylabel.labelling.views import Views
from everylabel.web.arrivals import Arrivals
from everylabel.web.bodies import (
    ChangeBody,
    ClassBody,
    FinishBody,
    HereBody,
    ItemBody,
    LabelBody,
    LeaveBody,
    ManyBody,
    NextBody,
    OrderBody,
    PersonBody,
    RemoveBody,
    SentBody,
    SetBody,
    SettingsBody,
    SuggestionsBody,
    UndoBody,
    UndoClassesBody,
    WishBody,
    problems,
)

Rate = Annotated[float, Query(ge=0.001, le=0.5)]
Confidence = Annotated[float, Query(ge=0.5, le=0.999)]


def answers(service: Service) -> APIRouter:
    """Return the endpoints for answers; most return the person's next item."""
    router = APIRouter(prefix="/api")

    @router.post("/next", responses=problems())
    async def next_item(body: NextBody) -> dict[str, Any]:
        """Return the person's item: the one leased to them, or the best to ask next."""
        return await wrap_future(service.next(body.person, body.questions))

    @router.post("/label", responses=problems(404, 409))
    async def label(body: LabelBody) -> dict[str, Any]:
        """Label an item with a class, update the model and return the next item."""
        return await wrap_future(service.label(body.person, body.item, body.class_, body.key))

    @router.post("/label_set", responses=problems(404, 409))
    async def label_set(body: SetBody) -> dict[str, Any]:
        """Set the classes of an item in a multi-label project and return the next item."""
        said = body.present, body.absent
        return await wrap_future(service.label_set(body.person, body.item, *said, body.key))

    @router.post("/not", responses=problems(404, 409))
    async def rule_out(body: LabelBody) -> dict[str, Any]:
        """Record a class that the item does not have; the item stays with the person."""
        return await wrap_future(service.rule_out(body.person, body.item, body.class_, body.key))

    @router.post("/skip", responses=problems(404, 409))
    async def skip(body: ItemBody) -> dict[str, Any]:
        """Skip an item for now and return the next."""
        return await wrap_future(service.skip(body.person, body.item, body.key))

    @router.post("/cannot_tell", responses=problems(404, 409))
    async def cannot_tell(body: ItemBody) -> dict[str, Any]:
        """Record that the person cannot decide and return the next item."""
        return await wrap_future(service.cannot_tell(body.person, body.item, body.key))

    @router.post("/none", responses=problems(404, 409))
    async def none_of_these(body: ItemBody) -> dict[str, Any]:
        """Record that no class fits and return the next item."""
        return await wrap_future(service.none_of_these(body.person, body.item, body.key))

    @router.post("/undo", responses=problems(409))
    async def undo(body: UndoBody) -> dict[str, Any]:
        """Undo the person's last answer and return its item."""
        return await wrap_future(service.undo(body.person, body.saved, body.key))

    @router.post("/jump", responses=problems(404, 409))
    async def jump(body: ItemBody) -> dict[str, Any]:
        """Give the person this item, to label or relabel it."""
        return await wrap_future(service.jump(body.person, body.item, body.key))

    @router.post("/label_many", responses=problems(404, 409))
    async def many(body: ManyBody) -> dict[str, Any]:
        """Label several items with one class and return the next item; one undo reverts all of them."""
        made = label_many(service, body.person, body.items, body.class_, body.key, remove=body.remove)
        return await wrap_future(made)

    @router.post("/suggestions", responses=problems(404, 409))
    async def suggestions(body: SuggestionsBody) -> dict[str, Any]:
        """Learn a source's suggestions as far as labels confirm the source; return how many are new."""
        said = [one.said for one in body.suggestions]
        return await wrap_future(suggest(service, body.person, body.source, said, body.add_classes))

    return router


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
        changes = body.model_dump(exclude={"person"})
        return await wrap_future(service.classes.change(body.person, number, **changes))

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


def sending(arrivals: Arrivals) -> APIRouter:
    """Return the endpoint for items that other programs send."""
    router = APIRouter(prefix="/api")

    @router.post("/items", responses=problems(409))
    async def send(body: SentBody) -> dict[str, Any]:
        """Embed texts with the project's encoder and add them to the pool; an id counts once."""
        sent = [Sent.of(one.text, one.id, one.fields) for one in body.items]
        joined = await to_thread(arrivals.send, sent)
        return {"ids": [one.id for one in sent], "joined": joined, "items": len(arrivals.desk.ids)}

    return router


def people(presence: Presence, asks: bool) -> APIRouter:
    """Return the endpoints for presence; with `asks`, everybody must enter a name."""
    router = APIRouter(prefix="/api")

    @router.post("/here", responses=problems())
    async def here(body: HereBody) -> dict[str, Any]:
        """Record that a person has the page open; return whether they must enter a name first."""
        tab = Tab(body.person, body.browser, body.tab)
        return await wrap_future(presence.here(tab, named=body.named, known=body.known, asks=asks))

    @router.post("/leave", responses=problems())
    async def leave(body: LeaveBody) -> dict[str, Any]:
        """Record that a person has closed the page."""
        return await wrap_future(presence.leave(body.tab))

    return router


def finishing(views: Views) -> APIRouter:
    """Return the endpoints for finishing the project with the model's labels."""
    router, asked = APIRouter(prefix="/api/finish"), Finishing(views)

    @router.get("", responses=problems())
    async def preview(rate: Rate = 0.05, confidence: Confidence = 0.95) -> dict[str, Any]:
        """Return how many items the model would label, and how many confirmations that requires."""
        return await wrap_future(asked.preview(rate, confidence))

    @router.post("/start", responses=problems(409))
    async def start(body: FinishBody) -> dict[str, Any]:
        """Start confirmations: people check items drawn at random from those that the model would label."""
        return await wrap_future(asked.start(body.person, body.rate, body.confidence))

    @router.post("", responses=problems(409))
    async def finish(body: PersonBody) -> dict[str, Any]:
        """Label the largest set of items that the confirmations certify with the model's classes."""
        return await wrap_future(asked.finish(body.person))

    @router.post("/undo", responses=problems())
    async def take_back(body: PersonBody) -> dict[str, Any]:
        """Remove all labels given by the model, and end the confirmations."""
        return await wrap_future(asked.take_back(body.person))

    return router
