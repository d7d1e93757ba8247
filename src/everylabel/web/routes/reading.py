"""Endpoints that only read: progress, answers, items and predictions."""

import json
from asyncio import to_thread, wrap_future
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from everylabel.data.items import Numbered
from everylabel.labelling.queues import Page
from everylabel.labelling.state.types import Refused
from everylabel.labelling.views import Views
from everylabel.web.access import LOOKS
from everylabel.web.bodies import Anybody, Person, problems
from everylabel.web.item_view import Shown

SNIPPET = 200  # characters of a text in a list
Limit = Annotated[int, Query(ge=1, le=500)]


class JsonStream(StreamingResponse):
    """A JSON reply that is sent in pieces."""

    media_type = "application/json"


def pieces(page: Page) -> Iterator[bytes]:
    """Yield the JSON of a page of predictions, its probabilities last."""
    yield json.dumps(page.about())[:-1].encode() + b', "probabilities": ['
    between = b""
    for block in page.blocks():
        yield between + json.dumps(block)[1:-1].encode()
        between = b", "
    yield b"]}"


def glance(views: Views, shown: Shown, item: str) -> dict[str, Any]:
    """Return an item's name, text snippet and image URL for a list."""
    views.position(item)
    item_shown = shown.item(item)
    text = shown.text(item)[:SNIPPET] or None
    return {"name": item_shown["name"], "text": text, "image": item_shown["image"]}


def reading(views: Views, shown: Shown, about: dict[str, str]) -> APIRouter:
    """Return the endpoints that read a project."""
    router = APIRouter(prefix="/api")

    seen = partial(glance, views, shown)

    @router.get("/health")
    async def health() -> dict[str, bool]:
        """Return ok while the server is up."""
        return {"ok": True}

    @router.get("/fingerprint")
    async def fingerprint() -> dict[str, Any]:
        """Return a hash of the whole state; a replay of the log up to this version gives the same hash."""
        return await wrap_future(views.fingerprint())

    @router.get("/session", responses=problems())
    async def session(request: Request, person: Person = "me") -> dict[str, Any]:
        """Return the data that the page needs to start; `looks` is true for a read-only token."""
        known = await wrap_future(views.session(person))
        return {**about, **known, "looks": getattr(request.state, LOOKS, False)}

    @router.get("/progress", responses=problems())
    async def progress(person: Person = "me") -> dict[str, Any]:
        """Return the progress of the labelling, with the learning curve."""
        return await to_thread(views.progress, person)

    @router.get("/ahead", responses=problems())
    async def ahead(person: Person = "me") -> dict[str, Any]:
        """Return the URLs of images that the person may see next; this leases nothing."""
        found = await wrap_future(views.ahead(person))
        images = await to_thread(lambda: [shown.item(item)["image"] for item in found])
        return {"images": [address for address in images if address is not None]}

    @router.get("/history", responses=problems())
    async def history(person: Anybody = "", limit: Limit = 50, before: int | None = None) -> dict[str, Any]:
        """Return answers of a person or of everybody, the latest first."""
        events = await wrap_future(views.history(person, limit, before))
        return {"events": await to_thread(lambda: [{**event, **seen(event["item"])} for event in events])}

    @router.get("/disputed", responses=problems())
    async def disputed(limit: Limit = 100) -> dict[str, Any]:
        """Return items without a majority class, the latest first, with all answers."""
        items = await wrap_future(views.disputed(limit))
        return {"items": await to_thread(lambda: [{**found, **seen(found["item"])} for found in items])}

    @router.get("/sources", responses=problems())
    async def sources() -> dict[str, Any]:
        """Return each source's number of suggestions and how often it is right."""
        return await wrap_future(views.sources())

    @router.get("/search", responses=problems(409))
    async def search(
        q: Annotated[str, Query(max_length=200)] = "", limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> dict[str, Any]:
        """Return items whose name or text contains all words, an exact match of the name first.

        Items in shards are found by row number only.
        """
        ids = views.desk.ids
        if isinstance(shown.project.ids, Numbered):
            place = views.state.position.get(q.strip())
            if place is None:
                told = "items in shards are found by their row number only; no text is searched"
                raise Refused(409, "in_shards", told)
            found = [place]
        else:
            found = await to_thread(_search, ids, shown, q, limit)
        states = await wrap_future(views.states(found))
        pairs = zip((ids[i] for i in found), states, strict=True)
        return {
            "items": await to_thread(lambda: [{"id": item, **seen(item), **state} for item, state in pairs])
        }

    @router.get("/items/{item:path}", responses=problems(404))
    async def one_item(item: str) -> dict[str, Any]:
        """Return all that is known of one item."""
        return await wrap_future(views.item(item))

    @router.get("/predictions", responses=problems(), response_model=dict[str, Any])
    async def predictions(
        after: Annotated[int | None, Query(ge=0, le=2**40)] = None,
        offset: Annotated[int, Query(ge=0, le=2**40)] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> JsonStream:
        """Return class probabilities of unlabelled items; pass `after` of one page to get the next.

        A page has a million numbers at most: with many classes, fewer items than `limit`. An `offset` counts
        the items unlabelled now: while people label, paging by `offset` misses items.
        """
        return JsonStream(pieces(await wrap_future(views.predictions(after, offset, limit))))

    return router


def _search(ids: Sequence[str], shown: Shown, words: str, limit: int) -> list[int]:
    wanted, named, found = words.casefold().split(), list[int](), list[int]()
    for i, item in enumerate(ids):
        name = shown.name(item)
        if name == words.strip():
            named.append(i)
        elif len(found) < limit:
            text = f"{name} {shown.text(item)}".casefold()
            if all(word in text for word in wanted):
                found.append(i)
    return [*named, *found][:limit]
