"""Middleware of the server: access control, a clean stop, and error replies {"error": {"code", "message"}}.

A server bound to this machine only (127.0.0.1) needs no token, but the Host header must name this machine,
which prevents DNS rebinding. No other page may show ours in a frame, except a notebook on this machine
whose Python session started the server. A server bound to another address requires a token (one to label,
one read-only). The token comes in the address at first, then in a cookie that other sites cannot send, or as
a bearer token. Wrong tokens are not counted, because a token is too long to be guessed. Tokens in a file can
be changed while the server runs; the next request needs the new ones.
Requests that change anything must be JSON, which a form on another site cannot send (CSRF).
"""

import asyncio
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import URL, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everylabel.core.errors import EverylabelError
from everylabel.labelling.state.types import Refused
from everylabel.log.store import NotKnown, StoreError

COOKIE = "everylabel"
LINK = "/as/"  # followed by a name: the page opened as that person
LARGEST = 1_000_000  # maximal size of a request in bytes
READING = ("GET", "HEAD", "OPTIONS")
ALSO_READING = ("/api/here", "/api/leave", "/api/queues/shown")  # POST requests that change nothing stored
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]*))?")  # none that end a host early
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
POLICY, NOWHERE = "content-security-policy", "frame-ancestors 'none'"
OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")  # names of this machine
# a notebook runs on a server of this machine, or in an editor, whose schemes no web page can have
NOTEBOOKS = " ".join(
    [f"{scheme}://{name}:*" for scheme in ("http", "https") for name in OWN_NAMES]
    + ["vscode-webview:", "vscode-file:"]
)
IN_NOTEBOOKS = HEADERS | {POLICY: HEADERS[POLICY].replace(NOWHERE, f"frame-ancestors {NOTEBOOKS}")}
STOPPING_MESSAGE = (
    "the server is stopping; it is not known whether this was saved: send it again later with the same key, "
    "which counts once"
)
SHORTEST = 20  # characters; a shorter token could be guessed
EXAMPLE = {"error": {"code": "unknown_item", "message": "item is 'x'; expected an id of this project"}}
MEANING = {
    400: "not JSON",
    401: "no token, or a wrong one",
    403: "not allowed: a read-only token, or a request from another site",
    404: "not found",
    409: "not possible in the present state",
    413: "too large",
    415: "not sent as JSON",
    422: "not as described",
    503: "the server is stopping",
    507: "the log, or a file, cannot be written",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {  # error replies of all endpoints, for /openapi.json
    status: {"description": text, "content": {"application/json": {"example": EXAMPLE}}}
    for status, text in MEANING.items()
}
log = logging.getLogger(__name__)


def is_local(host: str) -> bool:
    """Return whether an address is a loopback address, which other machines cannot reach."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def limited(receive: Receive, largest: int) -> Receive:
    """Return a `receive` that raises 413 once the body exceeds `largest` bytes."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > largest:
            raise HTTPException(413, f"the request is larger than {largest:,} bytes")
        return message

    return counted


def new_token() -> str:
    """Return a token of 192 random bits."""
    return secrets.token_urlsafe(24)


def check_token(token: str, name: str = "--token") -> str:
    """Return the user's own token; refuse one that is easy to guess or that some programs cannot send."""
    plain = token.isascii() and token.isprintable() and " " not in token
    if len(token) < SHORTEST or not plain:
        raise EverylabelError(
            f"{name} has {len(token)} characters; expected at least {SHORTEST}, without "
            f"spaces and accents, such as {new_token()}; if you leave it out, one is generated"
        )
    return token


@dataclass
class Tokens:
    """The token for labelling and the read-only token."""

    labels: str
    looks: str | None = None
    file: Path | None = None
    _changed: object = field(default="", repr=False)  # time of the file's last change

    def may(self, given: str) -> str | None:
        """Return the right that a token gives, "label" or "look", or None; compared in constant time."""
        self._renew()
        if _same(given, self.labels):
            return "label"
        return "look" if self.looks is not None and _same(given, self.looks) else None

    def _renew(self) -> None:
        """Read the file again if it has changed; an invalid file changes nothing."""
        if self.file is None:
            return
        try:
            changed = self.file.stat().st_mtime_ns
        except OSError:
            changed = None
        if changed != self._changed:
            self._changed = changed
            try:
                self.labels, self.looks = _read(self.file)
            except EverylabelError as error:
                log.warning("the tokens stay as they were: %s", error)


def tokens_of(token: str | None, look: str | None, file: Path | None, local: bool) -> Tokens | None:
    """Return the tokens that a server requires; None for a local server without tokens."""
    if file is not None:
        if token is not None or look is not None:
            raise EverylabelError("--token-file was given with a token; expected one of them")
        labels, looks = _read(file)
        return Tokens(labels, looks, file)
    if token is None and look is None and local:
        return None
    labels = new_token() if token is None else check_token(token)
    if look is not None and check_token(look, "--look-token") == labels:
        raise EverylabelError("--look-token is the same as --token; expected another")
    return Tokens(labels, look)


def _read(file: Path) -> tuple[str, str | None]:
    """Return the tokens in a file: line 1 for labelling, line 2 (optional) read-only."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise EverylabelError(f"--token-file {str(file)!r} cannot be read ({error})") from error
    if not 1 <= len(lines) <= 2 or len(set(lines)) != len(lines):
        raise EverylabelError(
            f"--token-file {str(file)!r} has {len(lines)} lines of text; expected the token on the first, "
            "and on the second, if there is one, a read-only token"
        )
    checked = [check_token(line, f"--token-file {str(file)!r}: a line") for line in lines]
    return checked[0], checked[1] if len(checked) > 1 else None


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


class Access:
    """Middleware that checks each request; tokens=None requires no token and answers this machine only.

    framed : notebooks of this machine may show the page in a frame
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None = None, framed: bool = False) -> None:
        self.app, self.tokens = app, tokens
        self.headers = IN_NOTEBOOKS if framed else HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, send = Request(scope), _with_headers(send, self.headers)
        answer: ASGIApp = self.app
        try:
            if self.tokens is None:
                check_host(request)
            else:
                self._check_token(request, self.tokens)
            self._check_site(request)
            if self.tokens is not None and (token := _in_address(request)) is not None:
                answer = self._let_in(request, token)
        except Refused as error:
            answer = _to_person(error) if _page(request) else error_reply(error.status, error.code, error)
        await answer(scope, limited(receive, LARGEST), send)

    def _check_token(self, request: Request, tokens: Tokens) -> None:
        """Refuse a request if its token is missing, wrong, or read-only for a change."""
        in_address = _in_address(request)
        given = _brought(request) if in_address is None else in_address
        right = None if given is None else tokens.may(given)
        if right is None:
            what = "the token is wrong" if in_address is not None else "a token is needed"
            raise Refused(401, "no_token", f"{what}: open the address that the server printed")
        request.state.looks = right == "look"
        if right == "look" and request.method not in READING and request.scope["path"] not in ALSO_READING:
            raise Refused(403, "may_only_look", "this token is read-only; use a token for labelling")

    def _check_site(self, request: Request) -> None:
        """Refuse a change that is not sent as JSON, or comes from another site."""
        if request.method in READING:
            return
        check_json(request)
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            message = f"the request comes from {origin!r:.80}; expected this site"
            raise Refused(403, "other_site", message)

    def _let_in(self, request: Request, token: str) -> Response:
        """Return a reply that sets the token in the address as a cookie, and forwards to the page without it.

        A page forwards, not a redirect: a redirect still counts as sent by the site on which the link was
        clicked, and the browser would withhold a SameSite=Strict cookie.
        """
        query = request.scope["query_string"].decode("latin-1")
        place = escape(str(URL(f"{_page(request) or '/'}?{query}").remove_query_params("token")))
        text = (
            f'<!doctype html><title>everylabel</title><meta http-equiv="refresh" content="0; url={place}">'
            f'<p><a href="{place}">Continue to everylabel</a></p>'
        )
        reply = HTMLResponse(text)
        reply.set_cookie(_cookie(request), quote(token, safe=""), httponly=True, samesite="strict")
        return reply


class Stopping:
    """Middleware that answers 503 to requests that the server cancels when it stops."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def watched(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except asyncio.CancelledError:  # only the server cancels, and it ends with this task
            if not began:
                await error_reply(503, "closing", STOPPING_MESSAGE)(scope, receive, send)


def check_host(request: Request) -> None:
    """Refuse a request for a host other than this machine."""
    if not is_local(_host_and_port(request)[0]):
        name = request.headers.get("host", "")
        message = f"the request is for host {name!r:.80}; expected 127.0.0.1 or localhost"
        raise Refused(403, "wrong_host", message)


def check_json(request: Request) -> None:
    """Refuse a request that is not sent as JSON."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Refused(415, "not_json", "content-type must be application/json")


def _page(request: Request) -> str | None:
    """Return the page's path, with the name in a personal link; None if the request is for something else."""
    path: str = request.scope["path"]
    return quote(path) if path == "/" or path.startswith(LINK) else None


def _in_address(request: Request) -> str | None:
    """Return the token in the address, if there is one."""
    return request.query_params.get("token") if request.method == "GET" else None


def _brought(request: Request) -> str | None:
    """Return the token in our cookie or, without one, the bearer token, which may be meant for a proxy."""
    kept = request.cookies.get(_cookie(request))
    if kept is not None:
        return unquote(kept)
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    return bearer.strip() if kind.lower() == "bearer" else None


def _host_and_port(request: Request) -> tuple[str, str | None]:
    """Return name and port of the Host header; ("", None) if it is invalid."""
    found = _HOST.fullmatch(request.headers.get("host", ""))
    return (found[1], found[2]) if found else ("", None)


def _cookie(request: Request) -> str:
    """Return the cookie's name, which includes the port: browsers send the cookies of all ports of a host."""
    own_port = (request.scope.get("server") or ("", 0))[1]
    return f"{COOKIE}-{_host_and_port(request)[1] or own_port or 0}"


def _with_headers(send: Send, added: Mapping[str, str]) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped


def _to_person(error: Refused) -> Response:
    """Return a refusal as a sentence for a person who opens the page."""
    text = f"<!doctype html><title>everylabel</title><p>everylabel: {escape(str(error))}.</p>"
    return HTMLResponse(text, error.status)


def answer_errors(app: FastAPI) -> None:
    """Turn exceptions into JSON error replies."""

    async def reply(_: Request, error: Exception) -> JSONResponse:
        match error:
            case Refused():
                return error_reply(error.status, error.code, error)
            case StoreError():
                return error_reply(507, "unknown" if isinstance(error, NotKnown) else "not_saved", error)
            case EverylabelError():
                return error_reply(422, "bad_request", error)
            case RequestValidationError():
                return error_reply(422, "bad_request", _explained(error.errors()[0]))
            case HTTPException():
                return error_reply(error.status_code, "http", error.detail)
        log.error("a request failed", exc_info=error)
        return error_reply(500, "internal", "an internal error; nothing was lost, try again")

    for kind in (EverylabelError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, reply)


def error_reply(status: int, code: str, message: object) -> JSONResponse:
    """Return an error as all replies have it."""
    return JSONResponse({"error": {"code": code, "message": str(message)}}, status)


def _explained(error: dict[str, Any]) -> str:
    """Return a message that names the invalid field and the expected value."""
    where, *field = error["loc"]
    name = str(field[0]) if field and isinstance(field[0], str) else f"the {where}"
    if len(field) > 1 and isinstance(field[1], int):  # an entry of a list, with its field
        name += "".join([f"[{field[1]}]", *(f".{part}" for part in field[2:3])])
    expected = str(error["msg"]).removeprefix("Value error, ")
    if name == "class" and error["type"] != "missing":
        expected = "expected a class's number or name"
    return f"{name}: {expected}; see /openapi.json for what is expected"
