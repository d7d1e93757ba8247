"""A server on each kind of database, stopped and started again, with an export beside it."""

import gc
import json
import os
import signal
import socket
import weakref
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.retrainer import retrain
from everylabel.projects.folder import log_name
from everylabel.projects.log import location_shown
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web import server
from everylabel.web.server import (
    bound_socket,
    check_free,
    free_port,
    opened_server,
    serve,
    server_config,
)
from tests.web.servers import label, served


def test_labels_are_kept_in_either_database(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with label(tmp_path, "digits", "--store", where) as server:
        item = server.client.post("/api/next")["next"]["item"]["id"]
        server.client.post("/api/label", item=item, **{"class": 4})
        out = tmp_path / "labels.jsonl"
        beside = CliRunner().invoke(app, ["export", "digits", "--store", where, "-o", str(out)])
        assert beside.exit_code == 0, beside.output
        assert json.loads(out.read_text()) == {"row": int(item), "label": "4"}
        code, text = server.stop()
    assert code == 0
    assert str(tmp_path / "digits.everylabel") in text
    with label(tmp_path, "digits", "--store", where) as server:
        assert server.client.get("/api/progress")["labelled"] == 1


def test_thread_limit_is_restored_when_the_server_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = open_project("digits", folder=tmp_path / "p")

    def limits() -> set[int]:
        return {library["num_threads"] for library in threadpool_info()}

    while_serving: list[tuple[str | None, set[int]]] = []

    def stop(_: str) -> None:
        while_serving.append((os.environ.get("OMP_NUM_THREADS"), limits()))
        assert gc.get_freeze_count() > 10_000  # the collector skips all that was loaded before
        signal.raise_signal(signal.SIGINT)

    for before in (None, "2"):
        if before is None:
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        else:
            monkeypatch.setenv("OMP_NUM_THREADS", before)
        with threadpool_limits(2):
            serve(project, LabelOptions(port=0), ready=stop)
            assert limits() == {2}
        assert os.environ.get("OMP_NUM_THREADS") == before
    assert while_serving == [("1", {1})] * 2


def test_behind_a_proxy_a_token_is_asked_for(tmp_path: Path) -> None:
    with label(tmp_path, "digits", "--proxy") as server:
        place, _, token = server.address.partition("?token=")
        stranger = {"x-forwarded-for": "203.0.113.9"}  # the host is ours: nginx's default
        for path in ("api/progress", "api/export?what=labels"):
            assert httpx.get(f"{place}{path}", headers=stranger).status_code == 401
            bearer = {**stranger, "authorization": f"Bearer {token}"}
            assert httpx.get(f"{place}{path}", headers=bearer).status_code == 200


def test_no_message_shows_a_password(tmp_path: Path) -> None:
    project = open_project("digits", folder=tmp_path / "p")
    told = location_shown(project, "postgresql://me:secret@db.example.org/labels")
    assert "secret" not in told
    assert "db.example.org/labels" in told
    assert LabelOptions(strategy=None, check_every=0).settings == {"check_every": 0}


def test_projects_of_one_name_share_a_store(where: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        np.save(tmp_path / place / "x.npy", rng.normal(size=(20, 4)))
    options = ("x.npy", "--classes", "a,b", "--store", where)
    for expected in (1, 2):  # and again
        for place in ("one", "two"):
            with label(tmp_path / place, *options) as server:
                item = server.client.post("/api/next")["next"]["item"]["id"]
                reply = server.client.post("/api/label", item=item, **{"class": "a"})
                assert reply["progress"]["labelled"] == expected
                assert server.client.get("/api/session")["project"] == "x.npy"
    first, second = (open_project(tmp_path / place / "x.npy") for place in ("one", "two"))
    assert log_name(first.name, first.id, first, where) == "x.npy"
    assert log_name(second.name, second.id, second, where) == f"x.npy {second.id}"
    assert log_name(second.name, second.id, second, None) == "x.npy"  # in its own folder nobody else is
    (first.folder / "project.json").unlink()
    anew = open_project(tmp_path / "one" / "x.npy", classes=["a", "b"])
    assert anew.id != first.id
    assert log_name(anew.name, anew.id, anew, where) == "x.npy"  # known by its items
    again = open_project(first.folder)
    assert log_name(again.name, again.id, again, where) == "x.npy"


def test_classes_are_checked_before_anything_is_embedded(tmp_path: Path) -> None:
    rows = [f"a text that says {i},{i}" for i in range(1200)]
    (tmp_path / "x.csv").write_text("\n".join(["body,number", *rows]))
    with pytest.raises(EverylabelError, match="1,200 or more; expected 1,000 at most: check --label-column"):
        open_project(tmp_path / "x.csv", text_column="body", label_column="number", model="tfidf")
    assert not (tmp_path / "x.csv.everylabel").exists()
    (tmp_path / "y.csv").write_text("body,kind\none text,b  c\nanother text,a\nno label,\nmore text,b c\n")
    project = open_project(tmp_path / "y.csv", text_column="body", label_column="kind", model="tfidf")
    assert project.classes == ("a", "b c")
    assert project.labels.tolist() == [1, 0, -1, 1]


def test_a_port_in_use_is_passed_over_and_one_that_is_named_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) > port
        with pytest.raises(EverylabelError, match=f"--port {port} of --host 127.0.0.1 is in use"):
            check_free("127.0.0.1", port)


def test_a_bound_port_is_taken_before_the_server_runs() -> None:
    with bound_socket("127.0.0.1", 0) as ours:
        port = ours.getsockname()[1]
        assert free_port("127.0.0.1", port) > port
        with pytest.raises(EverylabelError, match=f"--port {port} of --host 127.0.0.1 is in use"):
            bound_socket("127.0.0.1", port)


def test_server_does_not_hold_a_replaced_model(tmp_path: Path) -> None:
    project = open_project("digits", folder=tmp_path / "p")
    with opened_server(project, LabelOptions(port=0), print, print, None) as opened:
        desk = opened.service.desk
        first = weakref.ref(desk.learner)
        for i in range(3):
            opened.service.label("ann", desk.ids[i], i).result()
        retrain(desk)
        gc.collect()
        assert first() is None  # of a large pool it has its own logits


async def _greets(scope: Any, receive: Any, send: Any) -> None:
    """Answer ok."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def _connected(port: int, says: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(says)
    return made


SLOW = {
    "no request": b"",
    "half a head": b"GET / HTTP/1.1\r\nhost: a\r\n",
    "half a body": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n1",
}


@pytest.mark.parametrize("says", SLOW.values(), ids=SLOW)
def test_slow_clients_keep_nobody_waiting(says: bytes) -> None:
    with served(server_config(_greets)) as port:
        crowd = [_connected(port, says) for _ in range(50)]
        assert httpx.get(f"http://127.0.0.1:{port}/", timeout=60).text == "ok"
        for each in crowd:
            each.close()


def test_too_many_connections_are_refused_and_those_that_close_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 10)
    with served(server_config(_greets)) as port:
        crowd = [_connected(port, b"") for _ in range(10)]
        address = f"http://127.0.0.1:{port}/"
        assert httpx.get(address, timeout=60).status_code == 503
        for each in crowd:
            each.close()
        while httpx.get(address, timeout=60).status_code != 200:  # until the server has noticed
            pass


def test_header_size_is_limited() -> None:
    endless = b"GET / HTTP/1.1\r\nx: ".ljust(2**16 + 1, b"y")
    with served(server_config(_greets)) as port, _connected(port, endless) as client:
        assert client.recv(12) == b"HTTP/1.1 400"
