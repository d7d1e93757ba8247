"""Too large and invalid requests to the backend: real sockets, a real server."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from everylabel.label_studio.backend import OnlyLabelStudio, make_backend
from everylabel.web.server import server_config
from tests.web.servers import served

HEAD = b"POST /webhook HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKS = b"transfer-encoding: chunked\r\n"


@contextmanager
def server(largest: int) -> Iterator[int]:
    """Yield the port of an application that reads requests up to a limit."""
    app = FastAPI()

    @app.post("/webhook")
    async def size(request: Request) -> int:
        return len(await request.body())

    with served(server_config(OnlyLabelStudio(app, None, largest))) as port:
        yield port


def status(port: int, says: bytes) -> int:
    """Return the status of the reply to a raw request."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as made:
        made.sendall(says)
        return int(made.recv(1000).split(b" ")[1])


def test_too_large_request_is_refused() -> None:
    chunk = b"320\r\n" + b"x" * 800 + b"\r\n"
    with server(1000) as port:
        assert status(port, HEAD + CHUNKS + b"\r\n" + chunk + b"0\r\n\r\n") == 200
        assert status(port, HEAD + CHUNKS + b"\r\n" + chunk + chunk) == 413
        assert status(port, HEAD + b"content-length: 1001\r\n\r\n" + b"x" * 1001) == 413


@pytest.mark.parametrize("project", ["²", "9" * 5000, "٣", "-7", "", None, [], 7.5, True])
def test_unknown_project_is_refused(project: object) -> None:
    client = TestClient(make_backend({}), "http://localhost", raise_server_exceptions=False)
    reply = client.post("/webhook", json={"action": "START_TRAINING", "project": project})
    assert reply.status_code == 404
    assert "expected one that everylabel was started for" in reply.json()["error"]["message"]
