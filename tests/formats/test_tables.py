"""Exported tables keep every row and probability, and their labels can be imported."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelError
from everylabel.data.display import Texts
from everylabel.data.items import Options
from everylabel.formats.imports import read_labels
from everylabel.formats.records import (
    Given,
    Predictor,
    all_records,
    answer_records,
    label_records,
    prediction_records,
)
from everylabel.formats.tables import ItemColumns, Records, guarded, item_columns, unguarded, write_table
from everylabel.projects.folder import Remembered
from tests.formats.items import project

IDS = ["=cmd()", "-5", 'b,"c"', "ü\n"]
CLASSES = ["+ve", "no"]


def known(ids: Sequence[str], texts: tuple[str, ...] = ()) -> ItemColumns:
    """Return the item columns of these ids, with or without a text."""
    return item_columns(project("text" if texts else "features", tuple(ids), texts))


def whole(records: Records, form: str) -> list[dict[str, Any]]:
    data = b"".join(write_table(records, form))
    if form == "csv":
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    if form == "jsonl":
        return [json.loads(line) for line in data.decode().split("\n") if line]
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra everylabel[export]")
    return list(parquet.read_table(io.BytesIO(data)).to_pylist())


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_labels_and_answers(form: str) -> None:
    def value(text: str) -> str:
        return unguarded(text) if form == "csv" else text

    texts = tuple(f"item {i}" for i in range(4))
    rows = whole(label_records(known(IDS, texts), {3: 0, 0: 1}, CLASSES), form)
    assert [(value(row["id"]), int(row["row"]), value(row["label"]), row["shown"]) for row in rows] == [
        ("=cmd()", 0, "no", "item 0"),
        ("ü\n", 3, "+ve", "item 3"),
    ]
    given = [Given(1, "Ann", 1, 0.25, 7), Given(1, "Bob", None, 1.0, 8)]
    rows = whole(answer_records(known(IDS), given, CLASSES), form)
    assert [row["person"] for row in rows] == ["Ann", "Bob"]
    assert rows[0]["at"] == "1970-01-01T00:00:00.250+00:00"
    assert (rows[0]["label"], rows[1]["label"]) == ("no", "" if form == "csv" else None)
    assert whole(answer_records(known(IDS), [], CLASSES), form) == []


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_predictions(form: str) -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=9000)
    ids = [f"i{i}" for i in range(9000)]
    items = np.arange(9000)[::2]
    rows = whole(prediction_records(known(ids), items, Predictor(probs.__getitem__, ["a", "b", "c"])), form)
    assert len(rows) == 4500
    stored = np.array([[float(row[f"p({name})"]) for name in "abc"] for row in rows])
    assert np.allclose(stored, probs[items], atol=1e-6)
    assert [row["label"] for row in rows] == ["abc"[i] for i in probs[items].argmax(axis=1)]
    assert rows[7]["id"] == "i14"
    assert float(rows[7]["probability"]) == stored[7].max()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_labels_and_predictions_in_one_table_import_only_labels(tmp_path: Path, form: str) -> None:
    probs = np.array([[0.25, 0.75], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    own = project()
    labels = {1: ("card", "Ann, Bob"), 3: ("loan", "Ann")}
    predictor = Predictor(probs.__getitem__, ["card", "loan"])
    records = all_records(item_columns(own), labels, [0, 2, 3], predictor)
    rows = [(row["label"], row["source"], row["probability"] or None) for row in whole(records, form)]
    assert [(label, source) for label, source, _ in rows] == [
        ("loan", "model"),
        ("card", "Ann, Bob"),
        ("card", "model"),
        ("loan", "Ann"),
    ]
    assert [None if p is None else float(p) for _, _, p in rows] == [0.75, None, 0.9, None]
    records = all_records(item_columns(own), labels, [0, 2], predictor)
    path = tmp_path / f"all.{form}"
    path.write_bytes(b"".join(write_table(records, form)))
    found = read_labels(path, own)
    assert [(one.id, one.label) for one in found.labels] == [("b", "card"), ("d", "loan")]
    assert found.skipped == {"the model's own": 2}
    records = all_records(item_columns(own), labels, [], predictor)
    assert len(whole(records, form)) == 2


def test_export_streams_before_all_rows_are_read() -> None:
    def endless() -> Iterator[tuple[str]]:
        while True:
            yield ("x",)

    for form in ("csv", "jsonl"):
        assert next(iter(write_table(Records({"id": str}, endless()), form)))


def test_cells_are_never_formulas() -> None:
    for text in ("=1+1", "+x", "-x", "@sum", "\tx", "\rx", " =x", "\n=x", "\u00a0 @x", "\uff1dx", "\uff20x"):
        assert guarded(text) == f"'{text}"
        assert unguarded(guarded(text)) == text
    for harmless in ("-5", "+3.5e4", " -5", "plain", " plain", "'quoted'", "' x", "", 5, None):
        assert guarded(harmless) == harmless
    assert unguarded("'quoted'") == "'quoted'"
    for text in ("'=x", "''=x", "'-5", "'\tx", "' =x"):  # apostrophes of the text's own
        assert guarded(text) == f"'{text}"
        assert unguarded(guarded(text)) == text


def test_unknown_format_or_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(el.EverylabelError, match="format is 'xlsx'; expected one of"):
        write_table(Records({}, []), "xlsx")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(el.EverylabelError, match=r"pip install 'everylabel\[export\]'"):
        write_table(Records({}, []), "parquet")


def test_table_is_matched_by_id(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label,person\na,refund,Ann\nzzz,other,Ann\nb,,Bob\n'-c,other,\n")
    found = read_labels(path, project())
    assert [tuple(label) for label in found.labels] == [("a", "refund", "Ann"), ("-c", "other", None)]
    assert found.unmatched == ["zzz"]
    assert found.skipped == {"no label": 1}
    assert found.classes == ("refund", "other")
    assert str(found) == "2 labels of 2 items; 1 matches no item: zzz; 1 skipped (no label)"
    path.write_text("row,label\n5000,other\n5001,other\n3,other\n")
    assert str(read_labels(path, project())).endswith("2 match no item: row 5000, row 5001")
    path.write_text("a,label\n5000,other\n")
    with pytest.raises(el.EverylabelError, match=r"one of ids \(id, item, item_id, key\), row or texts"):
        read_labels(path, project())


def test_columns_are_matched_by_options_and_by_text(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"uid": "d", "mark": 1.0}\n{"uid": "b", "mark": 2}\n')
    found = read_labels(path, project(), id_column="uid", label_column="mark")
    assert [(label.id, label.label) for label in found.labels] == [("d", "1"), ("b", "2")]
    with pytest.raises(EverylabelError, match=r"column 'who' is not in .*expected one of 'uid', 'mark'"):
        read_labels(path, project(), person_column="who")
    with pytest.raises(EverylabelError, match="has columns uid, mark; expected one of labels"):
        read_labels(path, project())
    path.write_text('{"text": " send money ", "label": "x"}\n{"id": "a", "text": "again", "label": "y"}\n')
    rows = [(label.id, label.label) for label in read_labels(path, project()).labels]
    assert rows == [("b", "x"), ("d", "y")]  # an id whose text is another item's does not count


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_exported_labels_can_be_imported(tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra everylabel[export]")
    p = project()
    given = [Given(2, "Ann", 1, 1.0, 1), Given(0, "@Bob", 0, 2.0, 2), Given(0, "Ann", None, 3.0, 3)]
    records = answer_records(item_columns(p), given, ["no", "+yes"])
    path = tmp_path / f"answers.{form}"
    path.write_bytes(b"".join(write_table(records, form)))
    found = read_labels(path, p)
    assert [tuple(label) for label in found.labels] == [("-c", "+yes", "Ann"), ("a", "no", "@Bob")]
    assert found.skipped == {"no label": 1}


ODD = [
    "=x",
    "'=x",
    "''=x",
    "'x",
    "-5",
    "'-5",
    " =x",
    "\t=x",
    "@'",
    'a,"b"',
    "a\nb",
    "a\r\nb",
    "a\rb",
    "\r=x",
    "+",
    "ü",
]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_every_id_class_and_person_survives_a_round_trip(tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra everylabel[export]")
    classes = [text for text in ODD if text.isprintable() and text == text.strip()]
    answers = [Given(i, classes[-1 - i % 9], i % 9, 1.0, i) for i in range(len(ODD))]
    path = tmp_path / f"answers.{form}"
    path.write_bytes(b"".join(write_table(answer_records(known(ODD), answers, classes), form)))
    expected = [(ODD[given.item], classes[int(str(given.label or 0))], given.person) for given in answers]
    assert [tuple(label) for label in read_labels(path, project("features", tuple(ODD))).labels] == expected


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_every_text_survives_a_round_trip(tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra everylabel[export]")
    texts = tuple(text for text in ODD if text == text.strip())
    names = [f"i{i}" for i in range(len(texts))]
    rows = Records({"text": str, "label": str}, list(zip(texts, names, strict=True)))
    path = tmp_path / f"labels.{form}"
    path.write_bytes(b"".join(write_table(rows, form)))
    labels = read_labels(path, project("text", tuple(names), texts)).labels
    assert [(label.id, label.label) for label in labels] == [(name, name) for name in names]


def test_guarded_id_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n'=a,x\n''=b,x\n")
    labels = read_labels(path, project("features", ("=a", "'=b", "c", "d"))).labels
    assert [label.id for label in labels] == ["=a", "'=b"]


def test_cell_that_only_looks_guarded_is_found(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n'=a,x\n'=b,x\n")  # of the ids =a and '=b
    found = read_labels(path, project("features", ("=a", "'=b", "c", "d"))).labels
    assert [label.id for label in found] == ["=a", "'=b"]
    path.write_text("text,label\n'@ann said so,x\n")
    items = project()
    items = replace(items, display=Texts(["one", "'@ann said so", "two", "three"]))
    assert [label.id for label in read_labels(path, items).labels] == [items.ids[1]]


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", "[" * 100_000])
def test_file_that_is_no_export_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(EverylabelError, match="is not "):
        read_labels(tmp_path / "x.json", project())
    with pytest.raises(EverylabelError, match="does not exist"):
        read_labels(tmp_path / "nothing.csv", project())


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_columns_of_0_and_1_are_labels_of_several_classes(tmp_path: Path, ending: str) -> None:
    rows = pd.DataFrame({"id": ["a", "b", "-c", "d"], "x": [1, 0, 1, None], "y": [0, 0, None, None]})
    path = tmp_path / f"labels.{ending}"
    match ending:
        case "csv":
            rows.to_csv(path, index=False)
        case "parquet":
            rows.to_parquet(path)
        case _:
            rows.to_json(path, orient="records", lines=ending == "jsonl")
    several = replace(project(), about=Remembered("p", "p", Options(label_separator=";")))
    found = read_labels(path, several, label_column="x,y")
    assert [(one.id, json.loads(one.label)) for one in found.labels] == [
        ("a", ["x"]),
        ("b", []),
        ("-c", {"x": 1}),
    ]
    assert found.skipped == {"no label": 1}
    for given, missing in ((several, "z"), (project(), "x,z")):
        with pytest.raises(EverylabelError, match=f"column '{missing}' is not in"):
            read_labels(path, given, label_column="x,z")


def test_text_column_of_any_name_and_several_labels_of_one_text(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "message,label,person\nsend money,x,\nsend money,y,\nsend money,z,Ann\nagain,y,\nagain,y,\n"
    )
    with pytest.raises(EverylabelError, match="--import-text-column"):
        read_labels(path, project())
    found = read_labels(path, project(), text_column="message")
    assert {label.id for label in found.labels} == {"b", "d"}
    assert str(found).endswith("1 item has several labels, the last was taken: b")


def test_source_columns_keep_their_types_and_ours_their_names() -> None:
    columns: dict[str, list[Any]] = {
        "label": ["old", None, "old", "x"],
        "n": [1, 2, None, 4],
        "more": [{"a": [1]}, None, "é", True],
    }
    told = item_columns(replace(project(), columns=columns))
    rows = whole(label_records(told, {0: 1, 1: 0, 3: 1}, CLASSES), "jsonl")
    assert rows[0] == {
        "id": "a",
        "row": 0,
        "label": "no",
        "source_label": "old",
        "n": 1,
        "more": '{"a": [1]}',
    }
    assert rows[1] == {"id": "b", "row": 1, "label": "+ve", "source_label": None, "n": 2, "more": None}
    types = label_records(told, {}, CLASSES).columns
    assert types == {"id": str, "row": int, "label": str, "source_label": str, "n": int, "more": str}
