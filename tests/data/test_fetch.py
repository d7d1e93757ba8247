"""Downloads from a server on this machine: whole, interrupted, wrong, out of reach."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import everylabel as el
from everylabel.data.datasets.fetch import fetch

CONTENT = bytes(range(256)) * 8000


class Server:
    """The files of a test server, its behaviour, and the requests it got."""

    def __init__(self) -> None:
        self.content, self.stop_after, self.type = CONTENT, 10**9, ""
        self.requests = 0
        self.url = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests += 1
            if self.path.startswith("/gone"):
                self.send_error(404)
                return
            self.send_response(200)
            if state.type:
                self.send_header("Content-Type", state.type)
            self.send_header("Content-Length", str(len(state.content)))
            self.end_headers()
            self.wfile.write(state.content[: state.stop_after])

        def log_message(self, *_: object) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{http.server_port}/data.bin"
    yield state
    http.shutdown()
    http.server_close()


def test_a_file_is_fetched_once_and_checked(server: Server, tmp_path: Path) -> None:
    good = hashlib.sha256(CONTENT).hexdigest()
    seen: list[tuple[int, int | None]] = []
    path = fetch(
        server.url, tmp_path / "new" / "data.bin", good, lambda done, all_: seen.append((done, all_))
    )
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [file.name for file in path.parent.iterdir()] == ["data.bin"]
    fetch(server.url, path, good)
    assert server.requests == 1
    path.write_bytes(b"spoilt")
    with pytest.raises(el.EverylabelError, match=r"has SHA-256 .* expected .*delete"):
        fetch(server.url, path, good)


def test_a_download_that_breaks_off_is_reported(server: Server, tmp_path: Path) -> None:
    server.stop_after = 900_000
    with pytest.raises(el.EverylabelError, match="ended after 900,000 of 2,048,000 bytes"):
        fetch(server.url, tmp_path / "data.bin")
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []
    server.stop_after = 10**9
    assert fetch(server.url, tmp_path / "data.bin").read_bytes() == CONTENT


def test_wrong_content_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(el.EverylabelError, match="has SHA-256"):
        fetch(server.url, tmp_path / "data.bin", "0" * 64)
    server.type = "text/html; charset=utf-8"
    with pytest.raises(el.EverylabelError, match="answered with a web page"):
        fetch(server.url, tmp_path / "data.bin")
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


def test_failed_download_says_which_file_to_put_where(server: Server, tmp_path: Path) -> None:
    gone = server.url.replace("data.bin", "gone.bin")
    for url in (gone, "http://127.0.0.1:9/data.bin", "http://no-such-host.invalid/data.bin"):
        with pytest.raises(
            el.EverylabelError, match=r"cannot be downloaded.*put data\.bin into .*HTTPS_PROXY"
        ):
            fetch(url, tmp_path / "data.bin")
    with pytest.raises(el.EverylabelError, match="expected a path, or a URL"):
        fetch("ftp://host/data.bin", tmp_path / "data.bin")
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


CLINC = b'{"train": [["a", "x"]], "val": [], "test": [], "oos_train": [], "oos_val": [], "oos_test": []}'


def test_a_dataset_from_a_url(server: Server, cache: Path) -> None:
    server.content = CLINC
    url = server.url.replace("data.bin", "data_full.json?raw=1")
    data = el.load_dataset("clinc150", url, check=False)
    assert data.train.items == ["a"]
    server.content = CLINC.replace(b'"a"', b'"b"')
    other = el.load_dataset("clinc150", url.replace("raw=1", "raw=2"), check=False)
    assert other.train.items == ["b"]
    assert el.load_dataset("clinc150", url, check=False).train.items == ["a"]
    assert server.requests == 2
    with pytest.raises(el.EverylabelError, match="has SHA-256"):
        el.load_dataset("clinc150", url.replace("raw=1", "raw=3"))
    with pytest.raises(el.EverylabelError, match="is not here"):
        el.load_dataset("clinc150", download=False)
    assert len(list((cache / "sources").rglob("data_full.json"))) == 2
