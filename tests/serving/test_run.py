"""A server on each kind of database, stopped and started again, with an export beside it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.serving.run import check_settings, kept_in
from tests.serving.servers import label


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
        assert json.loads(out.read_text()) == {"id": item, "label": "4"}
        code, text = server.stop()
    assert code == 0
    assert str(tmp_path / "digits.everylabel") in text
    with label(tmp_path, "digits", "--store", where) as server:
        assert server.client.get("/api/progress")["labelled"] == 1


def test_no_password_is_told(tmp_path: Path) -> None:
    from everylabel.serving.project import open_project

    project = open_project("digits", folder=tmp_path / "p")
    told = kept_in(project, "postgresql://me:secret@db.example.org/labels")
    assert "secret" not in told
    assert "db.example.org/labels" in told
    assert check_settings({"strategy": None, "check_every": 0}) == {"check_every": 0}
