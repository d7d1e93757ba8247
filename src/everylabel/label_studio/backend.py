"""What Label Studio talks to: its contract for machine-learning backends, and its webhooks.

A webhook is answered when what it tells is learned and on disk; if that takes longer than Label Studio
should wait, it goes on after the answer. Label Studio waits a second, and its user waits with it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.access import OnlyLabelStudio
from everylabel.label_studio.annotations import read_annotation
from everylabel.label_studio.connected import Connected
from everylabel.labelling.state.types import Refused

logger = logging.getLogger(__name__)
PATIENCE = 0.025  # seconds after which a webhook is answered, whether or not all is learned
AT_ONCE = 500  # predictions
Json = dict[str, Any]


class _Wrong(EverylabelError):
    """A request that means nothing to us: what to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def make_backend(projects: Mapping[int, Connected], password: str | None = None) -> FastAPI:
    """Return the application of some projects, by their numbers in Label Studio."""
    app = FastAPI(title="everylabel for Label Studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(OnlyLabelStudio, password=password)

    @app.exception_handler(_Wrong)
    async def wrong(_: Request, error: _Wrong) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code)  # such as one that is too large

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status)

    @app.exception_handler(EverylabelError)
    async def failed(_: Request, error: EverylabelError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 503)  # such as a disk that is full: found again later

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
            raise _Wrong(400, f"tasks is {tasks!r:.80}; expected a list of tasks")
        project = _project(projects, body)
        names, results = [str(task.get("id")) for task in tasks], list[Json]()
        for start in range(0, len(names), AT_ONCE):  # others have their turn in between
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
        return await _told(projects, await _body(request))

    return app


async def _told(projects: Mapping[int, Connected], body: Json) -> Json:
    """Take in what a webhook tells."""
    action = body.get("action")
    if action in ("TASKS_CREATED", "TASKS_DELETED") and "project" not in body:  # all of a project's at once
        for each in projects.values():
            each.reconciler.ask(tasks=True)
        return {"status": "asked"}
    project = _project(projects, body)
    if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED"):
        stored = body.get("annotation")
        told = stored if isinstance(stored, list) else [stored]
        control = project.learning.configuration.control
        try:
            annotations = [read_annotation(each, control) for each in told]
        except EverylabelError as error:
            raise _Wrong(400, str(error)) from error
        return await _in_time(project, [project.learning.told(each) for each in annotations])
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
    """Wait for what is being learned as long as Label Studio should wait."""
    futures = [asyncio.wrap_future(each) for each in learning]
    for future in futures:
        future.add_done_callback(lambda done: _after(project, done))
    _, waiting = await asyncio.wait(futures, timeout=PATIENCE)
    if waiting:
        return {"status": "learning"}
    for future in futures:
        future.result()  # one that failed is told
    return {"status": "learned", "news": sum(int(future.result()) for future in futures)}


def _after(project: Connected, done: "asyncio.Future[Any]") -> None:
    if done.cancelled() or done.exception() is not None:
        project.reconciler.ask()  # nothing was learned: it is found there again
    else:
        project.renewal.ask()


def _ids(body: Json, name: str) -> list[int]:
    entries = body.get(name)
    found = entries if isinstance(entries, list) else [None]
    told = [each.get("id") if isinstance(each, dict) else each for each in found]
    numbers = [number for number in told if isinstance(number, int)]
    if len(numbers) < len(told):
        raise _Wrong(400, f"{name} is {entries!r:.80}; expected a list of ids")
    return numbers


async def _body(request: Request) -> Json:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise _Wrong(400, f"the request is no JSON ({error}); expected what Label Studio sends") from error
    if not isinstance(body, dict):
        raise _Wrong(400, f"the request is {body!r:.80}; expected an object")
    return body


def _project(projects: Mapping[int, Connected], body: Json) -> Connected:
    """Return the project that a request is about: an object, or its number and time, 7.1794771916."""
    told = body.get("project")
    number = told.get("id") if isinstance(told, dict) else told
    found = {str(each): each for each in projects}.get(str(number).partition(".")[0])
    if found is None:
        here = ", ".join(map(str, projects))
        raise _Wrong(404, f"project is {number!r:.40}; expected one that everylabel was started for: {here}")
    return projects[found]
