"""Middleware: access control, which decides which requests the server answers; compression; a clean stop.
Error replies: an invalid request gets {"error": {"code", "message"}}.

A server bound to this machine only (127.0.0.1) needs no token, but the Host header must name this machine,
which prevents DNS rebinding. No other page may show ours in a frame, except a notebook on this machine
whose Python session started the server. Bound to another address, the server requires a token
(one to label, one read-only): first in the address, then in a cookie that other sites cannot send, or as a
bearer token. Tokens in a file can be changed while the server runs: they apply from the next request on.
Requests that change anything must be JSON, which a form on another site cannot send (CSRF).
"""

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from ipaddress import IPv6Address, ip_address
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everylabel.core.errors import EverylabelError
from everylabel.labelling.state.types import Refused
from everylabel.log.store import StoreError

AGAIN = 10  # seconds after which a client may retry when the server is busy
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
COOKIE = "everylabel"
FLAGS = "Path=/; HttpOnly; SameSite=Strict"
LINK = "/as/"  # followed by a name: the page opened as that person
LARGEST = 1_000_000  # maximal size of a request in bytes
LOOKS = "looks"  # key in a request's state: true for a read-only token
READING = ("GET", "HEAD", "OPTIONS")
ALSO_READING = ("/api/here", "/api/leave", "/api/queues/shown")  # POST requests that change nothing stored
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")  # no characters that end a host early
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
PICTURES = "/api/image/"
LEAST = 1024  # bytes; smaller replies are not compressed
LEVEL = 5  # compression, of 9 levels: saves three quarters of the bytes in a fraction of a millisecond
STOPPING_MESSAGE = (
    "the server is stopping; it is not known whether this was saved: send it again later with the same key, "
    "which counts once"
)
SHORTEST = 20  # characters; a shorter token could be guessed
LARGEST_FILE = 10_000  # bytes of a token file
WRONG, LOCKED = 20, 60.0  # wrong tokens before an address is locked out, and for how many seconds
REMEMBERED = 10_000  # maximum number of addresses with wrong tokens, and with valid ones
log = logging.getLogger(__name__)


def is_local(host: str) -> bool:
    """Return whether an address is a loopback address, which other machines cannot reach."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Refusal(NamedTuple):
    """The reason for refusing a request; again : seconds after which the client may retry."""

    status: int
    code: str
    message: str
    again: int | None = None


def too_large(headers: Headers, largest: int) -> Refusal | None:
    """Return a refusal if the headers announce a body that is too large or give two lengths, else None."""
    if "content-length" in headers and "transfer-encoding" in headers:
        message = "content-length and transfer-encoding came together; expected one"
        return Refusal(400, "two_lengths", message)
    length = headers.get("content-length", "0")
    try:
        fits = 0 <= int(length) <= largest
    except ValueError:
        fits = False
    message = f"content-length is {length!r:.20}; expected at most {largest:,} bytes"
    return None if fits else Refusal(413, "too_large", message)


def limited(receive: Receive, largest: int) -> Receive:
    """Return a `receive` that raises 413 once the body exceeds `largest` bytes, whatever its headers say."""
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
    _seen: object = field(default=None, repr=False)
    _wrong: str = field(default="", repr=False)

    def may(self, given: str) -> str | None:
        """Return the right that a token gives, "label" or "look", or None; compared in constant time."""
        self._renew()
        found = [
            what for what, token in (("label", self.labels), ("look", self.looks)) if _same(given, token)
        ]
        return found[0] if found else None

    def _renew(self) -> None:
        """Read the file again if it has changed; an invalid file changes nothing."""
        if self.file is None:
            return
        try:
            now = self.file.stat()
            seen = now.st_mtime_ns, now.st_size, now.st_ino
            if seen != self._seen:
                self._seen = seen
                self.labels, self.looks = _read(self.file)
                self._wrong = ""
        except (OSError, EverylabelError) as error:
            if str(error) != self._wrong:  # runs on each request: log the same problem once
                self._wrong = str(error)
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
        if file.exists() and (not file.is_file() or file.stat().st_size > LARGEST_FILE):
            raise EverylabelError(
                f"--token-file {str(file)!r} is no small file; expected a line or two of text"
            )
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


def _same(given: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


class Guesses:
    """Distinct wrong tokens by address: an outdated token that a browser repeats counts once.

    An address that has sent a valid token is never locked out, since several people may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: dict[str, tuple[float, set[int]]] = {}  # -> time of the first, hashes of all
        self._right: dict[str, None] = {}

    def pause(self, address: str) -> int:
        """Return the seconds for which an address is still locked out; 0 if it is not."""
        place = _network(address)
        at, tokens = self._wrong.get(place, (0.0, ()))
        locked = len(tokens) >= WRONG and place not in self._right
        return max(0, ceil(at + LOCKED - self._clock())) if locked else 0

    def wrong(self, address: str, token: str) -> None:
        """Count a wrong token."""
        place, now = _network(address), self._clock()
        at, tokens = self._wrong.pop(place, (now, set[int]()))
        at, tokens = (at, tokens) if now - at < LOCKED else (now, set())
        if len(tokens) < WRONG:
            tokens.add(hash(token))
        self._wrong[place] = at, tokens
        _forget(self._wrong)

    def right(self, address: str) -> None:
        """Record that an address has sent a valid token."""
        self._right[_network(address)] = None
        _forget(self._right)


def _network(address: str) -> str:
    """Return an IPv4 address itself, or an IPv6 address's /64 network, in which one machine may have many."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or found.exploded[:19])  # dual-stack: ::ffff:192.0.2.7
    return address


def _forget(known: dict[str, Any]) -> None:
    if len(known) > REMEMBERED:
        del known[next(iter(known))]


class Access:
    """Middleware that checks each request; tokens=None requires no token and answers this machine only.

    framed : notebooks of this machine may show the page in a frame
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None = None, framed: bool = False) -> None:
        self.app, self.tokens, self.guesses = app, tokens, Guesses()
        self.headers = IN_NOTEBOOKS if framed else HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._stranger(scope, headers) or self._refusal(scope, headers)
        if refusal is not None:
            await refused(refusal, page=_page(scope) is not None)(scope, receive, send)
        elif self.tokens is not None and (token := _in_address(scope)) is not None:
            await self._let_in(scope, headers, token)(scope, receive, send)
        else:
            await self.app(scope, limited(receive, LARGEST), _with_headers(send, self.headers))

    def _stranger(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Return a refusal if the request has a foreign host or lacks a valid token, else None."""
        if self.tokens is None:
            if is_local(_host(headers)):
                return None
            name = headers.get("host", "")
            message = f"the request is for host {name!r:.80}; expected 127.0.0.1 or localhost"
            return Refusal(403, "wrong_host", message)
        return self._without_token(self.tokens, scope, headers)

    def _without_token(self, tokens: Tokens, scope: Scope, headers: Headers) -> Refusal | None:
        """Return a refusal if the token is missing, wrong, or read-only for a change; else None."""
        in_address, address = _in_address(scope), (scope.get("client") or ("", 0))[0]
        given = _brought(scope, headers) if in_address is None else in_address
        pause = 0 if given is None else self.guesses.pause(address)
        if pause:
            message = f"too many wrong tokens came from here; wait {pause} seconds"
            return Refusal(429, "too_many_guesses", message, pause)
        right = None if given is None else tokens.may(given)
        if right is not None:
            self.guesses.right(address)
            scope.setdefault("state", {})[LOOKS] = right != "label"
            if right == "label" or scope["method"] in READING or scope["path"] in ALSO_READING:
                return None
            return Refusal(403, "may_only_look", "this token is read-only; use a token for labelling")
        if given is not None:
            self.guesses.wrong(address, given)
        what = "the token is wrong" if in_address is not None else "a token is needed"
        return Refusal(401, "no_token", f"{what}: open the address that the server printed")

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Return a refusal if the request is not JSON, comes from another site or is too large, else None."""
        if scope["method"] not in READING:
            if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
                return Refusal(415, "not_json", "content-type must be application/json")
            origin = headers.get("origin")
            if origin is not None and _place(origin) != headers.get("host"):
                message = f"the request comes from {origin!r:.80}; expected this site"
                return Refusal(403, "other_site", message)
        return too_large(headers, LARGEST)

    def _let_in(self, scope: Scope, headers: Headers, token: str) -> Response:
        """Return a reply that sets the token in the address as a cookie, and forwards to the page without it.

        A page forwards, not a redirect: a redirect still counts as sent by the site on which the link was
        clicked, and the browser would withhold a SameSite=Strict cookie.
        """
        cookie = f"{_cookie(scope, headers)}={quote(token, safe='')}; {FLAGS}"
        rest = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != "token"]
        place = escape((_page(scope) or "/") + (f"?{urlencode(rest)}" if rest else ""))
        text = (
            f'<!doctype html><title>everylabel</title><meta http-equiv="refresh" content="0; url={place}">'
            f'<p><a href="{place}">Continue to everylabel</a></p>'
        )
        return HTMLResponse(text, headers={**HEADERS, "set-cookie": cookie})


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

        async def watched(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except asyncio.CancelledError:  # only the server cancels, and it ends with this task
            if not began:
                await refused(Refusal(503, "closing", STOPPING_MESSAGE))(scope, receive, send)


def _page(scope: Scope) -> str | None:
    """Return the page's path, with the name in a personal link; None if the request is for something else."""
    path: str = scope["path"]
    return quote(path) if path == "/" or path.startswith(LINK) else None


def _in_address(scope: Scope) -> str | None:
    """Return the token in the address, if there is one."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query["token"][0] if "token" in query and scope["method"] == "GET" else None


def _brought(scope: Scope, headers: Headers) -> str | None:
    """Return the token in our cookie or, without one, the bearer token; only one, so that it is one guess.

    The cookie comes first: the bearer token may be meant for a proxy.
    """
    kept = _kept(headers, _cookie(scope, headers))
    if kept is not None:
        return kept
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    return bearer.strip() if kind.lower() == "bearer" else None


def _kept(headers: Headers, own: str) -> str | None:
    """Return the value of the first cookie named `own`, or None."""
    cookies = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return next((unquote(value) for name, _, value in cookies if name == own), None)


def _host(headers: Headers) -> str:
    name = _HOST.fullmatch(headers.get("host", ""))
    return name[1] if name else ""


def _place(origin: str) -> str | None:
    """Return host and port of an origin; None if it cannot be parsed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _cookie(scope: Scope, headers: Headers) -> str:
    """Return the cookie's name, which includes the port: browsers send the cookies of all ports of a host."""
    try:
        port = urlsplit("//" + headers.get("host", "")).port
    except ValueError:
        port = None
    return f"{COOKIE}-{port or (scope.get('server') or ('', 0))[1] or 0}"


def _with_headers(send: Send, added: Mapping[str, str]) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped


def refused(refusal: Refusal, page: bool = False) -> Response:
    """Return a refusal as a reply: JSON for scripts, a sentence for a person who opens the page."""
    headers = HEADERS if refusal.again is None else HEADERS | {"retry-after": str(refusal.again)}
    if page:
        text = f"<!doctype html><title>everylabel</title><p>everylabel: {escape(refusal.message)}.</p>"
        return HTMLResponse(text, refusal.status, headers)
    error = {"code": refusal.code, "message": refusal.message}
    return JSONResponse({"error": error}, refusal.status, headers)


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
    if len(field) > 1 and isinstance(field[1], int):  # an entry of a list, with its field
        name += "".join([f"[{field[1]}]", *(f".{part}" for part in field[2:3])])
    expected = str(error["msg"]).removeprefix("Value error, ")
    if name == "class" and error["type"] != "missing":
        expected = "expected a class's number or name"
    return f"{name}: {expected}; see /openapi.json for what is expected"
