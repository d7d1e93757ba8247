"""Labels of several classes: lists in a cell, JSON, columns of 0 and 1; and what looks like a list."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import indicator_text, list_text, names_in, odd_labels
from everylabel.data.items import Options
from everylabel.data.readers.table import read_table
from everylabel.formats import records
from everylabel.labelling.state.types import ClassSet


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("a;b", ["a", "b"]),
        (" b ; a;b; ", ["b", "a"]),
        ('["a", "b;c"]', ["a", "b;c"]),
        ("['a', 'b']", ["a", "b"]),
        (["a", 1.0], ["a", "1"]),
        ("[]", []),
        ([], []),
        ("a", ["a"]),
    ],
)
def test_cells_hold_classes(cell: object, names: list[str]) -> None:
    assert names_in(list_text(cell)) == (names, None)


def test_empty_cells_hold_no_answer() -> None:
    assert [list_text(cell) for cell in ("", None, float("nan"), "  ")] == ["", "", "", ""]
    assert names_in("plain name").present == ["plain name"]


@pytest.mark.parametrize(
    ("label", "written"),
    [
        (ClassSet.of([0, 2], [1]), "a;c"),
        (ClassSet.of([], [0, 1, 2]), "[]"),
        (ClassSet.of([0], [2]), '{"a": 1, "c": 0}'),
        (ClassSet.of([], [1]), '{"b": 0}'),
    ],
)
def test_a_written_label_reads_back_as_the_same_answer(label: ClassSet, written: str) -> None:
    classes = ["a", "b", "c"]
    assert records.named(label, classes) == written
    present, absent = names_in(list_text(written))
    others = [name for name in classes if name not in present]
    assert [classes[i] for i in label.present] == present
    assert [classes[i] for i in label.absent] == (others if absent is None else absent)


def test_columns_of_0_and_1_say_yes_no_or_nothing() -> None:
    assert names_in(indicator_text({"a": 1, "b": "0", "c": True})) == (["a", "c"], None)
    assert names_in(indicator_text({"a": 1.0, "b": 0.0, "c": None})) == (["a"], ["b"])
    assert indicator_text({"a": None, "b": ""}) == ""
    with pytest.raises(EverylabelError, match="'b' holds '7'"):
        indicator_text({"a": 1, "b": 7})


def test_a_table_is_read_by_its_lists_and_by_its_columns(tmp_path: Path) -> None:
    lists, columns = tmp_path / "lists.csv", tmp_path / "columns.csv"
    lists.write_text("text,tags\none,a|b\ntwo,\nthree,b\n")
    columns.write_text("text,a,b\none,1,1\ntwo,,\nthree,0,1\n")
    for path, named in ((lists, "tags"), (columns, "a,b")):
        options = Options("text", label_column=named, label_separator="|")
        items = read_table(path, options)
        said = [items.classes[i] if i >= 0 else None for i in items.labels]
        assert said == ['["a", "b"]', None, '["b"]']
        assert items.classes[:2] == ("a", "b")
        assert not set(items.display.item(0)["fields"]) & {"a", "b", "tags"}
    with pytest.raises(EverylabelError, match="labels hold 'b'"):
        read_table(lists, Options("text", label_column="tags", label_separator="|", classes=("a",)))


def test_a_single_label_column_that_seems_to_hold_lists_is_noticed(tmp_path: Path) -> None:
    table = tmp_path / "posts.csv"
    table.write_text("text,label\none,a;b\ntwo,a\nthree,b;c\nfour,c;b\n")
    notes = read_table(table, Options("text", label_column="label")).notes
    (note,) = [note for note in notes if "look like lists" in note]
    assert note.endswith("begin with --multi-label --label-separator ';'")
    assert odd_labels(["Yes, please", "No, thanks", "maybe"]) == []
    assert odd_labels(["a", "b", "a"]) == []


@pytest.mark.parametrize("write", [json.dumps, str])  # as JSON, and as pandas writes a Python list
def test_the_note_on_written_lists_names_no_separator(write: Callable[[list[str]], str]) -> None:
    cells = [write(names) for names in (["a", "b"], ["a"], ["b", "c"], [])]
    (note,) = odd_labels(cells)
    assert note.startswith("4 labels look like lists of classes")
    assert note.endswith("begin with --multi-label")
    assert [names_in(list_text(cell)).present for cell in cells] == [["a", "b"], ["a"], ["b", "c"], []]


def test_a_list_in_json_lines_is_no_text_of_python(tmp_path: Path) -> None:
    table = tmp_path / "posts.jsonl"
    rows = [{"text": "one", "tags": ["a", "b"]}, {"text": "two", "tags": []}, {"text": "three", "tags": None}]
    table.write_text("\n".join(map(json.dumps, rows)))
    items = read_table(table, Options("text", label_column="tags", label_separator=";"))
    assert [items.classes[i] if i >= 0 else None for i in items.labels] == ['["a", "b"]', "[]", None]
