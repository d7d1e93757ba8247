"""The HTTP API and the page, over a service; its description is at /openapi.json."""

import asyncio
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everylabel.labelling.service import Service
from everylabel.web.access import LINK, Access, refuse
from everylabel.web.arrivals import Arrivals
from everylabel.web.bodies import answer_errors
from everylabel.web.downloads import Downloads
from everylabel.web.item_view import Shown
from everylabel.web.routes.answers import answers, finishing, people, sending
from everylabel.web.routes.classes import classes
from everylabel.web.routes.downloads import downloads
from everylabel.web.routes.queues import queues
from everylabel.web.routes.reading import reading
from everylabel.web.tokens import Tokens

PAGE = Path(__file__).parent / "page"
PICTURES = "/api/image/"
LEAST = 1024  # bytes; smaller replies are not compressed
LEVEL = 5  # of 9: saves three quarters of the bytes in a fraction of a millisecond
TOLD = (
    "the server is stopping; whether this was saved is not known: send it again later with the same key, "
    "which counts once"
)


def make_app(
    service: Service,
    shown: Shown,
    files: Downloads,
    arrivals: Arrivals | None,
    *,
    tokens: Tokens | None = None,
    guidelines: str = "",
    framed: bool = False,
) -> FastAPI:
    """Return the web application of one project.

    arrivals : accepts texts that other programs send; None if another program owns the items
    guidelines : HTML from `item_view.rendered`
    framed : notebooks of this machine may show the page in a frame
    """
    project = shown.project
    app = FastAPI(title="everylabel", version="1", docs_url=None, redoc_url=None, description=__doc__)
    app.add_middleware(Compressed)
    app.add_middleware(Access, tokens=tokens, framed=framed)  # outermost: checks before all else
    answer_errors(app)
    about = {"project": project.name, "project_id": project.id or project.name, "kind": project.kind}
    about["guidelines"] = guidelines
    app.include_router(answers(service))
    if arrivals is not None:
        app.include_router(sending(arrivals))
    app.include_router(classes(service))
    app.include_router(people(service.views.presence, asks=tokens is not None))
    app.include_router(finishing(service.views))
    app.include_router(queues(service.views, shown))
    app.include_router(reading(service.views, shown, about))
    app.include_router(downloads(service.views, shown, files))
    app.mount("/static", StaticFiles(directory=PAGE), name="static")

    @app.get("/", include_in_schema=False)
    @app.get(f"{LINK}{{name:path}}", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    return app


class Compressed:
    """Middleware that compresses replies, files and the page; pictures are compressed already."""

    def __init__(self, app: ASGIApp) -> None:
        self.plain, self.small = app, GZipMiddleware(app, minimum_size=LEAST, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        as_it_is = scope["type"] != "http" or scope["path"].startswith(PICTURES)
        await (self.plain if as_it_is else self.small)(scope, receive, send)


class Stopping:
    """Middleware that answers 503 to requests that the server cancels when it stops."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except asyncio.CancelledError:  # only the server cancels, and it ends with this task
            if not began:
                await refuse(send, 503, "closing", TOLD)
