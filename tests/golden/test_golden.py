"""Projects that versions 0.1 and 0.2 wrote give the same answers, labels, figures and exports today.

Each folder here is one project: `project/` has the source, its project folder and features, `log.jsonl` the
log row by row, `requests.json` every request that had a key, `expected.json` the results of version 0.2.
`make.py` wrote them.

first         0.1, texts: two people, labels from source and file, each answer undone; with its database
first_arrays  0.1, features: three people who disagree, started twice
page          0.2, texts: everything the page offers; the source changes between starts; with its database
named         0.2, features, and class names as vectors of an encoder that is not installed
studio        0.2, texts: Label Studio's annotations, ground truth, tasks that leave and return, sent answers

The tests use stable surfaces only: a project opened as `everylabel label` opens it, its HTTP API, and
`everylabel export`. All of them are in `opened.py`: adapt that file if they move. `looks.py` says which
results are compared, and how closely.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.looks import (
    TOLERANCE,
    answers,
    comparable,
    differences,
    exports,
    repeated,
    requests,
    state,
    undone,
)
from tests.golden.opened import HERE, LOG, PROJECTS, copied, folder_of, forget_caches, opened
from tests.golden.scripted import restore, rows

KINDS_01 = "cannot_tell class label out project refit release rename settings skip undo"
KINDS_02 = (
    "arrange assessed cannot_tell changed class class_key colour confirmed describe extended finished "
    "held_out label left named none not out project refit release remove rename restore sent settings skip "
    "undo undo_classes unfinished wish"
)


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / name / "expected.json").read_text())
    found["exports"].pop("doubted", None)  # suspect labels have replaced it
    return found | {"state": comparable(found["state"])}


def events(*names: str) -> list[dict[str, Any]]:
    lines = [line for name in names for line in (HERE / name / "log.jsonl").read_text().splitlines()]
    return [line for line in map(json.loads, lines) if line.get("table") == "everylabel_events"]


def check_trained_from_scratch(found: dict[str, Any], exported: list[dict[str, Any]]) -> None:
    """Compare the page's probabilities with those that `export` computes: it retrains on all labels."""
    trained = {row.get("id", row["row"]): row for row in exported}
    assert found["predictions"].keys() == trained.keys()
    for item, probabilities in found["predictions"].items():
        total = sum(probabilities)  # the rest is that none of the classes fits, which files leave out
        for class_name, probability in zip(found["predicted_classes"], probabilities, strict=True):
            assert probability / total == pytest.approx(trained[item][f"p({class_name})"], abs=TOLERANCE)


@pytest.fixture(params=PROJECTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_logs_hold_every_kind_of_event() -> None:
    assert " ".join(sorted({event["kind"] for event in events("first", "first_arrays")})) == KINDS_01
    assert " ".join(sorted({event["kind"] for event in events("page", "named", "studio")})) == KINDS_02


@pytest.mark.parametrize("name", ["first", "page"])
def test_database_and_lines_are_the_same_log(name: str, tmp_path: Path) -> None:
    source = copied(name, tmp_path)
    restore(HERE / name / "log.jsonl", tmp_path / "again.sqlite")
    assert rows(tmp_path / "again.sqlite") == rows(folder_of(source) / LOG)


def test_state_is_as_it_was_also_after_a_restart_and_without_caches(name: str, tmp_path: Path) -> None:
    source, known = copied(name, tmp_path), expected(name)["state"]
    with opened(source) as client:
        found = state(client)
    assert differences(found, known) == []
    check_trained_from_scratch(found, expected(name)["exports"]["predictions"])
    with opened(source) as client:
        assert differences(state(client), known) == []
    assert forget_caches(source) > 0
    with opened(source) as client:
        assert differences(state(client), known) == []


def test_exports_are_as_they_were_also_after_a_start(name: str, tmp_path: Path) -> None:
    source, known = copied(name, tmp_path), expected(name)["exports"]
    assert differences(exports(source, tmp_path), known) == []
    with opened(source) as client:
        answers(client)
        page = client.get("/api/export", params={"what": "labels", "format": "csv"}).text
    assert page.splitlines() == known["labels.csv"].splitlines()
    assert differences(exports(source, tmp_path), known) == []


def test_answers_are_taken_back_as_before_and_stay_so(name: str, tmp_path: Path) -> None:
    for person, known in expected(name)["undone"].items():
        source = copied(name, tmp_path / person)
        with opened(source) as client:
            assert differences(undone(client, person), known) == []
            left = answers(client)
    with opened(source) as client:
        assert differences(answers(client), left) == []
    forget_caches(source)
    with opened(source) as client:
        assert differences(answers(client), left) == []


def test_requests_with_a_key_count_once_whenever_they_come(name: str, tmp_path: Path) -> None:
    source, sent, known = copied(name, tmp_path), requests(name), expected(name)["repeated"]
    with opened(source) as client:
        assert repeated(client, sent) == known
        for one in sent:
            other = {"person": one["body"]["person"], "name": "another", "key": one["body"]["key"]}
            assert client.post("/api/classes", json=other).status_code == 409
        item = next(iter(expected(name)["state"]["predictions"]))
        number = expected(name)["state"]["classes"]["classes"][0]["id"]
        fresh = {"person": "Zoe", "item": item, "class": number, "key": "fresh"}
        before = len(answers(client)["history"])
        first, again = (client.post("/api/label", json=fresh).json() for _ in range(2))
        assert first["saved"] == again["saved"]
        assert len(answers(client)["history"]) == before + 1
    with opened(source) as client:
        assert client.post("/api/label", json=fresh).json()["saved"] == first["saved"]
        assert len(answers(client)["history"]) == before + 1
