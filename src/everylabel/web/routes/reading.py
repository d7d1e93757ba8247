"""Endpoints that only read: progress, answers, items, predictions, queues, pictures, the map and files.

Slow work runs outside the desk's thread.
"""

import re
from asyncio import Semaphore, to_thread, wrap_future
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from everylabel.data.items import Numbered
from everylabel.formats.known import MODELS, PROGRAMS, TABLES
from everylabel.formats.records import QueueTarget
from everylabel.labelling.queues import (
    HIGH,
    LOW,
    QUEUES,
    QueueData,
    QueueItem,
    QueueRequest,
    expected_errors,
    labelled_otherwise,
    missing,
    queue,
)
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import Refused, absent_in_reply, in_reply
from everylabel.labelling.views import Views
from everylabel.web.downloads import Downloads
from everylabel.web.item_view import ItemView
from everylabel.web.routes.answers import Anybody, Id, Person, ShownBody

SNIPPET = 200  # characters of a text in a list
MAP_POINTS = 5000
BY_PEOPLE = ("labels", "answers", "test")  # exports that need labelled items only
FILES_AT_ONCE = 2  # each takes memory and a core
PICTURES_AT_ONCE = 2  # a large one takes hundreds of megabytes until it is scaled down
Limit = Annotated[int, Query(ge=1, le=500)]
Share = Annotated[float, Query(ge=0.0, le=1.0)]
Class = Annotated[str | None, Query(min_length=1, max_length=200, alias="class")]  # digits: a class number
Item = Annotated[Id | None, Query()]


def glance(views: Views, shown: ItemView, item: str) -> dict[str, Any]:
    """Return an item's name, text snippet and image URL for a list."""
    views.position(item)
    item_shown = shown.item(item)
    text = shown.text(item)[:SNIPPET] or None
    return {"name": item_shown["name"], "text": text, "image": item_shown["image"]}


def reading(views: Views, shown: ItemView, files: Downloads, about: dict[str, str]) -> APIRouter:
    """Return the endpoints that read a project."""
    router, guesses = APIRouter(prefix="/api"), views.guesses
    seen = partial(glance, views, shown)
    turns, pictures = Semaphore(FILES_AT_ONCE), Semaphore(PICTURES_AT_ONCE)

    async def read(view: Callable[..., Any], *args: Any) -> Any:
        """Return the reply of a view, which runs on the desk's thread."""
        return await wrap_future(views.desk.read(view, *args))

    async def listed(ids: list[str]) -> list[dict[str, Any]]:
        """Return items as rows of a list."""
        states = await read(views.states, [views.position(item) for item in ids])
        glances = await to_thread(lambda: [seen(item) for item in ids])  # hashes images
        rows = zip(ids, glances, states, strict=True)
        return [{"id": item, **at_a_glance, **state} for item, at_a_glance, state in rows]

    @router.get("/health")
    async def health() -> dict[str, bool]:
        """Return ok while the server is up."""
        return {"ok": True}

    @router.get("/fingerprint")
    async def fingerprint() -> dict[str, Any]:
        """Return a hash of the whole state; a replay of the log up to this version gives the same hash."""
        return await read(views.fingerprint)

    @router.get("/session")
    async def session(request: Request, person: Person = "me") -> dict[str, Any]:
        """Return the data that the page needs to start; `looks` is true for a read-only token."""
        known = await read(views.session, person)
        return {**about, **known, "looks": getattr(request.state, "looks", False)}

    @router.get("/progress")
    async def progress(person: Person = "me") -> dict[str, Any]:
        """Return the progress of the labelling, with the learning curve."""
        return await to_thread(views.progress, person)

    @router.get("/classes")
    async def classes() -> dict[str, Any]:
        """Return the classes."""
        return await read(views.classes)

    @router.get("/figures")
    async def figures() -> dict[str, Any]:
        """Return precision, recall and confusions of the classes, by random checks and by the test set."""
        return await read(views.class_figures)

    @router.get("/history")
    async def history(person: Anybody = "", limit: Limit = 50, before: int | None = None) -> dict[str, Any]:
        """Return answers of a person or of everybody, the latest first."""
        events = await read(views.history, person, limit, before)
        return {"events": await to_thread(lambda: [{**event, **seen(event["item"])} for event in events])}

    @router.get("/disputed")
    async def disputed(limit: Limit = 100) -> dict[str, Any]:
        """Return items without a majority class, the latest first, with all answers."""
        items = await read(views.disputed, limit)
        return {"items": await to_thread(lambda: [{**found, **seen(found["item"])} for found in items])}

    @router.get("/sources")
    async def sources() -> dict[str, Any]:
        """Return each source's number of suggestions and how often it is right."""
        return await read(views.sources)

    @router.get("/search")
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
                message = "items in shards are found by their row number only; no text is searched"
                raise Refused(409, "in_shards", message)
            found = [place]
        else:
            found = await to_thread(_search, ids, shown, q, limit)
        return {"items": await listed([ids[i] for i in found])}

    @router.get("/items/{item:path}")
    async def one_item(item: str) -> dict[str, Any]:
        """Return all that is known of one item."""
        return await read(views.item, item)

    @router.get("/predictions", response_model=dict[str, Any])
    async def predictions(
        after: Annotated[int | None, Query(ge=0, le=2**40)] = None,
        offset: Annotated[int, Query(ge=0, le=2**40)] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> JSONResponse:
        """Return class probabilities of unlabelled items; pass `after` of one page to get the next.

        A page has 200,000 numbers at most: with many classes, fewer items than `limit`. An `offset` counts
        the items unlabelled now: while people label, paging by `offset` misses items.
        """
        return await to_thread(lambda: JSONResponse(guesses.page(after, offset, limit)))

    def asked(name: str, class_: str | None, item: str | None, low: float, high: float) -> QueueRequest:
        value = int(class_) if class_ is not None and re.fullmatch("[0-9]{1,9}", class_) else class_
        known = None if value is None else views.state.book.number(value)
        return QueueRequest(name, known, None if item is None else views.position(item), low, high)

    def otherwise(data: QueueData, item: int) -> list[dict[str, Any]]:
        """Return the most similar items that have another label."""
        alike = ((views.desk.ids[i], data.labels[i]) for i in labelled_otherwise(data, item))
        return [
            {"id": other, "label": in_reply(label), **absent_in_reply(label), **seen(other)}
            for other, label in alike
        ]

    @router.get("/queues")
    async def every(
        class_: Class = None, item: Item = None, low: Share = LOW, high: Share = HIGH
    ) -> dict[str, Any]:
        """Return all queues with their counts; null where a class or an item must be given first.

        The count of `suspect` is null before the first estimate of the model's accuracy.
        `class` is a class's number or name.
        """
        wanted = {name: asked(name, class_, item, low, high) for name in QUEUES}
        return {"queues": await to_thread(_counts, views, wanted)}

    @router.get("/queues/copies")
    async def copies(item: Id) -> dict[str, Any]:
        """Return near copies of an item with the same predicted class; `sure`: the model is confident."""
        guess, found = await to_thread(guesses.copies, views.position(item))
        items = await listed([views.desk.ids[each] for each in found])
        pairs = zip(items, found.values(), strict=True)
        return {"guess": guess, "items": [{**each, "sure": sure} for each, sure in pairs]}

    @router.post("/queues/shown")
    async def several(body: ShownBody) -> dict[str, Any]:
        """Return several items as rows of a list, with their labels and predictions."""
        return {"items": await listed(body.items)}

    @router.get("/queues/{name}")
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

        `count` and `expected_errors` of these are null before the first estimate of the model's accuracy.
        `class` is a class's number or name.
        """
        if name in QUEUES and QUEUES[name].scans:
            guesses.check_can_scan(f"the queue {QUEUES[name].title!r}")
        data = await to_thread(guesses.queue_data)
        found = await to_thread(queue, data, asked(name, class_, item, low, high))
        some = found[offset : offset + limit]
        rows = await listed([views.desk.ids[each.item] for each in some])
        for row, each in zip(rows, some, strict=True):
            row.update(_ranked(data, each))
            if name == "suspect":
                row["otherwise"] = await to_thread(otherwise, data, each.item)
        reply: dict[str, Any] = {"count": len(found), "items": rows}
        if name == "suspect":
            reply |= {"labels": len(data.labels), "expected_errors": round(expected_errors(data), 2)}
            if not data.is_assessed:
                reply |= {"count": None, "expected_errors": None}
        return reply

    async def sent(make: Callable[[LabelSet], Response]) -> Response:
        """Return a file that is made of the present labels, once it is its turn."""
        async with turns:
            label_set = await read(views.desk.label_set)
            return await to_thread(make, label_set)

    @router.get("/image/{item:path}", response_class=Response)
    async def image(item: str, content: Annotated[str, Query(max_length=64)] = "") -> Response:
        """Return an item's image; a browser may cache it if `content` is its current hash."""
        views.position(item)
        async with pictures:
            body, media = await to_thread(shown.picture, item)
        same = content and content == await to_thread(shown.digest, item)  # hashed after reading
        headers = {"cache-control": "private, max-age=3600"} if same else {}
        return Response(body, media_type=media, headers=headers)

    @router.get("/map")
    async def scatter() -> dict[str, Any]:
        """Return the map of the pool in two dimensions: all labelled items and a sample of the others."""
        guesses.check_can_scan("the map")
        places, method = await to_thread(files.layout)
        points = await to_thread(guesses.points, MAP_POINTS, len(places))
        idx = points.pop("idx")
        x, y = places[idx].T.round(4).tolist()
        return {"method": method, "ids": [views.desk.ids[i] for i in idx], "x": x, "y": y, **points}

    @router.get("/export", response_class=Response)
    async def export(
        what: str = "labels",
        format: str = "csv",
        class_: Annotated[str | None, Query(alias="class", max_length=1000)] = None,
        item: Annotated[str | None, Query(max_length=1000)] = None,
        columns: Annotated[list[str] | None, Query(max_length=1000)] = None,
    ) -> Response:
        """Return labels, answers, predictions or a queue (of a class or an item) as a file.

        columns : the source's columns to include, one parameter each; default all, a single "" for none
        """
        if what not in BY_PEOPLE:
            guesses.check_can_scan(f"an export of {what}")
        beside = None if columns is None else [name for name in columns if name]
        of = QueueTarget(class_, item)
        return await sent(lambda label_set: files.export(label_set, what, format, beside, of))

    @router.get("/formats")
    async def formats() -> dict[str, dict[str, str]]:
        """Return the export formats of tables, answers and the model, with their titles."""
        kinds = {"tables": TABLES, "answers": PROGRAMS, "models": MODELS}
        return {kind: {name: form.title for name, form in some.items()} for kind, some in kinds.items()}

    @router.get("/model", response_class=Response)
    async def model(format: str = "everylabel") -> Response:
        """Return the model as a file; format: everylabel, skops, onnx, torch or sklearn."""
        return await sent(lambda label_set: files.model(label_set, format))

    return router


def _search(ids: Sequence[str], shown: ItemView, words: str, limit: int) -> list[int]:
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


def _counts(views: Views, wanted: dict[str, QueueRequest]) -> list[dict[str, Any]]:
    data = views.guesses.queue_data()
    return [
        {
            "name": name,
            "title": about.title,
            "sentence": about.sentence,
            "needs": about.needs,
            "count": _count(data, wanted[name]),
        }
        for name, about in QUEUES.items()
        if (views.guesses.can_scan or not about.scans) and (data.multi_label or not about.of_sets)
    ]


def _count(data: QueueData, asked: QueueRequest) -> int | None:
    unknown = missing(asked) or (asked.name == "suspect" and not data.is_assessed)
    return None if unknown else len(queue(data, asked))


def _ranked(data: QueueData, found: QueueItem) -> dict[str, Any]:
    """Return an item's score in the queue, and the class predicted for it without its own label."""
    out = data.left_out.get(found.item)
    score = None if found.score is None else round(found.score, 6)
    guess = None if out is None else in_reply(out.guess)
    absent = {} if out is None else {f"predicted_{name}": v for name, v in absent_in_reply(out.guess).items()}
    # doubt: the name of predicted_label up to version 0.2
    return {"score": score, "predicted_label": guess, "doubt": guess, **absent}
