"""A client of the HTTP API over one connection that is kept open; one a thread."""

import http.client
import json
import uuid
from typing import Any
from urllib.parse import quote, urlsplit

from everylabel.core.errors import EverylabelError

TIMEOUT = 60  # seconds


class Client:
    """Requests to one server. A request whose connection broke is sent again, with its key."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EverylabelError(f"url is {url!r}; expected http://address:port of a running server")
        query = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.url, self.base = url, parts.path.rstrip("/")
        self.token = token or query.get("token")
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT)

    def get(self, path: str, **query: Any) -> Any:
        """Return the reply to a GET."""
        text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        return self._sent("GET", f"{path}?{text}" if text else path, None)

    def post(self, path: str, **body: Any) -> Any:
        """Return the reply to a POST."""
        return self._sent("POST", path, body)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _sent(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"accept": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["content-type"] = "application/json"
        for last in (False, True):
            try:
                self._connection.request(method, self.base + path, data, headers)
                reply = self._connection.getresponse()
                text = reply.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if last:
                    raise EverylabelError(
                        f"the server at {self.url} does not answer ({error or type(error).__name__}); is it "
                        "running, and is the address right?"
                    ) from error
        return _checked(reply.status, text, path)


def new_key() -> str:
    """Return a key that makes a request count once."""
    return uuid.uuid4().hex


def _checked(status: int, text: bytes, path: str) -> Any:
    try:
        reply = json.loads(text)
    except ValueError as error:
        raise EverylabelError(f"{path} gave {status} and no JSON; expected a server of everylabel") from error
    if status >= 400:
        told = reply.get("error", {}) if isinstance(reply, dict) else {}
        raise EverylabelError(f"{path} gave {status} ({told.get('code')}): {told.get('message')}")
    return reply
