"""Endpoints for queues: lists of items worth a look, each with a count."""

import re
from asyncio import to_thread, wrap_future
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from everylabel.labelling.queues import (
    HIGH,
    LOW,
    OF_ALL,
    QUEUES,
    Asked,
    Found,
    Look,
    expected_errors,
    labelled_otherwise,
    missing,
    queue,
)
from everylabel.labelling.views import Views
from everylabel.web.bodies import Id, ShownBody, problems
from everylabel.web.item_view import Shown
from everylabel.web.routes.reading import glance

Share = Annotated[float, Query(ge=0.0, le=1.0)]
Class = Annotated[str | None, Query(min_length=1, max_length=200, alias="class")]  # digits: a class number
Item = Annotated[Id | None, Query()]


def queues(views: Views, shown: Shown) -> APIRouter:
    """Return the endpoints for a project's queues."""
    router = APIRouter(prefix="/api/queues")
    seen = partial(glance, views, shown)

    def asked(name: str, class_: str | None, item: str | None, low: float, high: float) -> Asked:
        value = int(class_) if class_ is not None and re.fullmatch("[0-9]{1,9}", class_) else class_
        known = None if value is None else views.state.book.number(value)
        return Asked(name, known, None if item is None else views.position(item), low, high)

    async def listed(ids: list[str]) -> list[dict[str, Any]]:
        """Return items as rows of a list."""
        states = await wrap_future(views.states([views.position(item) for item in ids]))
        shown = await to_thread(lambda: [seen(item) for item in ids])  # hashes images
        return [{"id": item, **one, **state} for item, one, state in zip(ids, shown, states, strict=True)]

    def otherwise(look: Look, item: int) -> list[dict[str, Any]]:
        """Return the most similar items that have another label."""
        alike = ((views.desk.ids[i], look.labels[i]) for i in labelled_otherwise(look, item))
        return [{"id": other, "label": label, **seen(other)} for other, label in alike]

    @router.get("", responses=problems(404))
    async def every(
        class_: Class = None, item: Item = None, low: Share = LOW, high: Share = HIGH
    ) -> dict[str, Any]:
        """Return all queues with their counts; null where a class or an item must be given first.

        `class` is a class's number or name.
        """
        wanted = {name: asked(name, class_, item, low, high) for name in QUEUES}
        return {"queues": await to_thread(_counts, views, wanted)}

    @router.get("/copies", responses=problems(404))
    async def copies(item: Id) -> dict[str, Any]:
        """Return near copies of an item with the same predicted class; `sure`: the model is confident."""
        guess, found = await to_thread(views.copies, views.position(item))
        items = await listed([views.desk.ids[each] for each in found])
        pairs = zip(items, found.values(), strict=True)
        return {"guess": guess, "items": [{**each, "sure": sure} for each, sure in pairs]}

    @router.post("/shown", responses=problems(404))
    async def several(body: ShownBody) -> dict[str, Any]:
        """Return several items as rows of a list, with their labels and predictions."""
        return {"items": await listed(body.items)}

    @router.get("/{name}", responses=problems(404))
    async def one(
        name: str,
        class_: Class = None,
        item: Item = None,
        low: Share = LOW,
        high: Share = HIGH,
        offset: Annotated[int, Query(ge=0, le=2**40)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> dict[str, Any]:
        """Return a queue, best first; suspect labels come with similar items that are labelled otherwise.

        `class` is a class's number or name.
        """
        if name in OF_ALL:
            views.check_here(f"the queue {QUEUES[name].title!r}")
        look = await to_thread(views.look)
        found = await to_thread(queue, look, asked(name, class_, item, low, high))
        some = found[offset : offset + limit]
        rows = await listed([views.desk.ids[each.item] for each in some])
        for row, each in zip(rows, some, strict=True):
            row.update(_ranked(look, each))
            if name == "suspect":
                row["otherwise"] = await to_thread(otherwise, look, each.item)
        told = {"count": len(found), "items": rows}
        if name == "suspect":
            told |= {"labels": len(look.labels), "expected_errors": round(expected_errors(look), 2)}
        return told

    return router


def _counts(views: Views, wanted: dict[str, Asked]) -> list[dict[str, Any]]:
    look = views.look()
    return [
        {
            "name": name,
            "title": about.title,
            "sentence": about.sentence,
            "needs": about.needs,
            "count": None if missing(wanted[name]) else len(queue(look, wanted[name])),
        }
        for name, about in QUEUES.items()
        if views.can_scan or name not in OF_ALL
    ]


def _ranked(look: Look, found: Found) -> dict[str, Any]:
    """Return an item's score in the queue, and the class predicted for it without its own label."""
    out = look.left_out.get(found.item)
    score = None if found.score is None else round(found.score, 6)
    return {"score": score, "doubt": None if out is None else out.guess}
