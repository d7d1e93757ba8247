"""Who may talk to the backend: Label Studio, and nobody else.

On this machine's own address nothing is asked, but the Host header must name this machine and what is sent
must be JSON: no web page can make a browser send that. Elsewhere Label Studio proves itself by a password,
which is made from the token of its API: registering tells it, and the next start of ours knows it again.
"""

import base64
import hashlib
import hmac
import json
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everylabel.web.access import is_local, limited, too_large

USER = "everylabel"
LARGEST = 64_000_000  # bytes of a request: tasks are told with their data


def password_of(token: str, whose: str = "backend") -> str:
    """Return the password of the backend, or of the page, from the token of Label Studio's API."""
    return hmac.new(token.strip().encode(), f"everylabel {whose}".encode(), hashlib.sha256).hexdigest()


def authorization(password: str) -> str:
    """Return the header that carries it."""
    return "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()


class OnlyLabelStudio:
    """Middleware in front of the backend; without a password it answers this machine only."""

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
            await _answer(send, *refusal)

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


async def _answer(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Basic"))
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
