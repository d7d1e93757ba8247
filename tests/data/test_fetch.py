"""Downloads from a server on this machine: whole, interrupted, changed, wrong, out of reach."""

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
        self.content, self.etag, self.stop_after = CONTENT, '"1"', 10**9
        self.page, self.type = b"", ""
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
            body = state.page or state.content
            start = 0
            if asked and self.headers.get("If-Range") == state.etag:
                start = int(asked.removeprefix("bytes=").rstrip("-"))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            if state.type:
                self.send_header("Content-Type", state.type)
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


def test_a_stopped_download_continues(server: Server, tmp_path: Path) -> None:
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
def test_a_file_that_has_changed_is_begun_again(server: Server, tmp_path: Path, etag: str) -> None:
    server.stop_after = 1000
    with pytest.raises(el.EverylabelError, match="call again"):
        fetch(server.url, tmp_path / "data.bin")
    server.content, server.etag, server.stop_after = CONTENT[::-1], etag, 10**9
    assert fetch(server.url, tmp_path / "data.bin").read_bytes() == CONTENT[::-1]


def test_wrong_content_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(el.EverylabelError, match="has SHA-256"):
        fetch(server.url, tmp_path / "data.bin", "0" * 64)
    pages = b"<!DOCTYPE html><html>log in</html>", b"<?xml?>\n<!-- a proxy --><HTML>no</HTML>", b"log in"
    for page, kind in zip(pages, ("", "", "text/html; charset=utf-8"), strict=True):
        server.page, server.type = page, kind
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
    assert len(server.ranges) == 2
    with pytest.raises(el.EverylabelError, match="has SHA-256"):
        el.load_dataset("clinc150", url.replace("raw=1", "raw=3"))
    with pytest.raises(el.EverylabelError, match="is not here"):
        el.load_dataset("clinc150", download=False)
    assert len(list((cache / "sources").rglob("data_full.json"))) == 2


def test_all_files_of_a_dataset_come_from_beside_the_url(server: Server) -> None:
    server.content = b"text,category\nhello,greeting\n"
    data = el.load_dataset("banking77", server.url.replace("data.bin", "train.csv"), check=False)
    assert data.train.items == data.test.items == ["hello"]


@pytest.mark.parametrize(
    ("name", "file"), [("clinc150", "data_full.json"), ("dbpedia", "dbpedia_csv.tgz"), ("dtd", "dtd.npz")]
)
def test_a_new_file_that_cannot_be_read_is_not_kept(
    server: Server, cache: Path, name: str, file: str
) -> None:
    url = server.url.replace("data.bin", file)
    server.content = b"something else"
    for asked in (1, 2):
        with pytest.raises(el.EverylabelError):
            el.load_dataset(name, url, check=False)
        assert len(server.ranges) == asked
    assert [path for path in cache.rglob("*") if path.is_file()] == []
