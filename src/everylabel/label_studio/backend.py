"""The HTTP backend for Label Studio: its contract for machine-learning backends, and its webhooks.

A webhook is answered when its content is learned and on disk; if that takes longer than `PATIENCE`, the work
continues after the answer. Label Studio waits up to a second for it, and its user waits with it.

Only Label Studio may use the backend. On a loopback address no password is needed, but the Host header must
name this machine and the body must be JSON: a web page cannot make a browser send that. On other addresses
Label Studio sends a password, derived from its API token: registering stores it there, and the next start
derives the same one.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import read_annotation
from everylabel.label_studio.connected import Connected
from everylabel.labelling.state.types import Refused
from everylabel.web.access import is_local, limited, too_large

USER = "everylabel"
LARGEST = 64_000_000  # bytes of a request: webhooks hold the data of tasks
logger = logging.getLogger(__name__)
PATIENCE = 0.025  # seconds after which a webhook is answered even if not all is learned
AT_ONCE = 500  # predictions per read of the desk
Json = dict[str, Any]


def password_of(token: str, whose: str = "backend") -> str:
    """Derive the password of the backend, or of the page, from Label Studio's API token."""
    return hmac.new(token.strip().encode(), f"everylabel {whose}".encode(), hashlib.sha256).hexdigest()


def authorization(password: str) -> str:
    """Return the Authorization header of a password."""
    return "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()


class OnlyLabelStudio:
    """Middleware that checks password (or, without one, host), content type and size."""

    def __init__(self, app: ASGIApp, password: str | None, largest: int = LARGEST) -> None:
        self.app, self._largest = app, largest
        self._expected = None if password is None else authorization(password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            await self.app(scope, limited(receive, self._largest), send)
        else:
            status, message = refusal
            headers = {"www-authenticate": "Basic"} if status == 401 else None
            await JSONResponse({"error": message}, status, headers)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if self._expected is None:
            name = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
            if not is_local(name):
                return 403, f"the request is for host {name!r:.80}; expected 127.0.0.1 or localhost"
        elif not hmac.compare_digest(headers.get("authorization", "").encode(), self._expected.encode()):
            return 401, "user and password are needed; everylabel label-studio registers them"
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if scope["method"] not in ("GET", "HEAD") and kind != "application/json":
            return 415, "content-type must be application/json"
        wrong = too_large(headers, self._largest)
        return None if wrong is None else (wrong.status, wrong.message)


def make_backend(projects: Mapping[int, Connected], password: str | None = None) -> FastAPI:
    """Return the web application for projects, given by their numbers in Label Studio."""
    app = FastAPI(title="everylabel for Label Studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(OnlyLabelStudio, password=password)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(
            {"error": str(error.detail)}, error.status_code
        )  # such as a request that is too large

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status)

    @app.exception_handler(EverylabelError)
    async def failed(_: Request, error: EverylabelError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 503)  # such as a full disk; the reconciler finds it later

    @app.get("/")
    @app.get("/health")
    async def health() -> Json:
        return {"status": "UP", "model_class": "everylabel"}

    @app.post("/setup")
    async def setup(request: Request) -> Json:
        project = _project(projects, await _body(request))
        return {"model_version": await asyncio.wrap_future(project.predictions.version())}

    @app.get("/versions")
    async def versions() -> Json:
        found = [await asyncio.wrap_future(each.predictions.version()) for each in projects.values()]
        return {"versions": found}

    @app.post("/predict")
    async def predict(request: Request) -> Json:
        body = await _body(request)
        tasks = body.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise Refused(400, "bad_request", f"tasks is {tasks!r:.80}; expected a list of tasks")
        project = _project(projects, body)
        names, results = [str(task.get("id")) for task in tasks], list[Json]()
        for start in range(0, len(names), AT_ONCE):  # other requests run in between
            made: list[Json] = await asyncio.wrap_future(
                project.predictions.of(names[start : start + AT_ONCE])
            )
            results += made
        return {"results": results}

    @app.post("/train")
    async def train(request: Request) -> Json:
        _project(projects, await _body(request)).train()
        return {"status": "training"}

    @app.post("/webhook")
    async def webhook(request: Request) -> Json:
        return await _take_in(projects, await _body(request))

    return app


async def _take_in(projects: Mapping[int, Connected], body: Json) -> Json:
    """Process a webhook."""
    action = body.get("action")
    if (
        action in ("TASKS_CREATED", "TASKS_DELETED") and "project" not in body
    ):  # all tasks of a project at once
        for each in projects.values():
            each.reconciler.ask(tasks=True)
        return {"status": "asked"}
    project = _project(projects, body)
    if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED"):
        stored = body.get("annotation")
        entries = stored if isinstance(stored, list) else [stored]
        control = project.learning.configuration.control
        try:
            annotations = [read_annotation(each, control) for each in entries]
        except EverylabelError as error:
            raise Refused(400, "bad_request", str(error)) from error
        return await _in_time(project, [project.learning.receive(each) for each in annotations])
    if action == "ANNOTATIONS_DELETED":
        return await _in_time(project, [project.learning.deleted(_ids(body, "annotations"))])
    if action == "TASKS_DELETED":
        gone = [str(number) for number in _ids(body, "tasks")]
        reply = await _in_time(project, [project.learning.tasks_gone(gone)])
        project.reconciler.ask(tasks=True)
        return reply
    if action == "TASKS_CREATED":
        project.reconciler.ask()
    elif action == "PROJECT_UPDATED":
        project.configure(str((body.get("project") or {}).get("label_config", "")))
    elif action == "START_TRAINING":
        project.train()
    return {"status": "ok"}


async def _in_time(project: Connected, learning: list[Any]) -> Json:
    """Wait for the desk, up to `PATIENCE` seconds; return the reply."""
    futures = [asyncio.wrap_future(each) for each in learning]
    for future in futures:
        future.add_done_callback(lambda done: _after(project, done))
    _, waiting = await asyncio.wait(futures, timeout=PATIENCE)
    if waiting:
        return {"status": "learning"}
    for future in futures:
        future.result()  # raises if it failed
    return {"status": "learned", "news": sum(int(future.result()) for future in futures)}


def _after(project: Connected, done: "asyncio.Future[Any]") -> None:
    if done.cancelled() or done.exception() is not None:
        project.reconciler.ask()  # nothing was learned: the API still has it
    else:
        project.renewal.ask()


def _ids(body: Json, name: str) -> list[int]:
    entries = body.get(name)
    found = entries if isinstance(entries, list) else [None]
    ids = [each.get("id") if isinstance(each, dict) else each for each in found]
    numbers = [number for number in ids if isinstance(number, int)]
    if len(numbers) < len(ids):
        raise Refused(400, "bad_request", f"{name} is {entries!r:.80}; expected a list of ids")
    return numbers


async def _body(request: Request) -> Json:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise Refused(
            400, "bad_request", f"the request is no JSON ({error}); expected what Label Studio sends"
        ) from error
    if not isinstance(body, dict):
        raise Refused(400, "bad_request", f"the request is {body!r:.80}; expected an object")
    return body


def _project(projects: Mapping[int, Connected], body: Json) -> Connected:
    """Return the project of a request: an object with an id, or the number and time as in 7.1794771916."""
    named = body.get("project")
    number = named.get("id") if isinstance(named, dict) else named
    found = {str(each): each for each in projects}.get(str(number).partition(".")[0])
    if found is None:
        here = ", ".join(map(str, projects))
        raise Refused(
            404,
            "bad_request",
            f"project is {number!r:.40}; expected one that everylabel was started for: {here}",
        )
    return projects[found]
