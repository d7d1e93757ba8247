"""A client of Label Studio's HTTP API: projects, tasks, annotations, predictions and webhooks.

A request is repeated a few times if the connection breaks or the server is busy. Both kinds of token work:
a legacy token is sent as it is, a personal access token (a JWT) is exchanged for a short-lived one.
"""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from everylabel.core.errors import EverylabelError

TIMEOUT = 60.0  # seconds
PAUSES = (0.5, 1.0, None)  # seconds after a failed attempt; the last one counts
BUSY = (429, 502, 503, 504)  # refusals that may pass
PAGE = 1000  # tasks per request
Json = dict[str, Any]


class ApiError(EverylabelError):
    """Label Studio refused a request, or does not answer (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """A client of one server; threads may share it."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EverylabelError(f"--url is {url!r}; expected http://address:port of a running Label Studio")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._parts, self._base = parts, parts.path.rstrip("/")
        self._token, self._is_jwt = token.strip(), token.count(".") == 2
        self._access = ""  # the short-lived token of a JWT

    def project(self, number: int) -> Json:
        """Return a project with its labelling configuration and counts."""
        return self.get(f"/api/projects/{number}/")

    def tasks(self, project: int, after: int = 0) -> Iterator[Json]:
        """Yield the tasks with numbers above `after`, with their data, without annotations."""
        newer = {"filter": "filter:tasks:id", "operator": "greater", "type": "Number", "value": after}
        which: Json = {"project": project, "fields": "task_only", "include": "id,data", "page_size": PAGE}
        if after:
            which["query"] = json.dumps({"filters": {"conjunction": "and", "items": [newer]}})
        page, seen, total = 1, 0, 1
        while seen < total:
            try:
                reply = self.get("/api/tasks/", **which, page=page)
            except ApiError as error:
                if error.status == 404 and page > 1:  # tasks were deleted meanwhile
                    return
                raise
            some, total = reply["tasks"], int(reply["total"])
            if not some:
                return
            yield from some
            seen, page = seen + len(some), page + 1

    def annotated(self, project: int) -> list[Json]:
        """Return all tasks that have annotations (also skipped ones), with their annotations."""
        return self.get(f"/api/projects/{project}/export", exportType="JSON")

    def predictions(self, project: int) -> list[Json]:
        return self.get("/api/predictions/", project=project)

    def get(self, path: str, **query: Any) -> Any:
        """Return the reply to a GET."""
        return self.send("GET", f"{path}?{urlencode(query)}" if query else path)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Return the reply to a request; raise ApiError if it is refused or not answered."""
        data = None if body is None else json.dumps(body).encode()
        status, text = self._answered(method, self._base + path, data)
        if status >= 400:
            raise ApiError(status, _refusal(status, f"{method} {path}", text, self._is_jwt))
        try:
            return json.loads(text) if text.strip() else None
        except ValueError as error:
            raise ApiError(
                status, f"{method} {path} of {self.url} did not return JSON; is --url right?"
            ) from error

    def file(self, path: str) -> bytes:
        """Return a file of the server, such as an uploaded image."""
        status, content = self._answered("GET", self._base + quote(path, safe="/?&=%+:"), None)
        if status >= 400:
            raise ApiError(status, f"GET {path} of {self.url} gave {status}")
        return content

    def _answered(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        for pause in PAUSES:
            try:
                status, content = self._once(method, path, data)
                if status not in BUSY or pause is None:
                    return status, content
            except (OSError, http.client.HTTPException) as error:
                if pause is None:
                    why = str(error) or type(error).__name__
                    message = f"Label Studio at {self.url} does not answer ({why}); is it running?"
                    raise ApiError(0, message) from error
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        headers = {"accept": "*/*", "authorization": self._authorization()}
        if data is not None:
            headers["content-type"] = "application/json"
        status, content = self._exchange(method, path, data, headers)
        if status == 401 and self._access:  # it expires within minutes
            self._access = ""
            headers["authorization"] = self._authorization()
            status, content = self._exchange(method, path, data, headers)
        return status, content

    def _exchange(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Send a request on a new connection; return status and content."""
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        with closing(kind(self._parts.hostname or "", self._parts.port, timeout=TIMEOUT)) as connection:
            connection.request(method, path, data, dict(headers))
            reply = connection.getresponse()
            return reply.status, reply.read()

    def _authorization(self) -> str:
        if not self._is_jwt:
            return f"Token {self._token}"
        if not self._access:
            data = json.dumps({"refresh": self._token}).encode()
            path, headers = f"{self._base}/api/token/refresh/", {"content-type": "application/json"}
            status, text = self._exchange("POST", path, data, headers)
            if status >= 400:
                raise ApiError(status, _refusal(status, "POST /api/token/refresh/", text, True))
            self._access = str(json.loads(text)["access"])
        return f"Bearer {self._access}"


def _refusal(status: int, what: str, text: bytes, is_jwt: bool) -> str:
    says = " ".join(text.decode(errors="replace").split())[:300]
    if status in (401, 403):
        kind = "personal access token" if is_jwt else "legacy token"
        return (
            f"{what} gave {status} ({says}): --token was sent as a {kind}; expected one of Account & "
            "Settings that is enabled for the organization, of a user who may change the project"
        )
    return f"{what} gave {status}: {says}"
