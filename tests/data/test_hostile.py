"""Malicious sources are cleaned, or refused in a sentence."""

import json
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.data import digests, media
from everylabel.data.items import Options
from everylabel.data.read import read
from everylabel.data.readers.rows import read_rows
from everylabel.projects.folder import remembered
from tests.data.spreadsheets import MAIN, write_xlsx


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_half_a_character_is_a_question_mark(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"texts.{ending}"
    half = '{"id": "a\\ud83d", "text": "half \\uD83D of it", "b\\ude00": "\\ude00"}'
    whole = '{"id": "b", "text": "whole \\ud83d\\ude00", "b\\ude00": 1}'
    path.write_text(f"{half}\n{whole}\n" if ending == "jsonl" else f"[{half}, {whole}]")
    items = read(str(path), Options(text_column="text", id_column="id"))
    assert list(items.items) == ["half ? of it", "whole \N{GRINNING FACE}"]
    assert list(items.ids) == ["a?", "b"]
    for i in range(2):
        json.dumps([items.display.item(i), items.display.text(i)], ensure_ascii=False).encode()


def test_an_id_that_cannot_be_asked_for_is_refused_or_not_chosen(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text(f"id,text\n{'x' * 1001},a card\nb,a house\n")
    with pytest.raises(EverylabelError, match=r"row 1 has 1,001 characters.*at most 1,000.*--id-column"):
        read(str(path), Options(text_column="text", id_column="id"))
    assert list(read(str(path), Options(text_column="text")).ids) == ["0", "1"]
    path.write_text(f"id,text\n{'x' * 1000},a card\nb,a house\n")
    assert len(read(str(path), Options(text_column="text")).ids[0]) == 1000


def test_names_of_files_that_are_not_utf8(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    try:
        os.rename(tmp_path / "a.png", os.fsencode(tmp_path) + b"/caf\xe9.png")  # noqa: PTH104
    except OSError:
        pytest.skip("this system has no such names")
    items = read(str(tmp_path), Options())
    assert list(items.ids) == ["caf\\xe9.png"]
    assert items.display.picture(0)[1] == "image/png"


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_json_nested_without_end(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"deep.{ending}"
    path.write_text('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(EverylabelError, match="is not JSON"):
        read(str(path), Options(text_column="text"))
    (tmp_path / "project.json").write_text(path.read_text())
    with pytest.raises(EverylabelError, match="is damaged"):
        remembered(tmp_path)


def test_only_arrays_of_known_names_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.ones((3, 2)), other=np.array([None], dtype=object))
    assert len(read(str(tmp_path / "x.npz"), Options())) == 3  # the other one is a pickle


ROWS = '<row><c r="A1" t="str"><v>text</v></c></row><row><c r="A2" t="str"><v>a card</v></c></row>'


def sheet(path: Path, row: str) -> Path:
    """Write a spreadsheet whose last row is odd."""
    write_xlsx(path, [["text"], ["a card"]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{MAIN}"><sheetData>{ROWS}{row}</sheetData></worksheet>'.encode()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(("number", "shown"), [("1e15", str(10**15)), ("-1e9", str(-(10**9)))])
def test_a_date_that_is_none_is_shown_as_its_number(tmp_path: Path, number: str, shown: str) -> None:
    path = sheet(tmp_path / "x.xlsx", f'<row><c s="1"><v>{number}</v></c></row>')
    assert list(read(str(path), Options(text_column="text")).items) == ["a card", shown]


FLOOD = "<x/>" * 300_000


@pytest.mark.parametrize("row", [FLOOD, f"<sheetData>{FLOOD}</sheetData>"])
def test_empty_rows_of_a_sheet_are_dropped(tmp_path: Path, row: str) -> None:
    path = sheet(tmp_path / "x.xlsx", row)
    tracemalloc.start()
    try:
        assert len(read(str(path), Options(text_column="text"))) == 1
        assert tracemalloc.get_traced_memory()[1] < 10e6  # 1.2 MB of XML would take some 25
    finally:
        tracemalloc.stop()


def test_parquet_is_read_as_pyarrow_does_at_any_nesting(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    big = "x" * 50
    table: dict[str, list[Any]] = {
        "text": ["a", None, "b", "a"],
        "tags": [[big, "q"], None, [], [None, big]],
        "about": [
            {"a": big, "n": 1, "c": [big]},
            None,
            {"a": None, "n": None, "c": None},
            {"a": big, "n": 2, "c": []},
        ],
        "deep": [[[big], []], None, [], [[big, None]]],
        "raw": [b"1", None, b"", b"1"],
    }
    wide = {name: values * 1500 for name, values in table.items()}  # more than one batch
    write_table(arrow.table(wide), tmp_path / "x.parquet")
    rows = list(read_rows(tmp_path / "x.parquet", list(table)))
    assert rows == arrow.table(wide).to_pylist()


def test_parquet_with_a_name_that_stands_twice_is_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = arrow.table([["a", "b"], [1, 2], [3, 4]], names=["text", "n", "n"])
    write_table(table, tmp_path / "x.parquet")
    assert list(read(str(tmp_path / "x.parquet"), Options(text_column="text")).items) == ["a", "b"]


def test_features_whose_squares_are_no_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "huge.npy", np.array([[1.0, 2.0], [1e300, 1.0]]))
    with pytest.raises(EverylabelError, match=r"first in row 1; expected numbers up to 1e\+18"):
        read(str(tmp_path / "huge.npy"), Options())


def test_infinite_features_of_half_precision_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "half.npy"
    np.save(path, np.array([[1.0, 2.0], [65504.0, 1.0]], np.float16))
    assert len(read(str(path), Options()).ids) == 2
    np.save(path, np.array([[1.0, 2.0], [np.inf, 1.0]], np.float16))
    with pytest.raises(EverylabelError, match="holds NaN or infinity, first in row 1"):
        read(str(path), Options())


def test_a_pipe_or_a_file_of_the_system_named_as_an_image_is_never_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    (tmp_path / "link.png").symlink_to("/proc/kmsg")
    odd = [pipe, Path("/proc/self/mem"), tmp_path / "link.png"]
    for path in filter(Path.exists, odd):  # opening the pipe would wait for ever
        assert media.open_image(path) is None
        assert media.image_bytes(path) == b"unreadable"
        assert "not a regular file" in media.why_unreadable(path)
        assert digests.content_digest(path) == digests.UNREADABLE
        with pytest.raises(EverylabelError, match=r"no longer exists|not a regular file"):
            media.shown_image(path, "x")


def test_an_image_that_is_postscript_is_run_by_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import EpsImagePlugin

    def ghostscript(*_: object, **__: object) -> Image.Image:
        raise AssertionError("Ghostscript was to be run")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", ghostscript)
    path = tmp_path / "eps.png"
    Image.new("RGB", (20, 20)).save(path, "EPS")
    assert path.read_bytes().startswith(b"%!PS-Adobe-3.0 EPSF")
    assert media.open_image(path) is None
    assert media.open_image(path.read_bytes()) is None
    with pytest.raises(EverylabelError, match="damaged or not an image"):
        media.shown_image(path, "x")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_images_of_usual_formats_are_opened(tmp_path: Path, form: str) -> None:
    path = tmp_path / "image"
    Image.new("RGB", (20, 20), (200, 0, 0)).save(path, form)
    assert media.open_image(path.read_bytes()) is not None
    assert media.shown_image(path, "x")[1].startswith("image/")


def test_pictures_of_too_many_pixels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (2000, 100)).save(path)
    assert media.shown_image(path, "x")[1] == "image/png"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 90_000)  # Pillow refuses twice as many
    with pytest.raises(EverylabelError, match="200000 pixels"):
        media.shown_image(path, "x")
