"""Who may talk to the server.

Bound to this machine only (127.0.0.1) nothing is asked, but the Host header must name this machine,
so that no web page can reach the server by a name of its own (DNS rebinding). Bound elsewhere a token
is needed: once in the address, then in a cookie that other sites cannot send, or as a bearer token.
What changes anything must come as JSON, which no form of another site can send (CSRF).
"""

import hmac
import json
import secrets
import time
from collections import OrderedDict
from html import escape
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "everylabel"
LARGEST = 1_000_000  # bytes of a request
RATE, BURST = 50.0, 200.0  # requests a second of one address, and how many may come at once
REMEMBERED = 10_000  # addresses whose rate is kept
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def is_local(host: str) -> bool:
    """Return whether an address is this machine's own, out of others' reach."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def new_token() -> str:
    """Return a token nobody can guess."""
    return secrets.token_urlsafe(24)


class Access:
    """Middleware in front of the application; token=None asks for nothing and answers locally only."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self.app, self.token = app, token
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self.token is not None and _given(scope) is not None:
            await self._let_in(scope, send)
            return
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal, page=scope["path"] == "/")
            return
        await self.app(scope, _limited(receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        """Return why a request is not let through: status, code and message."""
        if self.token is None and not is_local(_host(headers)):
            name = headers.get("host", "")
            return 403, "wrong_host", f"the request is for host {name!r:.80}; expected 127.0.0.1 or localhost"
        if self.token is not None and not self._knows(headers):
            return 401, "no_token", "a token is needed: open the address that the server printed"
        if self.token is not None and not self._in_time(scope):
            return 429, "too_many", f"more than {RATE:.0f} requests a second; wait a little"
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
                return 415, "not_json", "content-type must be application/json"
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc != headers.get("host"):
                return 403, "other_site", f"the request comes from {origin!r:.80}; expected this site"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST:
            return 413, "too_large", f"the request is larger than {LARGEST:,} bytes"
        return None

    def _knows(self, headers: Headers) -> bool:
        """Return whether the request carries the token, compared in constant time."""
        assert self.token is not None
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        cookies = [part.strip().partition("=") for part in headers.get("cookie", "").split(";")]
        given = [value for name, _, value in cookies if name == COOKIE]
        if kind.lower() == "bearer":
            given.append(bearer.strip())
        return any(_same(value, self.token) for value in given)

    def _in_time(self, scope: Scope) -> bool:
        """Return whether this address keeps to its rate (a bucket that fills with time)."""
        client, now = (scope.get("client") or ("",))[0], time.monotonic()
        left, then = self._seen.pop(client, (BURST, now))
        left = min(BURST, left + RATE * (now - then)) - 1.0
        self._seen[client] = (max(left, 0.0), now)
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return left >= 0.0

    async def _let_in(self, scope: Scope, send: Send) -> None:
        """Turn a token in the address into a cookie, and the address into one without it."""
        assert self.token is not None
        if not self._in_time(scope):
            await _refuse(send, 429, "too_many", f"more than {RATE:.0f} requests a second; wait a little")
            return
        if not _same(str(_given(scope)), self.token):
            await _refuse(send, 401, "no_token", "the token is wrong: open the address the server printed")
            return
        cookie = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        rest = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != "token"]
        place = "/" + (f"?{urlencode(rest)}" if rest else "")
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _given(scope: Scope) -> str | None:
    """Return the token in the address, if there is one."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query["token"][0] if "token" in query and scope["method"] == "GET" else None


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _host(headers: Headers) -> str:
    return urlsplit("//" + headers.get("host", "")).hostname or ""


class TooLarge(HTTPException):
    """More bytes came than are allowed, without having been announced."""

    def __init__(self) -> None:
        super().__init__(413, f"the request is larger than {LARGEST:,} bytes")


def _limited(receive: Receive) -> Receive:
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST:
            raise TooLarge()
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped


async def _refuse(send: Send, status: int, code: str, message: str, page: bool = False) -> None:
    """Say why not: to a script as JSON, to a person who opens the page as a sentence."""
    body = json.dumps({"error": {"code": code, "message": message}})
    if page:
        body = f"<!doctype html><title>everylabel</title><p>everylabel: {escape(message)}.</p>"
    media = b"text/html; charset=utf-8" if page else b"application/json"
    headers: list[Any] = [(b"content-type", media)]
    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
