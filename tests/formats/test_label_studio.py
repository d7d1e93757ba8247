"""Label Studio's JSON: tasks are matched to items, skipped ones are reported, exports can be imported."""

import json
from pathlib import Path
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.formats.imports import read_labels
from everylabel.formats.label_studio import label_studio_tasks
from everylabel.formats.records import Given
from tests.formats.items import TEXTS, project


def choice(*labels: str, name: str = "sentiment", **more: Any) -> dict[str, Any]:
    value = {"choices": list(labels)}
    result = [{"from_name": name, "to_name": "text", "type": "choices", "value": value}]
    return {"id": 1, "result": result if labels else [], "was_cancelled": False, **more}


def write(path: Path, tasks: Any) -> Path:
    path.write_text(json.dumps(tasks))
    return path


def test_label_studio(tmp_path: Path) -> None:
    tasks = [
        {"id": 3, "data": {"text": "send money"}, "annotations": [
            choice("Negative", completed_by=1),
            choice("Positive", completed_by={"id": 2, "email": "b@example.org"}),
            choice("Negative", was_cancelled=True),
        ]},
        {"id": 4, "data": {"id": "a", "text": "new"}, "annotations": [choice("Positive")]},
        {"id": 5, "data": {"text": "again"}, "annotations": [choice(), choice("Positive", "Negative")]},
        {"id": 6, "data": {"text": "unknown"}, "annotations": [choice("Positive")]},
        {"id": 7, "data": {"text": "again"}, "annotations": []},
    ]  # fmt: skip
    found = read_labels(write(tmp_path / "ls.json", tasks), project())
    assert [tuple(label) for label in found.labels] == [
        ("b", "Negative", "annotator 1"),
        ("b", "Positive", "b@example.org"),
        ("a", "Positive", None),
    ]
    assert found.unmatched == ["task 6"]
    assert found.skipped == {"cancelled": 1, "no choice": 1, "several choices": 1}


def test_label_studio_by_task_id_image_and_without_details(tmp_path: Path) -> None:
    tasks: list[Any] = [{"id": i, "data": {"n": i}, "annotations": [choice("x")]} for i in (1, 9)]
    found = read_labels(write(tmp_path / "ls.json", tasks), project(ids=("1", "2", "3", "4")))
    assert [label.id for label in found.labels] == ["1"]
    images = ["/data/upload/1/0a1b2c3d-a.png", "/data/local-files/?d=photos/b.png", "s3://x/nowhere.png"]
    tasks = [
        {"id": i, "data": {"image": image}, "annotations": [choice("x")]} for i, image in enumerate(images)
    ]
    found = read_labels(write(tmp_path / "ls.json", tasks), project("image"))
    assert [label.id for label in found.labels] == ["a", "b"]
    assert found.unmatched == ["task 2"]
    flat = [{"id": 1, "text": "again", "sentiment": "Positive", "annotator": 5}]
    found = read_labels(write(tmp_path / "min.json", flat), project(), label_column="sentiment")
    assert [tuple(label) for label in found.labels] == [("d", "Positive", "5")]


def test_several_controls_need_a_choice(tmp_path: Path) -> None:
    both = choice("x", name="topic")
    both["result"] += choice("y", name="mood")["result"]
    path = write(tmp_path / "ls.json", [{"id": 1, "data": {"id": "a"}, "annotations": [both]}])
    with pytest.raises(EverylabelError, match="several Choices, topic, mood"):
        read_labels(path, project())
    assert read_labels(path, project(), label_column="mood").labels[0].label == "y"
    with pytest.raises(EverylabelError, match="no Choices named 'colour'"):
        read_labels(path, project(), label_column="colour")


def test_malformed_tasks_are_skipped(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {"annotations": None},
        {"annotations": [None, {"result": None}, {"result": [None, {"value": 5}]}], "data": {"id": "a"}},
        {"annotations": [], "data": []},
    ]
    found = read_labels(write(tmp_path / "ls.json", odd), project())
    assert found.labels == []


def test_label_studio_round_trip(tmp_path: Path) -> None:
    p = project()
    given = [Given(1, "Ann", 0, 1.0, 1), Given(1, "Bob", 1, 2.0, 2), Given(3, "Ann", None, 3.0, 3)]
    tasks = label_studio_tasks(p, given, ["no", "yes"], lambda i: TEXTS[i])
    assert len(tasks) == 2
    found = read_labels(write(tmp_path / "ls.json", tasks), p)
    assert [tuple(label) for label in found.labels] == [("b", "no", "Ann"), ("b", "yes", "Bob")]
    assert found.skipped == {"cancelled": 1}
