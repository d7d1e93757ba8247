"""Every source is read as `Items`, by the commands and by the library."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import everylabel as el
from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data import Items
from everylabel.data.display import Pictures, Rows, Texts
from everylabel.data.items import Options
from everylabel.data.read import dataset_name, read, read_rows
from everylabel.data.source_diff import RecordedRows, compare

TEXTS = ["one text", " ", "another text"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    rows = [{"body": text, "mark": mark, "n": 3} for text, mark in zip(TEXTS, ["b ", "c", "a"], strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def some(n: int = 3, **fields: Any) -> Items:
    ids = [str(i) for i in range(n)]
    return Items([f"text {i}" for i in range(n)], "text", ids, np.arange(n), ("a", "b", "c")[:n], **fields)


def test_a_table_for_a_command(table: Path) -> None:
    items = read(table, Options(label_column="mark"))
    assert (items.items, list(items.ids), items.skipped) == (["one text", "another text"], ["0", "2"], ("1",))
    assert (items.labels.tolist(), items.classes) == ([1, 0], ("a", "b", "c"))
    assert isinstance(items.display, Texts)
    assert items.display.item(1)["fields"] == [["n", "3"]]
    assert len(items.digests) == 2
    assert items.chosen == {"text_column": "body"}
    assert [note[:16] for note in items.notes] == ["column 'body' is", "1 label(s) had w"]


def test_read_items_keeps_only_classes_of_remaining_rows_and_no_other_columns(table: Path) -> None:
    with pytest.warns(EverylabelWarning):
        items = el.read_items(table, text_column="body", label_column="mark")
    assert (items.labels.tolist(), items.classes) == ([1, 0], ("a", "b"))
    assert items.display.item(0)["fields"] == []
    with pytest.warns(EverylabelWarning):
        given = el.read_items(table, text_column="body", label_column="mark", classes=["c", "b", "a"])
    assert (given.labels.tolist(), given.classes) == ([1, 2], ("c", "b", "a"))


def test_every_row_keeps_its_place_when_it_is_only_embedded(table: Path, tmp_path: Path) -> None:
    items = read_rows(table, Options("body"))
    assert (list(items.items), len(items), items.kind) == (TEXTS, 3, "text")
    (tmp_path / "x.csv").write_text("file\na.png\n\nb.png\n")
    images = read_rows(tmp_path / "x.csv", Options(image_column="file"))
    assert images.items == [tmp_path / "a.png", tmp_path / "b.png"]
    with pytest.raises(EverylabelError, match="--image-column 'b'; expected one only"):
        read_rows(table, Options("a", "b"))


def test_arrays_for_a_command_and_for_the_library(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, X=np.eye(2), y=[1, 0], classes=["no", " yes"])
    items = read(path, Options())
    assert (items.kind, items.labels.tolist(), items.classes) == ("features", [-1, -1], ("no", " yes"))
    assert any("--label-column y" in advice for advice in items.advice)
    assert items.notes == ()
    assert isinstance(items.display, Rows)
    for taken in (read(path, Options(label_column="y")), el.read_items(path, label_column="not looked at")):
        assert (taken.labels.tolist(), taken.classes) == ([1, 0], ("no", " yes"))
        assert taken.items is taken.features
    np.savez(path, X=np.array([[1.0, np.nan]]))
    assert len(el.read_items(path)) == 1
    with pytest.raises(EverylabelError, match="NaN or infinity, first in row 0"):
        read(path, Options())


def test_a_folder_for_a_command(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "cats" / "a.png")
    (tmp_path / "broken.png").write_text("")
    items = read(tmp_path, Options())
    assert list(items.ids) == ["broken.png", "cats/a.png"]  # what is broken shows when it is embedded
    assert isinstance(items.display, Pictures)
    assert (items.classes, len(items.advice), len(items.digests)) == ((), 1, 2)
    assert read(tmp_path, Options(label_column="folder")).labels.tolist() == [-1, 0]


def test_a_dataset_by_name() -> None:
    items = read("digits", Options())
    assert (len(items), items.kind, set(items.labels.tolist())) == (1797, "image", {-1})
    assert isinstance(items.display, Pictures)
    assert items.truth is not None
    assert items.features is not None
    assert items.features.dtype == np.float32
    part = items.without(range(10, 1797))
    assert (part.items.shape, part.features is not None, part.truth is not None) == ((10, 8, 8), True, True)
    assert part.display.picture(9) == items.display.picture(9)
    with pytest.raises(EverylabelError, match="--classes is for own data; digits has 0, 1"):
        read("digits", Options(classes=("a",)))
    assert dataset_name("CIFAR-10") == "cifar10"


def test_urls_and_empty_ids_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("file,id\nhttps://example.org/a.png,a\nb.png,\n")
    with pytest.raises(EverylabelError, match="holds 1 URLs"):
        el.read_items(path, image_column="file")
    with pytest.raises(EverylabelError, match="'id' is empty in row 2"):
        el.read_items(path, text_column="file", id_column="id")


def test_items_without_some() -> None:
    items = some(digests=["x", "y", "z"], truth=np.array([2, 1, 0]), display=Texts(["t0", "t1", "t2"]))
    left = items.without([1])
    assert (left.items, left.ids, left.skipped) == (["text 0", "text 2"], ["0", "2"], ("1",))
    assert (left.labels.tolist(), left.digests, left.classes) == ([0, 2], ["x", "z"], ("a", "b", "c"))
    assert left.truth is not None
    assert left.truth.tolist() == [2, 0]
    assert left.display.text(1) == "t2"
    assert items.without([]) is items


def test_classes_named_again() -> None:
    items = some(truth=np.array([2, -1, 1]))
    merged = items.renamed(["x", "y", "x"])
    assert (merged.classes, merged.labels.tolist()) == (("x", "y"), [0, 1, 0])
    assert merged.truth is not None
    assert merged.truth.tolist() == [0, -1, 1]
    assert items.renamed([None, "b", "c"]).labels.tolist() == [-1, 0, 1]
    assert items.renamed(["a", "b", "c"]) is items


def test_texts_where_features_were_are_other_content() -> None:
    items = some(digests=["x", "y", "z"])
    assert compare(RecordedRows(items.ids, ["one hash in all"]), items).changed == ("0", "1", "2")
