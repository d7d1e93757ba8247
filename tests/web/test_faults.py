"""Faults under a running server: a log that is deleted, a database that does not answer."""

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.simulation.people import Client, new_key
from tests.projects.proxies import proxied
from tests.web.servers import label


def send(client: Client, item: str, key: str) -> Any:
    return client.post("/api/label", item=item, key=key, **{"class": 4})


def first(client: Client) -> str:
    return str(client.post("/api/next")["next"]["item"]["id"])


def send_on(client: Client) -> None:
    """Answer until an answer is refused."""
    while True:
        send(client, first(client), new_key())


def test_nothing_is_acknowledged_into_a_log_that_was_deleted(tmp_path: Path) -> None:
    with label(tmp_path, "digits") as server:
        client, keys = server.client, [new_key() for _ in range(3)]
        item = send(client, first(client), keys[0])["next"]["item"]["id"]
        folder = tmp_path / "digits.everylabel"
        for file in folder.glob("labels.sqlite*"):
            file.unlink()
        for key in keys[1:]:
            with pytest.raises(EverylabelError, match="deleted or moved while the server has it open"):
                send(client, item, key)
        assert client.get("/api/progress")["labelled"] == 1
        assert first(client) == item
        exported = httpx.get(f"{server.address}api/export?what=answers&format=csv", timeout=60)
        assert (exported.status_code, len(exported.text.splitlines())) == (200, 2)  # it still has all of them
        assert server.stop()[0] == 0


def test_silent_database_blocks_nobody_for_ever(postgres: str, tmp_path: Path) -> None:
    with (
        proxied(postgres) as (proxy, url),
        label(tmp_path, "digits", "--store", url, "--project", "swallowed") as server,
    ):
        client, key = server.client, new_key()
        item = send(client, first(client), new_key())["next"]["item"]["id"]
        proxy.mode = "swallow"
        for _ in range(2):
            with pytest.raises(EverylabelError, match="saved"):
                send(client, item, key)
        proxy.mode = "forward"
        assert send(client, item, key)["progress"]["labelled"] == 2
        proxy.mode = "swallow"
        with pytest.raises(EverylabelError, match="saved"):
            send(client, first(client), new_key())
        assert server.stop(signal.SIGTERM)[0] == 0


def test_an_answer_whose_commit_broke_counts_once(postgres: str, tmp_path: Path) -> None:
    with (
        proxied(postgres) as (proxy, url),
        label(tmp_path, "digits", "--store", url, "--project", "cut") as server,
    ):
        client, key = server.client, new_key()
        item, before = first(client), client.get("/api/progress")["labelled"]
        proxy.mode = "cut after commit"
        with pytest.raises(EverylabelError, match=r"\(unknown\): it is not known whether this was saved"):
            send(client, item, key)
        assert client.get("/api/progress")["labelled"] == before + 1
        assert send(client, item, key)["progress"]["labelled"] == before + 1
        assert send(client, first(client), new_key())["progress"]["labelled"] == before + 2


def test_a_stop_waits_for_an_answer_that_comes(postgres: str, tmp_path: Path) -> None:
    with label(tmp_path, "digits", "--store", postgres, "--project", "quiet") as server:
        for _ in range(3):
            send(server.client, first(server.client), new_key())
        server.process.terminate()
        assert server.process.wait(120) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == "stopping ...\n"
