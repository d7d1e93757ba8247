"""Backups while people label, and the output of both commands."""

import threading
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.log.store import Store
from everylabel.simulation.people import Client
from tests.log.test_integrity import change
from tests.web.servers import label


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.output


def answer(client: Client, n: int, stop: threading.Event) -> None:
    reply = client.post("/api/next")
    for _ in range(n):
        reply = client.post("/api/label", item=reply["next"]["item"]["id"], **{"class": 4})
        if stop.is_set():
            return


def test_backups_of_a_log_that_is_written_to(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stop, counts = threading.Event(), []
    with label(tmp_path, "digits", "--store", where) as server:
        labelling = threading.Thread(target=answer, args=(server.client, 500, stop))
        labelling.start()
        for i in range(4):
            code, text = run("backup", "digits", "--store", where, "-o", f"{i}.sqlite")
            assert code == 0, text
            counts.append(int(text.split()[0]))
        stop.set()
        labelling.join()
        assert server.client.get("/api/progress")["labelled"] > 0
        server.stop()
    assert sorted(path.name for path in tmp_path.glob("?.sqlite*")) == [f"{i}.sqlite" for i in range(4)]
    with closing(Store(where, "digits")) as store:
        events, items = store.read(), store.items()
    for i, n in enumerate(counts):
        with closing(Store(f"{i}.sqlite", "digits")) as copy:
            assert copy.read() == events[:n]
            assert copy.items() == items
    with label(tmp_path, "digits", "--store", "3.sqlite") as server:
        before = sum(event.body.kind == "label" for event in events[: counts[-1]])
        assert server.client.get("/api/progress")["labelled"] == before
    code, text = run("backup", "digits", "--store", where, "-o", "3.sqlite")
    assert code == 2
    assert "which exists" in text


def test_doctor_reports_and_rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with label(tmp_path, "digits") as server:
        answer(server.client, 3, threading.Event())
        code, text = run("doctor", "digits")  # also while people label
        assert code == 0, text
        server.stop()
    code, text = run("doctor", "digits")
    assert code == 0, text
    assert "all whole" in text
    log = tmp_path / "digits.everylabel" / "labels.sqlite"
    change(str(log), "UPDATE everylabel_events SET body = replace(body, '\"class\": 4', '\"class\": 40')")
    for command in (("label", "digits", "--no-browser"), ("export", "digits", "-o", "labels.csv")):
        code, text = run(*command)
        assert code == 2
        assert "is damaged: event" in text
        assert "everylabel doctor PROJECT" in text
    before = log.read_bytes()
    code, text = run("doctor", "digits", "-o", "new.sqlite")
    assert code == 1
    assert "does not fit the hash chain" in text
    assert "To continue with them: everylabel label digits --store new.sqlite" in text
    assert run("doctor", "digits", "-o", "again.sqlite", "--keep-later")[0] == 1
    assert log.read_bytes() == before
    with label(tmp_path, "digits", "--store", "new.sqlite") as server:
        assert server.client.get("/api/progress")["labelled"] == 0
