"""Endpoints for pictures, the map and files; slow work runs outside the desk's thread."""

from asyncio import get_running_loop, to_thread, wrap_future
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from everylabel.formats.known import MODELS, PROGRAMS, TABLES
from everylabel.formats.queue_tables import QueueTarget
from everylabel.labelling.views import Views
from everylabel.web.bodies import problems
from everylabel.web.downloads import Downloads, File, Turns
from everylabel.web.item_view import Shown

MAP_POINTS = 5000
PICTURES_AT_ONCE = 2  # large pictures take memory; other requests do not wait for them


def downloads(views: Views, shown: Shown, files: Downloads) -> APIRouter:
    """Return the endpoints for a project's pictures, map and files."""
    router = APIRouter(prefix="/api")
    turns = Turns()
    pictures = ThreadPoolExecutor(PICTURES_AT_ONCE, "pictures")

    @router.get("/image/{item:path}", responses=problems(404), response_class=Response)
    async def image(item: str, content: Annotated[str, Query(max_length=64)] = "") -> Response:
        """Return an item's image; a browser may cache it if `content` is its current hash."""
        views.position(item)
        body, media = await get_running_loop().run_in_executor(pictures, shown.picture, item)
        same = content and content == await to_thread(shown.digest, item)  # hashed after reading
        headers = {"cache-control": "private, max-age=3600"} if same else {}
        return Response(body, media_type=media, headers=headers)

    @router.get("/map", responses=problems())
    async def scatter() -> dict[str, Any]:
        """Return the map of the pool in two dimensions: all labelled items and a sample of the others."""
        places, method = await to_thread(files.layout)
        points = await to_thread(views.points, MAP_POINTS, len(places))
        idx = points.pop("idx")
        x, y = places[idx].T.round(4).tolist()
        return {"method": method, "ids": [views.desk.ids[i] for i in idx], "x": x, "y": y, **points}

    @router.get("/export", responses=problems(429), response_class=Response)
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
        of, beside = (
            QueueTarget(class_, item),
            None if columns is None else [name for name in columns if name],
        )

        async def make() -> File:
            label_set = await wrap_future(views.label_set())
            return await to_thread(files.export, label_set, what, format, beside, of)

        return await turns.reply(make)

    @router.get("/formats")
    async def formats() -> dict[str, dict[str, str]]:
        """Return the export formats of tables, answers and the model, with their titles."""
        kinds = {"tables": TABLES, "answers": PROGRAMS, "models": MODELS}
        return {kind: {name: form.title for name, form in some.items()} for kind, some in kinds.items()}

    @router.get("/model", responses=problems(409, 429), response_class=Response)
    async def model(format: str = "everylabel") -> Response:
        """Return the model as a file; format: everylabel, skops, onnx, torch or sklearn."""

        async def make() -> File:
            label_set = await wrap_future(views.label_set())
            return await to_thread(files.model, label_set, format)

        return await turns.reply(make)

    return router
