"""The parts of a source have the rows that the readers read, for any size of a part."""

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data.cells import text_of
from everylabel.data.items import Options
from everylabel.data.readers.rows import read_rows
from everylabel.scale.manifest import Manifest, open_or_create
from everylabel.scale.sources import Source, open_source

TEXTS = ["plain", 'with "quotes", and a comma', "two\nlines", "", "  ", "ünïcode", "\n\n", "a,b;c\td", "last"]


def in_parts(place: Path | str, options: Options, size: int) -> list[Any]:
    """Return all values, part by part, and see that the parts say what they hold."""
    with TemporaryDirectory() as folder:
        source = open_source(str(place), options, folder)
        manifest = open_or_create(folder, {}, ".npy", source.place, source.files, source.counts, size)
        return _values(source.with_rows(manifest), manifest, size)


def _values(source: Source, manifest: Manifest, size: int) -> list[Any]:
    values: list[Any] = []
    for number, part in enumerate(manifest.parts):
        assert (part.number, part.first) == (number, len(values))
        found = list(source.values(part))
        assert len(found) == part.rows <= size
        values += found
    return values


def written(folder: Path, ending: str) -> Path:
    path = folder / f"source{ending}"
    if ending in (".csv", ".tsv"):
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter="\t" if ending == ".tsv" else ",")
        writer.writerows([["n", "body"], *([i, one] for i, one in enumerate(TEXTS))])
        path.write_bytes(
            text.getvalue().replace("\r\n7,", "\r\n\r\n\r\n7,").encode()
        )  # empty rows count for none
    elif ending == ".jsonl":
        lines = [json.dumps({"n": i, "body": one}) for i, one in enumerate(TEXTS)]
        path.write_text("\n\n".join(lines) + "\n")
    else:
        arrow = pytest.importorskip("pyarrow", reason="needs the extra everylabel[table]")
        table = arrow.table({"n": list(range(len(TEXTS))), "body": TEXTS})
        arrow.parquet.write_table(table, path, row_group_size=4)
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("size", [1, 2, 4, 5, 9, 100])
def test_parts_hold_the_rows_that_the_readers_read(tmp_path: Path, ending: str, size: int) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow.parquet", reason="needs the extra everylabel[table]")
    path = written(tmp_path, ending)
    slow = [text_of(row["body"]) for row in read_rows(path, ["body"])]
    assert in_parts(path, Options("body"), size) == slow == TEXTS


def test_part_can_span_two_files(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra everylabel[table]")
    arrow = pytest.importorskip("pyarrow")
    words, at = [f"text number {i}" for i in range(23)], 0
    for name, n in (("a", 7), ("b", 0), ("c", 1), ("d", 15)):
        table = arrow.table({"body": arrow.array(words[at : at + n], arrow.string())})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
        at += n
    (tmp_path / "_SUCCESS").write_text("")
    for size in (1, 3, 8, 23, 50):
        assert in_parts(tmp_path, Options("body"), size) == words
    assert in_parts(tmp_path, Options(), 5) == words  # the column is found


def test_byte_order_marks_encodings_and_long_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xef\xbb\xbfbody,n\nfirst,1\nsecond,2\n")
    assert in_parts(path, Options("body"), 1) == ["first", "second"]
    path.write_bytes("body\nschön\nwärme\n".encode("latin-1"))
    assert in_parts(path, Options("body", encoding="latin-1"), 1) == ["schön", "wärme"]
    with pytest.warns(EverylabelWarning, match="2 line"):
        assert in_parts(path, Options("body"), 1) == ["schön", "wärme"]  # read as Windows-1252
    path.write_text("n,body\n1,one, two\n2,three\n")
    with pytest.raises(EverylabelError, match=r"1 row.s. of x.csv have more cells"):
        in_parts(path, Options("body"), 1)
    with pytest.warns(EverylabelWarning, match="joined to the last"):
        assert in_parts(path, Options("body", long_rows="join"), 1) == ["one, two", "three"]
    with pytest.warns(EverylabelWarning, match="left out"):
        assert in_parts(path, Options("body", long_rows="cut"), 1) == ["one", "three"]
    path.write_text("body\nx\n", encoding="utf-16")
    with pytest.raises(EverylabelError, match="is UTF-16; pass"):
        in_parts(path, Options("body"), 1)
    assert in_parts(path, Options("body", encoding="utf-16"), 1) == ["x"]


def test_source_in_another_store(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs the extra everylabel[ray]")
    with fsspec.open("memory://bucket/source.csv", "wb") as file:
        file.write(written(tmp_path, ".csv").read_bytes())
    assert in_parts("memory://bucket/source.csv", Options("body"), 2) == TEXTS
    with pytest.raises(EverylabelError, match="nowhere://x"):
        open_source("nowhere://x", Options("body"), str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x.csv", b"", "is empty"),
        ("x.csv", b"body\n", "has no rows"),
        ("x.jsonl", b'{"body": "a"}\n{"body": \n', "line 2 of .* is not JSON"),
        ("x.jsonl", b'{"body": "a"}\n[1]\n', "is not an object"),
        ("x.parquet", b"PAR1 nothing", "is not a Parquet file"),
        ("x.xlsx", b"", "cannot be split into shards"),
        ("x.csv", b"text\na\n", "column 'body' is not in"),
    ],
)
def test_bad_input_gets_a_sentence(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra everylabel[table]")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EverylabelError, match=told):
        in_parts(tmp_path / name, Options("body"), 2)


def test_source_that_is_missing_or_has_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EverylabelError, match="does not exist; expected a file"):
        open_source(str(tmp_path / "x.csv"), Options(), "s")
    with pytest.raises(EverylabelError, match=r"holds no \.parquet files"):
        open_source(str(tmp_path), Options(), "s")
    (tmp_path / "x.csv").write_text("age,stars\n1,2\n3,4\n")
    with pytest.raises(EverylabelError, match="none looks like text; pass --text-column"):
        open_source(str(tmp_path / "x.csv"), Options(), "s")
    with pytest.raises(EverylabelError, match="expected one only"):
        open_source(str(tmp_path / "x.csv"), Options("age", "stars"), "s")
