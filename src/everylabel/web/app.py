"""The HTTP API and the page, over a service; its description is at /openapi.json."""

import asyncio
import logging
import unicodedata
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, Protocol
from urllib.parse import quote

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from everylabel.core.errors import EverylabelError
from everylabel.labelling.refused import Refused
from everylabel.labelling.service import Service
from everylabel.projects.store import StoreError
from everylabel.web.access import Access

log = logging.getLogger(__name__)
PAGE = Path(__file__).parent / "page"
MAP_POINTS = 5000
SNIPPET = 200


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a whole number, not true or false")
    return value


def _no_control(value: str) -> str:
    """Refuse what some databases cannot hold (NUL) and nobody can read."""
    if any(unicodedata.category(each) == "Cc" for each in value):
        raise ValueError("expected no control characters")
    return value


Person = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64), AfterValidator(_no_control)
]
Id = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_no_control)] | None
Name = Annotated[str, StringConstraints(max_length=1000)]
Whole = Annotated[int, BeforeValidator(_no_bool)]  # JSON's 3.0 is whole, true is not
Numbers = Annotated[Whole, Field(ge=0, le=2**31)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    person: Person = "me"


class NextBody(_Body):
    """Who asks."""


class ItemBody(_Body):
    """An answer about an instance; `key` makes a request that is sent twice count once."""

    item: Id
    key: Key = None


class LabelBody(ItemBody):
    """A class by its number or its name."""

    class_: Numbers | Name = Field(alias="class")


class UndoBody(_Body):
    """`saved` is the number of the event to take back, if it must be that one."""

    saved: Numbers | None = None
    key: Key = None


class ClassBody(_Body):
    """A class to add."""

    name: Name
    key: Key = None


class RenameBody(_Body):
    """A class's new name."""

    name: Name


class SettingsBody(_Body):
    """What to change."""

    strategy: Annotated[str, StringConstraints(max_length=64)] | None = None
    check_every: Annotated[Whole, Field(ge=0, le=1000)] | None = None


class Contents(Protocol):
    """How instances are shown; see `contents.py`."""

    def item(self, i: int) -> dict[str, Any]: ...
    def text(self, i: int) -> str: ...
    def picture(self, i: int) -> tuple[bytes, str]: ...


class Files(Protocol):
    """What can be downloaded; see `downloads.py`."""

    def export(self, snapshot: Any, what: str, form: str) -> Response: ...
    def model(self, snapshot: Any, form: str) -> Response: ...
    def layout(self) -> tuple[np.ndarray, str]: ...


async def _wait(future: "Future[Any]") -> Any:
    return await asyncio.wrap_future(future)


def make_app(
    service: Service,
    contents: Contents,
    files: Files,
    *,
    name: str,
    kind: str,
    project_id: str = "",
    token: str | None = None,
) -> FastAPI:
    """Return the application of one project; its id tells it from others of the same name."""
    app = FastAPI(title="everylabel", version="1", docs_url=None, redoc_url=None, description=__doc__)
    app.add_middleware(Access, token=token)
    _errors(app)
    _answers(app, service)
    _classes(app, service)
    _reading(app, service, contents, {"project": name, "project_id": project_id or name, "kind": kind})
    _downloads(app, service, contents, files)
    app.mount("/static", StaticFiles(directory=PAGE), name="static")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    return app


def _answers(app: FastAPI, service: Service) -> None:
    @app.post("/api/next", responses=_problems())
    async def next_item(body: NextBody) -> dict[str, Any]:
        """Return the person's instance: the one they have, or the best to ask next."""
        return await _wait(service.next(body.person))

    @app.post("/api/label", responses=_problems(404, 409))
    async def label(body: LabelBody) -> dict[str, Any]:
        """Learn a class and return the next instance."""
        return await _wait(service.label(body.person, body.item, body.class_, body.key))

    @app.post("/api/skip", responses=_problems(404, 409))
    async def skip(body: ItemBody) -> dict[str, Any]:
        """Leave an instance for later and return the next."""
        return await _wait(service.skip(body.person, body.item, body.key))

    @app.post("/api/cannot_tell", responses=_problems(404, 409))
    async def cannot_tell(body: ItemBody) -> dict[str, Any]:
        """Note that one cannot tell and return the next instance."""
        return await _wait(service.cannot_tell(body.person, body.item, body.key))

    @app.post("/api/undo", responses=_problems(409))
    async def undo(body: UndoBody) -> dict[str, Any]:
        """Take back the person's last answer and show it again."""
        return await _wait(service.undo(body.person, body.saved, body.key))

    @app.post("/api/jump", responses=_problems(404, 409))
    async def jump(body: ItemBody) -> dict[str, Any]:
        """Give the person this instance, to label it or to label it anew."""
        return await _wait(service.jump(body.person, body.item, body.key))

    @app.patch("/api/settings", responses=_problems())
    async def settings(body: SettingsBody) -> dict[str, Any]:
        """Change the strategy, or how often a random check comes."""
        changes = body.model_dump(exclude={"person"}, exclude_none=True)
        return await _wait(service.change_settings(body.person, changes))


def _classes(app: FastAPI, service: Service) -> None:
    @app.get("/api/classes")
    async def classes() -> dict[str, Any]:
        """Return the classes."""
        return await _wait(service.classes())

    @app.post("/api/classes", responses=_problems(409))
    async def add_class(body: ClassBody) -> dict[str, Any]:
        """Add a class."""
        return await _wait(service.add_class(body.person, body.name, body.key))

    @app.patch("/api/classes/{number}", responses=_problems(409))
    async def rename_class(number: int, body: RenameBody) -> dict[str, Any]:
        """Give a class another name."""
        return await _wait(service.rename_class(body.person, number, body.name))


def _reading(app: FastAPI, service: Service, contents: Contents, about: dict[str, str]) -> None:
    @app.get("/api/health")
    async def health() -> dict[str, bool]:
        """Return ok while the server is up."""
        return {"ok": True}

    @app.get("/api/fingerprint")
    async def fingerprint() -> dict[str, Any]:
        """Return a hash of the whole state; a replay of the log up to this version has the same."""
        return await _wait(service.fingerprint())

    @app.get("/api/session", responses=_problems())
    async def session(person: Person = "me") -> dict[str, Any]:
        """Return what the page needs to begin."""
        return {**about, **await _wait(service.session(person))}

    @app.get("/api/progress", responses=_problems())
    async def progress(person: Person = "me") -> dict[str, Any]:
        """Return how far the labelling is, with the learning curve."""
        return await _wait(service.progress(person))

    @app.get("/api/history", responses=_problems())
    async def history(
        person: Annotated[str, Query(max_length=64), AfterValidator(_no_control)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: int | None = None,
    ) -> dict[str, Any]:
        """Return answers, the latest first."""
        events = await _wait(service.history(person, limit, before))
        for event in events:
            event |= _glance(event["item"], service.position(event["item"]), contents)
        return {"events": events}

    @app.get("/api/disputed", responses=_problems())
    async def disputed(limit: Annotated[int, Query(ge=1, le=500)] = 100) -> dict[str, Any]:
        """Return instances on which no class has most voices, the latest first, with all answers."""
        items = await _wait(service.disputed(limit))
        for found in items:
            found |= _glance(found["item"], service.position(found["item"]), contents)
        return {"items": items}

    @app.get("/api/search", responses=_problems())
    async def search(
        q: Annotated[str, Query(max_length=200)] = "", limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> dict[str, Any]:
        """Return instances whose id or text holds the words."""
        found = await asyncio.to_thread(_search, service.desk.ids, contents, q, limit)
        states = await _wait(service.states(found))
        ids = service.desk.ids
        items = [
            {"id": ids[i], **_glance(ids[i], i, contents), **state}
            for i, state in zip(found, states, strict=True)
        ]
        return {"items": items}

    @app.get("/api/items/{item:path}", responses=_problems(404))
    async def one_item(item: str) -> dict[str, Any]:
        """Return all that is known of one instance."""
        return await _wait(service.item(item))

    @app.get("/api/predictions", responses=_problems())
    async def predictions(
        offset: Annotated[int, Query(ge=0, le=2**40)] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> dict[str, Any]:
        """Return class probabilities of instances that have no label."""
        snapshot = await _wait(service.snapshot())
        left = np.setdiff1d(np.arange(len(service.desk.ids)), list(snapshot.labels))
        some = left[offset : offset + limit]
        probs = snapshot.probabilities(some)[:, : len(snapshot.classes)]
        ids = [service.desk.ids[i] for i in some]
        shown = {"ids": ids, "classes": snapshot.classes, "probabilities": probs.round(6).tolist()}
        return {**shown, "total": len(left)}


def _downloads(app: FastAPI, service: Service, contents: Contents, files: Files) -> None:
    @app.get("/api/image/{item:path}", responses=_problems(404), response_class=Response)
    async def image(item: str) -> Response:
        """Return an instance's image."""
        i = service.position(item)
        try:
            body, media = await asyncio.to_thread(contents.picture, i)
        except EverylabelError as error:
            raise Refused(404, "no_image", str(error)) from error
        return Response(body, media_type=media, headers={"cache-control": "private, max-age=3600"})

    @app.get("/api/map", responses=_problems())
    async def scatter() -> dict[str, Any]:
        """Return the pool in two dimensions: all labelled, and a sample of the others."""
        places, method = await asyncio.to_thread(files.layout)
        snapshot = await _wait(service.snapshot())
        known = sorted(snapshot.labels)[:MAP_POINTS]
        others = np.setdiff1d(np.arange(len(places)), known)
        rng = np.random.default_rng(0)
        some = rng.permutation(others)[: MAP_POINTS - len(known)]
        idx = np.sort(np.r_[np.asarray(known, dtype=int), some])
        known_guess = [snapshot.labels and i not in snapshot.checked for i in idx.tolist()]
        pairs = zip(snapshot.guesses[idx].tolist(), known_guess, strict=True)
        guesses = [guess if told else None for guess, told in pairs]
        return {
            "method": method,
            "ids": [service.desk.ids[i] for i in idx],
            "x": places[idx, 0].round(4).tolist(),
            "y": places[idx, 1].round(4).tolist(),
            "guess": guesses,
            "label": [snapshot.labels.get(int(i)) for i in idx],
        }

    @app.get("/api/export", responses=_problems(), response_class=Response)
    async def export(what: str = "labels", format: str = "csv") -> Response:
        """Return labels, answers or predictions as a file: csv, jsonl, parquet, labelstudio."""
        snapshot = await _wait(service.snapshot())
        return await asyncio.to_thread(files.export, snapshot, what, format)

    @app.get("/api/model", responses=_problems(409), response_class=Response)
    async def model(format: str = "everylabel") -> Response:
        """Return the model as a file: everylabel, skops, onnx, torch."""
        snapshot = await _wait(service.snapshot())
        return await asyncio.to_thread(files.model, snapshot, format)


def _glance(item: str, i: int, contents: Contents) -> dict[str, Any]:
    shown = contents.item(i)
    text = contents.text(i)
    return {"text": text[:SNIPPET] or None, "image": image_url(item) if shown.get("image") else None}


def image_url(item: str) -> str:
    """Return where an instance's image is."""
    return f"/api/image/{quote(item, safe='')}"


def _search(ids: Any, contents: Contents, words: str, limit: int) -> list[int]:
    wanted, found = words.casefold().split(), []
    for i in range(len(ids)):
        text = f"{ids[i]} {contents.text(i)}".casefold()
        if all(word in text for word in wanted):
            found.append(i)
            if len(found) == limit:
                break
    return found


def _problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of replies that are errors."""
    example = {"error": {"code": "unknown_item", "message": "item is 'x'; expected an id of this project"}}
    content = {"application/json": {"example": example}}
    statuses = sorted({400, 413, 415, 422, 507, *more})
    return {status: {"description": _MEANING[status], "content": content} for status in statuses}


_MEANING = {
    400: "not JSON",
    404: "there is no such thing",
    409: "not as things are",
    413: "too large",
    415: "not sent as JSON",
    422: "not as described",
    507: "the log cannot be written",
}


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _told(error: dict[str, Any]) -> str:
    """Return what is wrong with a request: the field, and what is expected of it."""
    where, *field = error["loc"]
    name = str(field[0]) if field and isinstance(field[0], str) else f"the {where}"
    expected = str(error["msg"]).removeprefix("Value error, ")
    if name == "class" and error["type"] != "missing":
        expected = "expected a class's number or name"
    return f"{name}: {expected}; see /openapi.json for what is expected"


def _errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        return _error(error.status, error.code, str(error))

    async def not_saved(_: Request, error: Exception) -> JSONResponse:
        return _error(507, "not_saved", str(error))

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        return _error(422, "bad_request", str(error))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return _error(422, "bad_request", _told(error.errors()[0]))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return _error(error.status_code, "http", str(error.detail))

    async def failed(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=error)
        return _error(500, "internal", "something went wrong here; nothing was lost, try again")

    handlers: dict[Any, Any] = {
        Refused: refused, StoreError: not_saved, EverylabelError: wrong, RequestValidationError: invalid,
        HTTPException: http, Exception: failed,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
