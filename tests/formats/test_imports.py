"""Imports: labels of tables and of Label Studio find their items, and say what they could not take."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.display import Images, Texts
from everylabel.formats.reading import read_labels
from everylabel.formats.writing import Given, answer_records, label_studio_tasks, write_table
from everylabel.projects.project import Project

TEXTS = ["my card is lost", "send money", "=hello", "again"]


def project(kind: str = "text", ids: tuple[str, ...] = ("a", "b", "-c", "d")) -> Project:
    paths = [Path("photos") / f"{name}.png" for name in ids]
    contents = Texts(TEXTS) if kind == "text" else Images(paths, [str(path) for path in paths])
    labels = np.full(4, -1)
    return Project("p", kind, ids, np.eye(4), contents, (), labels, None, ["x"] * 4, Path("p"))


def test_a_table_by_id(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label,person\na,refund,Ann\nzzz,other,Ann\nb,,Bob\n'-c,other,\n")
    found = read_labels(path, project())
    assert [tuple(label) for label in found.labels] == [("a", "refund", "Ann"), ("-c", "other", None)]
    assert found.unmatched == ["zzz"]
    assert found.skipped == {"no label": 1}
    assert found.classes == ("refund", "other")
    assert str(found) == "2 labels of 2 items; 1 match no item: zzz; 1 skipped (no label)"


def test_columns_by_options_and_by_text(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"uid": "d", "mark": 1.0}\n{"uid": "b", "mark": 2}\n')
    found = read_labels(path, project(), id_column="uid", label_column="mark")
    assert [(label.id, label.label) for label in found.labels] == [("d", "1"), ("b", "2")]
    with pytest.raises(EverylabelError, match=r"column 'who' is not in .*expected one of uid, mark"):
        read_labels(path, project(), person_column="who")
    with pytest.raises(EverylabelError, match="has columns uid, mark; expected one of labels"):
        read_labels(path, project())
    path.write_text('{"text": " send money ", "label": "x"}\n{"id": "a", "text": "again", "label": "y"}\n')
    rows = [(label.id, label.label) for label in read_labels(path, project()).labels]
    assert rows == [("b", "x"), ("d", "y")]  # an id whose text is another item's does not count


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_what_was_exported_comes_back(tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra everylabel[export]")
    p = project()
    given = [Given(2, "Ann", 1, 1.0, 1), Given(0, "@Bob", 0, 2.0, 2), Given(0, "Ann", None, 3.0, 3)]
    records = answer_records(p.ids, given, ["no", "+yes"], show=lambda i: TEXTS[i])
    path = tmp_path / f"answers.{form}"
    path.write_bytes(b"".join(write_table(records, form)))
    found = read_labels(path, p)
    assert [tuple(label) for label in found.labels] == [("-c", "+yes", "Ann"), ("a", "no", "@Bob")]
    assert found.skipped == {"no label": 1}


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


def test_several_controls_are_asked_about(tmp_path: Path) -> None:
    both = choice("x", name="topic")
    both["result"] += choice("y", name="mood")["result"]
    path = write(tmp_path / "ls.json", [{"id": 1, "data": {"id": "a"}, "annotations": [both]}])
    with pytest.raises(EverylabelError, match="several Choices, topic, mood"):
        read_labels(path, project())
    assert read_labels(path, project(), label_column="mood").labels[0].label == "y"
    with pytest.raises(EverylabelError, match="no Choices named 'colour'"):
        read_labels(path, project(), label_column="colour")


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", "[" * 100_000])
def test_what_is_no_export_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(EverylabelError, match="is no "):
        read_labels(tmp_path / "x.json", project())
    with pytest.raises(EverylabelError, match="is not there"):
        read_labels(tmp_path / "nothing.csv", project())


def test_odd_tasks_do_no_harm(tmp_path: Path) -> None:
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
    tasks = label_studio_tasks(p.ids, given, ["no", "yes"], lambda i: TEXTS[i])
    assert len(tasks) == 2
    found = read_labels(write(tmp_path / "ls.json", tasks), p)
    assert [tuple(label) for label in found.labels] == [("b", "no", "Ann"), ("b", "yes", "Bob")]
    assert found.skipped == {"cancelled": 1}
