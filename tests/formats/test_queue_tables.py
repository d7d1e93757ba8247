"""A queue as a file: the same rows as the page shows, by a model trained on all labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.labelling.queues import QueueRequest, queue
from everylabel.projects.log import Label, Proposed, open_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web.server import opened_project
from tests.labelling.desks import X, Y, until

N = 120


def _export(folder: Path, *more: str) -> list[dict[str, Any]]:
    out = folder / "out.jsonl"
    command = ["export", str(folder / "digits.npz"), "-o", str(out), *more]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in out.read_text().splitlines()]


WRONG = {7, 13, 21, 33, 40}  # labels that are wrong


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "digits.npz", X=X[:N], classes=[f"digit {i}" for i in range(10)])
    project = open_project(tmp_path / "digits.npz")
    labels = [Label(project.ids[i], f"digit {(Y[i] + (i in WRONG)) % 10}") for i in range(90)]
    with open_log(project, LabelOptions(labels=labels), lambda _: None):
        pass
    return tmp_path


def test_queues_are_exported_as_tables(folder: Path) -> None:
    suspect = _export(folder, "--what", "suspect")
    assert [row["score"] for row in suspect] == sorted((row["score"] for row in suspect), reverse=True)
    wrong = f"digit {(Y[13] + 1) % 10}", f"digit {Y[13]}"
    assert wrong in [(row["label"], row["guess"]) for row in suspect[:5]]
    assert len(str(suspect[0]["otherwise"]).split()) == 2
    threes = _export(folder, "--what", "predicted", "--class", "digit 3")
    assert {row["guess"] for row in threes} == {"digit 3"}
    assert all(row["label"] is None for row in threes)
    assert [row["score"] for row in threes] == sorted((row["score"] for row in threes), reverse=True)
    assert _export(folder, "--what", "cannot_tell") == []


def test_unknown_class_is_reported(folder: Path) -> None:
    for more, told in [
        (("more", "--class", "eleven"), "class is 'eleven'; expected one of"),
        (("more",), "without class; expected a class"),
        (("like", "--item", "x"), "item is 'x'; expected an id"),
    ]:
        command = ["export", str(folder / "digits.npz"), "-o", str(folder / "out.csv"), "--what", *more]
        done = CliRunner().invoke(app, command)
        assert told in " ".join(done.output.split())
        assert not (folder / "out.csv").exists()


@pytest.mark.parametrize("suggested", [0, N])
def test_page_and_file_list_the_same_suspect_labels(
    folder: Path, monkeypatch: pytest.MonkeyPatch, suggested: int
) -> None:
    monkeypatch.setattr("everylabel.labelling.queues.LIKELY", 0.01)  # to compare more than a few
    project = open_project(folder / "digits.npz")
    said = [(project.ids[i], f"digit {(Y[i] + (i % 4 == 0)) % 10}") for i in range(suggested)]
    options = LabelOptions(proposed=[Proposed(item, name, "llm") for item, name in said])
    with opened_project(project, options, lambda _: None, None) as (service, _, _):
        views = service.views
        for i in range(90, 105):  # some wrong, and some of no class
            if i % 5 == 0:
                service.none_of_these("me", project.ids[i]).result()
            else:
                service.label("me", project.ids[i], int(Y[i] + i % 2) % 10).result()
        until(lambda: service.desk.assessment is not None and service.desk.assessment.body.labels == 105)
        found = queue(views.guesses.queue_data(), QueueRequest("suspect"))
        page = [(each.item, round(each.score or 0.0, 4)) for each in found]
    assert len(page) > 8
    rows = _export(folder, "--what", "suspect")
    assert [(row["row"], round(row["score"], 4)) for row in rows] == page
