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
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import read_annotation
from everylabel.label_studio.connected import Connected
from everylabel.labelling.state.types import Refused
from everylabel.web.access import READING, answer_errors, check_host, check_json, error_reply, limited

USER = "everylabel"
LARGEST = 64_000_000  # bytes of a request: webhooks hold the data of tasks
PATIENCE = 0.025  # seconds after which a webhook is answered even if not all is learned
Json = dict[str, Any]
Named = Annotated[Any, Body(embed=True)]  # a field of the request


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
        answer = self.app
        try:
            self._check(Request(scope))
        except Refused as error:
            answer = error_reply(error.status, error.code, error)
        await answer(scope, limited(receive, self._largest), send)

    def _check(self, request: Request) -> None:
        if self._expected is None:
            check_host(request)
        elif not hmac.compare_digest(
            request.headers.get("authorization", "").encode(), self._expected.encode()
        ):
            message = "user and password are needed; everylabel label-studio registers them"
            raise Refused(401, "no_password", message)
        if request.method not in READING:
            check_json(request)


def make_backend(projects: Mapping[int, Connected], password: str | None = None) -> FastAPI:
    """Return the web application for projects, given by their numbers in Label Studio."""
    app = FastAPI(title="everylabel for Label Studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(OnlyLabelStudio, password=password)
    answer_errors(app)

    @app.get("/")
    @app.get("/health")
    async def health() -> Json:
        return {"status": "UP", "model_class": "everylabel"}

    @app.post("/setup")
    async def setup(project: Named = None) -> Json:
        return {"model_version": await asyncio.wrap_future(_named(projects, project).predictions.version())}

    @app.get("/versions")
    async def versions() -> Json:
        found = [await asyncio.wrap_future(each.predictions.version()) for each in projects.values()]
        return {"versions": found}

    @app.post("/predict")
    async def predict(tasks: Annotated[list[Json], Body()], project: Named = None) -> Json:
        predictions = _named(projects, project).predictions
        return {"results": await asyncio.wrap_future(predictions.of([str(task.get("id")) for task in tasks]))}

    @app.post("/train")
    async def train(project: Named = None) -> Json:
        _named(projects, project).train()
        return {"status": "training"}

    @app.post("/webhook")
    async def webhook(body: Json) -> Json:
        return await _take_in(projects, body)

    return app


async def _take_in(projects: Mapping[int, Connected], body: Json) -> Json:
    """Process a webhook."""
    action = body.get("action")
    if action in ("TASKS_CREATED", "TASKS_DELETED") and "project" not in body:  # all of a project at once
        for each in projects.values():
            each.reconciler.ask()
        return {"status": "asked"}
    project = _named(projects, body.get("project"))
    if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED"):
        stored = body.get("annotation")
        entries = stored if isinstance(stored, list) else [stored]
        control = project.learning.configuration.control
        annotations = [read_annotation(each, control) for each in entries]
        return await _in_time(project, [project.learning.receive(each) for each in annotations])
    if action == "ANNOTATIONS_DELETED":
        return await _in_time(project, [project.learning.deleted(_ids(body, "annotations"))])
    if action == "TASKS_DELETED":
        gone = [str(number) for number in _ids(body, "tasks")]
        reply = await _in_time(project, [project.learning.tasks_gone(gone)])
        project.reconciler.ask()
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
    return {"status": "learned"}


def _after(project: Connected, done: "asyncio.Future[Any]") -> None:
    if done.cancelled() or done.exception() is not None:
        project.reconciler.ask()  # nothing was learned: the API still has it
    else:
        project.renewal.ask()


def _ids(body: Json, name: str) -> list[int]:
    try:
        return [int(each["id"]) for each in body[name]]
    except (KeyError, TypeError, ValueError) as error:
        raise EverylabelError(f"{name} is {body.get(name)!r:.80}; expected a list of ids") from error


def _named(projects: Mapping[int, Connected], named: Any) -> Connected:
    """Return the project that a request names: by an object with an id, a number, or as in 7.1794771916."""
    number = named.get("id") if isinstance(named, dict) else named
    found = {str(each): each for each in projects}.get(str(number).partition(".")[0])
    if found is None:
        message = f"project is {number!r:.40}; expected one that everylabel was started for: "
        raise Refused(404, "unknown_project", message + ", ".join(map(str, projects)))
    return projects[found]
