"""Argilla's records: a label for each submitted response, nested or flat, of one class or of several."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.formats.argilla import argilla_records
from everylabel.formats.imports import read_labels
from everylabel.formats.records import Given
from everylabel.labelling.state.types import ClassSet, Value
from everylabel.projects.folder import Remembered
from everylabel.projects.project import Project
from tests.formats.items import TEXTS, project

NESTED = [
    {
        "id": "a",
        "fields": {"text": "my card is lost"},
        "metadata": {},
        "responses": {
            "topics": [{"value": ["card", "loss"], "user_id": "u1"}, {"value": [], "user_id": "u2"}]
        },
        "suggestions": {"topics": {"value": ["card"], "score": 0.9, "agent": "m"}},
        "status": "completed",
    },
    {
        "id": "x",
        "fields": {"text": "send money"},
        "responses": {"topics": [{"value": ["money"], "user_id": "u1"}]},
    },
    {"id": "d", "fields": {"text": "again"}, "responses": {}},
]
FLAT = [
    {
        "id": "a",
        "status": "completed",
        "text": "my card is lost",
        "topics.responses": [["card", "loss"], []],
        "topics.responses.users": ["u1", "u2"],
        "topics.responses.status": ["submitted", "submitted"],
        "topics.suggestion": ["card"],
    },
    {
        "id": "x",
        "status": "pending",
        "text": "send money",
        "topics.responses": [["money"], ["loss"]],
        "topics.responses.users": ["u1", "u3"],
        "topics.responses.status": ["submitted", "discarded"],
        "topics.suggestion": None,
    },
    {"id": "d", "status": "pending", "text": "again", "topics.responses": None},
]


def several() -> Project:
    """Return a project whose items may have several classes."""
    about = Remembered("p", "p", Options(label_separator=";"))
    return replace(project(), about=about)


@pytest.mark.parametrize("records", [NESTED, FLAT])
def test_responses_to_a_multi_label_question_are_lists(tmp_path: Path, records: Any) -> None:
    (tmp_path / "r.json").write_text(json.dumps(records))
    found = read_labels(tmp_path / "r.json", several())
    said = [(label.id, json.loads(label.label), label.person) for label in found.labels]
    assert said == [("a", ["card", "loss"], "u1"), ("a", [], "u2"), ("b", ["money"], "u1")]


def test_responses_to_a_label_question_and_the_choice_of_a_question(tmp_path: Path) -> None:
    responses = {"kind": [{"value": "card", "user_id": "u1"}], "mood": [{"value": "bad", "user_id": "u1"}]}
    path = tmp_path / "r.json"
    path.write_text(json.dumps([{"id": "a", "fields": {"text": "my card is lost"}, "responses": responses}]))
    with pytest.raises(EverylabelError, match="responses to kind, mood; expected one of these questions"):
        read_labels(path, project())
    found = read_labels(path, project(), label_column="mood")
    assert [tuple(label) for label in found.labels] == [("a", "bad", "u1")]


def written(tmp_path: Path, of: Project, *answers: tuple[int, str, Value | None]) -> tuple[list[Any], Path]:
    """Return the records of answers by item, person and label, and a file with them."""
    given = [Given(i, person, label, 1.0, n) for n, (i, person, label) in enumerate(answers)]
    records = argilla_records(of, given, ["card", "money"], lambda i: TEXTS[i])
    (tmp_path / "out.json").write_text(json.dumps(records))
    return records, tmp_path / "out.json"


def test_export_of_several_classes_has_a_list_for_each_person_and_partial_answers_as_drafts(
    tmp_path: Path,
) -> None:
    both, none, partly = ClassSet((0, 1)), ClassSet((), (0, 1)), ClassSet((1,))
    records, path = written(
        tmp_path, several(), (0, "Ann", both), (0, "Bob", partly), (1, "Ann", none), (3, "Ann", None)
    )
    assert records[0] == {
        "id": "a",
        "fields": {"text": "my card is lost"},
        "responses": {
            "label": [
                {"value": ["card", "money"], "user_id": "Ann", "status": "submitted"},
                {"value": ["money"], "user_id": "Bob", "status": "draft"},
            ]
        },
    }
    assert [record["responses"]["label"] for record in records[1:]] == [[], []]  # Argilla refuses empty lists
    found = read_labels(path, several()).labels
    assert [(label.id, json.loads(label.label), label.person) for label in found] == [
        ("a", ["card", "money"], "Ann")
    ]


def test_export_of_one_class_has_a_text_for_each_person(tmp_path: Path) -> None:
    records, path = written(tmp_path, project(), (0, "Ann", 0), (0, "Bob", 1), (3, "Ann", None))
    assert [one["value"] for one in records[0]["responses"]["label"]] == ["card", "money"]
    assert [tuple(label) for label in read_labels(path, project()).labels] == [
        ("a", "card", "Ann"),
        ("a", "money", "Bob"),
    ]
