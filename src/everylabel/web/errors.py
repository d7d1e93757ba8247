"""Error replies of the HTTP API: an invalid request gets {"error": {"code", "message"}}."""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from everylabel.core.errors import EverylabelError
from everylabel.labelling.state.types import Refused
from everylabel.log.store import StoreError

AGAIN = 10  # seconds after which a client may retry when the server is busy
log = logging.getLogger(__name__)
_MEANING = {
    400: "not JSON",
    404: "not found",
    409: "not possible in the present state",
    413: "too large",
    415: "not sent as JSON",
    422: "not as described",
    429: "too many at once: try again after the seconds of Retry-After",
    503: "the server is stopping, or the features file is truncated",
    507: "the log, or a file, cannot be written",
}


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of error replies: the usual statuses and `more`."""
    example = {"error": {"code": "unknown_item", "message": "item is 'x'; expected an id of this project"}}
    content = {"application/json": {"example": example}}
    statuses = sorted({400, 413, 415, 422, 503, 507, *more})
    return {status: {"description": _MEANING[status], "content": content} for status in statuses}


def answer_errors(app: FastAPI) -> None:
    """Register handlers that turn exceptions into JSON error replies."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        reply = _error(error.status, error.code, str(error))
        if error.status == 429:
            reply.headers["retry-after"] = str(AGAIN)
        return reply

    async def not_saved(_: Request, error: Exception) -> JSONResponse:
        return _error(507, "not_saved", str(error))

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        return _error(422, "bad_request", str(error))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return _error(422, "bad_request", _explained(error.errors()[0]))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return _error(error.status_code, "http", str(error.detail))

    async def failed(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=error)
        return _error(500, "internal", "an internal error; nothing was lost, try again")

    handlers: dict[Any, Any] = {
        Refused: refused, StoreError: not_saved, EverylabelError: wrong, RequestValidationError: invalid,
        HTTPException: http, Exception: failed,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _explained(error: dict[str, Any]) -> str:
    """Return a message that names the invalid field and the expected value."""
    where, *field = error["loc"]
    name = str(field[0]) if field and isinstance(field[0], str) else f"the {where}"
    expected = str(error["msg"]).removeprefix("Value error, ")
    if name == "class" and error["type"] != "missing":
        expected = "expected a class's number or name"
    return f"{name}: {expected}; see /openapi.json for what is expected"
