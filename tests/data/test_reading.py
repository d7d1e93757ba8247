"""read_items: data from every kind of file, and errors for bad data."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data.items import Options
from everylabel.data.read import read, read_rows
from everylabel.data.readers.rows import Column, column_names
from everylabel.data.readers.table import read_whole
from tests.data.spreadsheets import write_xlsx

TEXTS = ["my card, lost", 'he said "no"', "two\nlines"]
LABELS = ["loss", "refusal", ""]


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    quoted = [delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    path.write_text("\n".join(quoted) + "\n")
    return path


def table(**columns: Any) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.fixture(
    params=["csv", "semicolons", "tsv", "bom", "json", "jsonl", "xlsx", "parquet", "frame", "dataset"]
)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The same three rows in every form."""
    rows = table(id=["a", "b", "c"], body=TEXTS, label=LABELS)
    cells = [["id", "body", "label"], *([row["id"], row["body"], row["label"]] for row in rows)]
    kind = request.param
    if kind in ("csv", "semicolons", "tsv"):
        delimiter = {"csv": ",", "semicolons": ";", "tsv": "\t"}[kind]
        return write_csv(tmp_path / f"x.{'tsv' if kind == 'tsv' else 'csv'}", cells, delimiter)
    if kind == "bom":
        path = write_csv(tmp_path / "x.csv", cells)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        return path
    if kind == "xlsx":
        return write_xlsx(tmp_path / "x.xlsx", [[cell or None for cell in row] for row in cells])
    if kind == "json":
        (tmp_path / "x.json").write_text(json.dumps(rows))
        return tmp_path / "x.json"
    if kind == "jsonl":
        path = tmp_path / "x.jsonl"
        path.write_text("\n\n".join(json.dumps(row) for row in rows))
        return path
    if kind == "dataset":  # as Hugging Face's: column names, columns, class labels with names
        features = {"label": SimpleNamespace(names=["loss", "refusal"])}
        columns = {"id": ["a", "b", "c"], "body": TEXTS, "label": [0, 1, -1]}

        class Dataset(dict[str, Any]):
            column_names = property(list)

        dataset = Dataset(columns)
        dataset.features = features  # type: ignore[attr-defined]
        return dataset
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    frame = pandas.DataFrame(rows)
    if kind == "frame":
        return frame
    frame.to_parquet(tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def test_every_source_reads_alike(source: Any) -> None:
    items = el.read_items(source, text_column="body", label_column="label", id_column="id")
    assert items.items == TEXTS
    assert items.labels.tolist() == [0, 1, -1]
    assert items.classes == ("loss", "refusal")
    assert list(items.ids) == ["a", "b", "c"]
    assert repr(items) == "Items(3 of kind 'text', 2 labelled, 2 classes)"
    assert len(el.embed(items, "tfidf")) == 3
    plain = el.read_items(source, text_column="body")
    assert list(plain.ids) == ["0", "1", "2"]
    assert plain.labels.tolist() == [-1, -1, -1]


def test_a_missing_column_is_named_with_those_there_are(source: Any) -> None:
    with pytest.raises(el.EverylabelError, match=r"column 'text' is not in .*'id', 'body', 'label'"):
        el.read_items(source, text_column="text")


def test_a_column_can_be_counted_and_read_again(tmp_path: Path) -> None:
    column = Column(write_csv(tmp_path / "x.csv", [["body"], *([text] for text in TEXTS)]), "body")
    assert len(column) == 3
    assert list(column) == list(column) == TEXTS


def test_labels_and_texts_are_cleaned_and_counted(tmp_path: Path) -> None:
    rows = [["t", "y"], ["one", " yes"], ["two", "yes"], ["  ", "no"], ["four", "no\t"]]
    path = write_csv(tmp_path / "x.csv", rows)
    with pytest.warns(EverylabelWarning) as caught:
        items = el.read_items(path, text_column="t", label_column="y")
    told = [str(warning.message) for warning in caught]
    assert told == [
        "1 of 4 texts are empty and were skipped: 2",
        "2 label(s) had white space around them, which was removed",
    ]
    assert all(warning.filename.endswith(".py") for warning in caught)
    assert items.skipped == ("2",)
    assert (items.labels.tolist(), items.classes) == ([1, 1, 0], ("no", "yes"))


def test_single_lines_that_are_not_utf8_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("\ufeffbody\ncaf\u00e9\n".encode() + b"caf\xe9\n")
    with pytest.warns(EverylabelWarning, match=r"x\.csv is not UTF-8; 1 line.*the first is line 3"):
        items = el.read_items(path, text_column="body")
    assert items.items == ["caf\u00e9", "caf\u00e9"]


def test_latin_1_and_windows_files_are_noticed_and_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("Gr\u00f6\u00dfe,body\n1,caf\u00e9 \u20ac\n2,plain\n".encode("cp1252"))
    with pytest.warns(EverylabelWarning, match=r"x\.csv is not UTF-8; 2 line\(s\) were read as Windows-1252"):
        items = el.read_items(path, text_column="body", id_column="Gr\u00f6\u00dfe")
    assert items.items == ["caf\u00e9 \u20ac", "plain"]
    path.write_bytes(b"body\n\x81\xe9\n")  # no such character in Windows-1252
    with pytest.warns(EverylabelWarning, match="not UTF-8"):
        assert el.read_items(path, text_column="body").items == ["\x81\u00e9"]
    path.write_bytes("body\ncaf\u00e9\nplain\n".encode("latin-1"))
    assert el.read_items(path, text_column="body", encoding="latin-1").items[0] == "caf\u00e9"
    path.write_bytes("body\ncaf\u00e9\n".encode("utf-16"))
    with pytest.raises(el.EverylabelError, match="UTF-16; pass encoding='utf-16'"):
        el.read_items(path, text_column="body")
    assert el.read_items(path, text_column="body", encoding="utf-16").items == ["caf\u00e9"]
    with pytest.raises(el.EverylabelError, match="cannot be read as 'ascii'"):
        el.read_items(path, text_column="body", encoding="ascii")


def test_bad_files_are_named(tmp_path: Path) -> None:
    def read(name: str, content: bytes, **options: Any) -> None:
        (tmp_path / name).write_bytes(content)
        el.read_items(tmp_path / name, **{"text_column": "t", **options})

    cases: list[tuple[str, bytes, dict[str, Any], str]] = [
        ("x.csv", b"", {}, "is empty"),
        ("x.csv", b"t\n", {}, "a header and no rows"),
        ("x.csv", b"t,u\ra,b\rc,d\r", {}, "is not a valid CSV file: new-line"),
        ("x.csv", b"t\n \n", {}, "all texts are empty"),
        ("x.csv", b"t\na\n", {"text_column": None}, "text_column or image_column is needed"),
        ("x.csv", b"t\na\n", {"image_column": "t"}, "one only"),
        ("x.csv", b"t,i\na,1\nb,2\nc,1\n", {"id_column": "i"}, "ids are not unique, 1 occur again: 1;"),
        ("x.jsonl", b'{"t": "a"}\n{"t": \n', {}, "line 2 of .* is not JSON"),
        ("x.jsonl", b"[1]\n", {}, "line 1 of .* is not an object"),
        ("x.docx", b"x", {}, "unknown ending"),
        ("x.npy", b"x", {}, "empty or damaged"),
        ("x.npz", b"", {}, "empty or damaged"),
    ]
    for name, content, options, message in cases:
        with pytest.raises(el.EverylabelError, match=message):
            read(name, content, **options)
    pytest.importorskip("pyarrow", reason="needs the extra everylabel[table]")
    with pytest.raises(el.EverylabelError, match="not a Parquet file"):
        read("x.parquet", b"PAR1 nonsense")
    with pytest.raises(el.EverylabelError, match="does not exist"):
        el.read_items(tmp_path / "gone.csv")
    with pytest.raises(el.EverylabelError, match="with splits train, test; pass one"):
        el.read_items({"train": 1, "test": 2}, text_column="t")


def test_arrays(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float16).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    items = el.read_items(tmp_path / "x.npy")
    assert isinstance(items.items, np.memmap)
    assert (items.kind, items.labels.tolist()) == ("features", [-1] * 4)
    np.savez(tmp_path / "x.npz", X=x, y=[0, 1, -1, 1], classes=["a", "b"], ids=["p", "q", "r", "s"])
    items = el.read_items(tmp_path / "x.npz")
    assert (items.labels.tolist(), items.classes, items.ids[3]) == ([0, 1, -1, 1], ("a", "b"), "s")
    (tmp_path / "shown.csv").write_text("text\none\ntwo\nthree\nfour\n")
    labels_of_file = Options("text", label_column="y", show=str(tmp_path / "shown.csv"))
    shown = read(str(tmp_path / "x.npz"), labels_of_file)
    assert (shown.labels.tolist(), shown.display.item(1)["text"]) == ([0, 1, -1, 1], "two")
    np.savez(tmp_path / "x.npz", features=x, labels=["b", "a", " a", "b"])
    with pytest.warns(EverylabelWarning, match="1 label"):
        assert el.read_items(tmp_path / "x.npz").labels.tolist() == [1, 0, 0, 1]
    bad: list[tuple[dict[str, Any], str]] = [
        ({"z": x}, "holds z; expected numbers X"),
        ({"X": x, "y": [0, 1]}, "another length"),
        ({"X": x, "y": [0, 1, 2, 9], "classes": ["a"]}, "labels from 0 to 9 and 1 classes"),
        ({"X": x, "ids": ["p", "p", "q", "r"]}, "ids are not unique"),
    ]
    for arrays, message in bad:
        np.savez(tmp_path / "x.npz", **arrays)
        with pytest.raises(el.EverylabelError, match=message):
            el.read_items(tmp_path / "x.npz")


def test_a_folder_of_images_and_a_column_of_paths(tmp_path: Path) -> None:
    from PIL import Image as pil

    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/broken.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pil.new("RGB", (9, 9)).save(tmp_path / name)
    (tmp_path / "dog" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    with pytest.warns(EverylabelWarning, match=r"1 of 4 images.*broken\.png"):
        items = el.read_items(tmp_path)
    assert list(items.ids) == ["cat/1.png", "cat/2.png", "dog/1.png"]
    assert (items.labels.tolist(), items.classes) == ([0, 0, 1], ("cat", "dog"))
    assert items.skipped == ("dog/broken.png",)
    assert len(el.embed(items, "pixels")) == 3
    path = write_csv(tmp_path / "x.csv", [["file", "y"], ["cat/1.png", "tom"], ["dog/1.png", "rex"]])
    items = el.read_items(path, image_column="file", label_column="y")
    assert (items.items[1], items.classes) == (tmp_path / "dog/1.png", ("rex", "tom"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(el.EverylabelError, match="holds no images"):
        el.read_items(tmp_path / "empty")


def test_hugging_face_datasets() -> None:
    datasets = pytest.importorskip("datasets", reason="needs the library datasets")
    features = datasets.Features({"t": datasets.Value("string"), "y": datasets.ClassLabel(names=["b", "a"])})
    data = datasets.Dataset.from_dict({"t": ["one", "two"], "y": [0, 1]}, features=features)
    items = el.read_items(data, text_column="t", label_column="y")
    assert (items.labels.tolist(), items.classes) == ([0, 1], ("b", "a"))
    with pytest.raises(el.EverylabelError, match="with splits train"):
        el.read_items(datasets.DatasetDict(train=data), text_column="t")


def test_the_order_of_class_names_is_kept(tmp_path: Path) -> None:
    class Dataset(dict[str, Any]):
        column_names = property(list)
        features = {"y": SimpleNamespace(names=["world", "sports", "business"])}  # noqa: RUF012

    data = Dataset({"t": ["one", "two", "three"], "y": [1, 0, -1]})
    items = el.read_items(data, text_column="t", label_column="y")
    assert (items.labels.tolist(), items.classes) == ([1, 0, -1], ("world", "sports", "business"))
    order = ["business", "world", "sports"]
    items = el.read_items(data, text_column="t", label_column="y", classes=order)
    assert (items.labels.tolist(), items.classes) == ([2, 1, -1], tuple(order))
    np.savez(tmp_path / "x.npz", X=np.zeros((3, 2)), y=[1, 0, -1], classes=["a", "b"])
    assert el.read_items(tmp_path / "x.npz", classes=["c", "b", "a"]).labels.tolist() == [1, 2, -1]
    path = write_csv(tmp_path / "x.csv", [["t", "y"], ["one", "10"], ["two", "9"], ["three", ""]])
    items = el.read_items(path, text_column="t", label_column="y", classes=[9, 10])  # type: ignore[list-item]
    assert (items.labels.tolist(), items.classes) == ([1, 0, -1], ("9", "10"))
    with pytest.raises(el.EverylabelError, match="labels hold '10'; expected classes 8, 9"):
        el.read_items(path, text_column="t", label_column="y", classes=["8", "9"])
    for bad in ([], "ab", ["a", "a"], ["a", ""]):
        with pytest.raises(el.EverylabelError, match=r"classes is .*; expected a list of different names"):
            el.read_items(path, text_column="t", label_column="y", classes=bad)


def test_gaps_of_pandas_are_empty_and_whole_numbers_stay_whole() -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    frame = pandas.DataFrame({"t": ["one", "two", "three", "four"], "y": [1, 2, None, 10]})
    for kind in ("float64", "float32", "Int64", object):
        items = el.read_items(frame.astype({"y": kind}), text_column="t", label_column="y")
        assert (items.labels.tolist(), items.classes) == ([0, 2, -1, 1], ("1", "10", "2")), kind
    frame["y"] = [0.5, 1.0, pandas.NA, pandas.NaT]
    items = el.read_items(frame, text_column="t", label_column="y")
    assert (items.labels.tolist(), items.classes) == ([0, 1, -1, -1], ("0.5", "1"))
    frame["t"] = pandas.Series(["one", pandas.NA, pandas.NaT, "four"], dtype=object)
    with pytest.warns(EverylabelWarning, match="2 of 4 texts are empty"):
        assert el.read_items(frame, text_column="t").items == ["one", "four"]


def test_a_gap_in_a_column_of_images_is_a_broken_image(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    from PIL import Image as pil

    pil.new("RGB", (9, 9)).save(tmp_path / "a.png")
    frame = pandas.DataFrame(
        {"file": pandas.Series([str(tmp_path / "a.png"), None, float("nan")], dtype=object)}
    )
    with pytest.warns(EverylabelWarning, match="2 of 3 images cannot be read"):
        items = el.read_items(frame, image_column="file")
    assert items.skipped == ("1", "2")


def test_tables_find_out_delimiter_and_encoding(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    path = tmp_path / "x.csv"
    for delimiter in ",;\t":
        path.write_bytes(b"\xef\xbb\xbf" + delimiter.join(["age", "city\n1", "Oslo\n2", "Rome\n"]).encode())
        table = read_whole(path)
        assert (list(table.columns), table["age"].tolist()) == (["age", "city"], [1, 2])
    path.write_bytes("age,city\n1,K\u00f6ln\n".encode("latin-1"))
    with pytest.warns(EverylabelWarning, match="read as Windows-1252"):
        assert read_whole(path)["city"].tolist() == ["K\u00f6ln"]
    path.write_bytes("age,city\n1,Oslo\n".encode("utf-16"))
    with pytest.raises(el.EverylabelError, match="is UTF-16"):
        read_whole(path)
    path.write_bytes(b"")
    with pytest.raises(el.EverylabelError, match="is empty; expected a file with names of columns"):
        read_whole(path)


def test_rows_with_more_cells_than_the_header_are_refused_by_default(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,body\n1,hello, there\n2,fine\n3,one, two, three\n4,trailing,\n")
    readers: list[Callable[[], Any]] = [
        lambda: read(path, Options("body")),
        lambda: read_rows(path, Options("body")),
        lambda: el.read_items(path, text_column="body"),
        lambda: read_rows(path, Options()),
    ]
    for reader in readers:
        with pytest.raises(el.EverylabelError) as told:
            reader()
        assert (
            "2 row(s) of x.csv have more cells than the header's 2: line 2 ('1,hello, there'), line 4"
            in str(told.value)
        )
        assert "--long-rows join" in str(told.value)
    for how, texts in (
        ("join", ["hello, there", "fine", "one, two, three", "trailing"]),
        ("cut", ["hello", "fine", "one", "trailing"]),
    ):
        with pytest.warns(EverylabelWarning, match=r"2 row\(s\) of x.csv .*, which were"):
            assert read(path, Options("body", long_rows=how)).items == texts
        with pytest.warns(EverylabelWarning, match=r"2 row\(s\) of x.csv .*, which were"):
            assert list(read_rows(path, Options("body", long_rows=how)).items) == texts
    with pytest.raises(el.EverylabelError, match="--long-rows is 'drop'; expected one of"):
        read(path, Options("body", long_rows="drop"))


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    for name in ("x.csv", "x.jsonl", "x.json"):
        path = tmp_path / name
        for text in ("", "\n\n") if name != "x.json" else ("[]",):
            path.write_text(text)
            for options in (Options(), Options("body"), Options("body", label_column="team")):
                with pytest.raises(
                    el.EverylabelError, match="is empty; expected a file with names of columns"
                ):
                    read(path, options)


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_nested_objects_are_columns_by_names_with_dots(tmp_path: Path, ending: str) -> None:
    texts = [{"body": f"text {i}", "from": {"name": "Ada"}} for i in range(3)]
    rows = [{"message": text, "tags": ["a"], "y": "yes"} for text in texts]
    path = tmp_path / f"x.{ending}"
    path.write_text("\n".join(map(json.dumps, rows)) if ending == "jsonl" else json.dumps(rows))
    items = read(str(path), Options(text_column="message.body", label_column="y"))
    assert list(items.items) == ["text 0", "text 1", "text 2"]
    assert column_names(path) == ["message.body", "message.from.name", "tags", "y"]
    with pytest.raises(el.EverylabelError, match=r"'message' is not in .* expected one of 'message.body'"):
        read(str(path), Options(text_column="message"))


def test_nan_is_an_empty_cell_unless_a_class_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,y\na card,yes\nsome money,nan\na house,\nan offer,None\n")
    items = read(str(path), Options(text_column="text", label_column="y"))
    assert items.classes == ("None", "yes")
    assert items.labels.tolist() == [1, -1, -1, 0]
    assert any("1 label is 'nan' and counted as an empty cell" in note for note in items.notes)
    assert any("'None' among the labels became a class" in note for note in items.notes)
    named = read(str(path), Options(text_column="text", label_column="y", classes=("yes", "nan", "None")))
    assert named.labels.tolist() == [0, 1, -1, 2]
    assert named.notes == ()


def test_json_is_a_list_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"version": 1, "rows": [{"body": "a text"}, {"body": "b", "n": 2}]}))
    items = read(path, Options("body"))
    assert (items.items, list(items.columns["n"])) == (["a text", "b"], [None, 2])
    for text in ('{"a": 1}', "[1]", "{"):
        path.write_text(text)
        with pytest.raises(el.EverylabelError, match=r"is not (JSON|a list of objects)"):
            read(path, Options("body"))


def test_a_spreadsheet_is_read_as_it_is_shown(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["id", "body", None, "day", "sure"],
        [7, "a text", None, (45366, 1), True],
        [None, None, None, None, None],
        [8.5, "b _x000D_", None, (45366.2916666667, 2), (3.5, 3)],
        [9, ("", 0)],
    ]
    path = write_xlsx(tmp_path / "x.xlsx", rows, ("First", "Second"))
    with pytest.warns(EverylabelWarning, match="has 2 sheets; the first is read, 'First', not Second"):
        items = read(path, Options("body"))
    assert (list(items.own_ids or ()), items.rows, items.skipped) == (["7", "8.5"], [0, 1], ("9",))
    assert items.items == ["a text", "b \r"]
    assert items.columns["day"] == ["2024-03-15", "2024-03-15T07:00:00"]
    assert items.columns["sure"] == [True, 3.5]
    write_xlsx(path, [["body"], ["a", "b"]])
    with pytest.raises(
        el.EverylabelError, match=r"1 row\(s\) of x.xlsx have more cells than the header's 1: row 2"
    ):
        read(path, Options("body"))
    path.write_text("no archive")
    with pytest.raises(el.EverylabelError, match=r"is not an \.xlsx file"):
        read(path, Options("body"))


def test_ids_are_looked_for_and_must_name_every_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for header, ids, chosen in (
        ("id,body", ("1", "2"), "id"),
        ("ID,body", ("a", "b"), "ID"),
        ("ticket_id,body", ("a", "b"), "ticket_id"),
        ("stars,body", ("1", "2"), None),
        ("id,body", ("1", "1"), None),
        ("id,body", ("1", ""), None),
    ):
        path.write_text(f"{header}\n{ids[0]},one text\n{ids[1]},another text\n")
        items = read(path, Options())
        assert (items.chosen.get("id_column"), items.id_column) == (chosen, chosen)
        assert items.own_ids == (list(ids) if chosen else None)
        assert list(items.ids) == (list(ids) if chosen else ["0", "1"])
        assert any("the ids" in note or "used for ids" in note for note in items.notes) == (header[0] != "s")
        assert read(path, Options(id_column="none")).own_ids is None
    with pytest.raises(el.EverylabelError, match=r"is empty in row 2; expected .* --id-column none"):
        read(path, Options(id_column="id"))
    with pytest.raises(el.EverylabelError, match=r"'uid' is not in .* one of 'id', 'body'"):
        read(path, Options(id_column="uid"))


def test_show_of_no_table_is_named_as_such(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    (tmp_path / "notes.txt").write_text("a b")
    with pytest.raises(
        EverylabelError, match=r"--show '.*notes.txt' is not a table; expected a row for each row"
    ):
        read(str(tmp_path / "x.npy"), Options(show=str(tmp_path / "notes.txt")))
