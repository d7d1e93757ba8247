"""Downloads from a server on this machine: whole, interrupted, changed, wrong, out of reach."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import everylabel as el
from everylabel.models.datasets.fetch import fetch

CONTENT = bytes(range(256)) * 8000


class Server:
    """What the server has, how it behaves, and what it was asked."""

    def __init__(self) -> None:
        self.content, self.etag, self.stop_after = CONTENT, '"1"', 10**9
        self.page = False
        self.ranges: list[str | None] = []
        self.url = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            if self.path.startswith("/gone"):
                self.send_error(404)
                return
            body = b"<!DOCTYPE html><html>log in</html>" if state.page else state.content
            start = 0
            if asked and self.headers.get("If-Range") == state.etag:
                start = int(asked.removeprefix("bytes=").rstrip("-"))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            if state.etag:
                self.send_header("ETag", state.etag)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            self.wfile.write(body[start : start + state.stop_after])

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
    assert len(server.ranges) == 1
    path.write_bytes(b"spoilt")
    with pytest.raises(el.EverylabelError, match=r"has SHA-256 .* expected .*delete"):
        fetch(server.url, path, good)


def test_an_unknown_sum_is_noted_at_first_and_checked_later(server: Server, tmp_path: Path) -> None:
    path = fetch(server.url, tmp_path / "data.bin")
    assert (tmp_path / "data.bin.sha256").read_text() == hashlib.sha256(CONTENT).hexdigest()
    path.write_bytes(b"spoilt")
    with pytest.raises(el.EverylabelError, match="has SHA-256"):
        fetch(server.url, path)


def test_a_stopped_download_goes_on(server: Server, tmp_path: Path) -> None:
    server.stop_after = 900_000
    for done in (900_000, 1_800_000):
        with pytest.raises(el.EverylabelError, match=f"ended after {done:,} of 2,048,000 bytes; call again"):
            fetch(server.url, tmp_path / "data.bin")
        assert not (tmp_path / "data.bin").exists()
    fetch(server.url, tmp_path / "data.bin")
    assert server.ranges == [None, "bytes=900000-", "bytes=1800000-"]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == [
        "data.bin",
        "data.bin.sha256",
    ]


@pytest.mark.parametrize("etag", ['"2"', ""])
def test_a_file_that_has_changed_is_begun_anew(server: Server, tmp_path: Path, etag: str) -> None:
    server.stop_after = 1000
    with pytest.raises(el.EverylabelError, match="call again"):
        fetch(server.url, tmp_path / "data.bin")
    server.content, server.etag, server.stop_after = CONTENT[::-1], etag, 10**9
    assert fetch(server.url, tmp_path / "data.bin").read_bytes() == CONTENT[::-1]


def test_wrong_content_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(el.EverylabelError, match="has SHA-256"):
        fetch(server.url, tmp_path / "data.bin", "0" * 64)
    server.page = True
    with pytest.raises(el.EverylabelError, match="answered with a web page"):
        fetch(server.url, tmp_path / "data.bin")
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


def test_out_of_reach_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    gone = server.url.replace("data.bin", "gone.bin")
    for url in (gone, "http://127.0.0.1:9/data.bin", "http://no-such-host.invalid/data.bin"):
        with pytest.raises(
            el.EverylabelError, match=r"cannot be downloaded.*put data\.bin into .*HTTPS_PROXY"
        ):
            fetch(url, tmp_path / "data.bin")
    with pytest.raises(el.EverylabelError, match="expected a path, or a URL"):
        fetch("ftp://host/data.bin", tmp_path / "data.bin")
    assert [file for file in tmp_path.iterdir() if file.is_file()] == []


def test_a_dataset_from_a_url(server: Server, cache: Path) -> None:
    server.content = (
        b'{"train": [["a", "x"]], "val": [], "test": [], "oos_train": [], "oos_val": [], "oos_test": []}'
    )
    url = server.url.replace("data.bin", "data_full.json?raw=1")
    data = el.load_dataset("clinc150", url, check=False)
    assert data.train.items == ["a"]
    assert (cache / "datasets" / "clinc150" / "data_full.json").exists()
