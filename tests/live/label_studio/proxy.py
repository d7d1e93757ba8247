"""A proxy between Label Studio and our backend that times every request and may act before it."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Seen(NamedTuple):
    """One request of Label Studio's: what for, and how long it waited; status 0 is nobody there."""

    path: str
    action: str
    seconds: float
    status: int


class Proxy:
    """Listens on a port of its own and passes everything on to another."""

    def __init__(self, to: int) -> None:
        self.seen: list[Seen] = []
        self.first: Callable[[str], None] = lambda action: None  # called before a webhook is passed on
        self._to = to
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def webhooks(self) -> list[float]:
        """Return the seconds that answered webhooks about annotations took."""
        return [one.seconds for one in self.seen if one.action.startswith("ANNOTATION") and one.status == 200]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, content = proxy.passed_on(self.command, self.path, body)
                with contextlib.suppress(OSError):
                    self.send_response(status or 502)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def passed_on(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        action = str(json.loads(body).get("action")) if path == "/webhook" else ""
        if action:
            self.first(action)
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._to, timeout=120)
        try:
            connection.request(method, path, body or None, {"content-type": "application/json"})
            reply = connection.getresponse()
            status, content = reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            status, content = 0, b"{}"
        finally:
            connection.close()
        self.seen.append(Seen(path, action, time.perf_counter() - began, status))
        return status, content
