"""Arguments of el.label: single values for lists, settings, and errors that name arguments."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import everylabel as el
from everylabel.notebook.label import _plain, classes_of, folders_of
from everylabel.projects.options import LabelOptions
from tests.notebook.people import TEXTS


def test_path_is_not_taken_as_a_sequence_of_letters(tmp_path: Path) -> None:
    for name in ("source", "private", "shared"):
        (tmp_path / name).mkdir()
    image = tmp_path / "private" / "a.png"
    Image.new("L", (8, 8)).save(image)
    table = tmp_path / "source" / "images.csv"
    table.write_text(f"photo,kind\n{image},a\n{image},b\n")
    shared = str(tmp_path / "shared")
    with pytest.raises(el.EverylabelError, match=r"lie outside the source's folder .* add images_in /"):
        el.label(table, "a,b", image_column="photo", model="pixels", images_in=shared)
    with pytest.raises(el.EverylabelError, match=r"^fields names body; expected some of photo, kind"):
        el.label(table, "a,b", image_column="photo", model="pixels", fields="body", images_in=[shared])
    assert folders_of(shared) == folders_of(Path(shared)) == folders_of([shared]) == [Path(shared)]
    assert folders_of(()) == []


@pytest.mark.parametrize("fields", [3, [3], ["text", None]])
def test_invalid_field_names_are_reported(fields: Any) -> None:
    with pytest.raises(el.EverylabelError, match=r"^fields has (3|None), a .*; expected names"):
        el.label(TEXTS, "a,b", fields=fields)


def test_class_string_is_split_at_commas() -> None:
    assert classes_of("card", None).names == ["card"]
    assert classes_of("card, 'n' sign,\"a, b\"", None).names == ["card", "'n' sign", "a, b"]
    assert classes_of({"card": "of plastic", "other": ""}, None)[:2] == (
        ["card", "other"],
        {"card": "of plastic", "other": ""},
    )
    assert classes_of(np.array(["b", "a"]), None).names == ["b", "a"]
    for wrong in ([1, 2], {"card": None}, 3):
        with pytest.raises(el.EverylabelError, match=r"classes has .* expected names that are strings"):
            classes_of(wrong, None)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("check_every", "abc", "a whole number, 0 to 1000"),
        ("check_every", 1001, "a whole number, 0 to 1000"),
        ("check_every", True, "a whole number, 0 to 1000"),
        ("annotators_per_item", 0, "a whole number of at least 1"),
        ("lease_seconds", 0.5, "a whole number of at least 1"),
        ("names_prior", "on", r"on \(True\) or off \(False\)"),
        ("tester", 3, "a person's name"),
        ("strategy", ["margin"], "one of "),
        ("port", 8765.0, "a whole number, 0 to 65535"),
    ],
)
def test_settings_are_checked_before_anything_is_written(
    name: str, value: Any, expected: str, tmp_path: Path
) -> None:
    options: Any = {"model": "tfidf", "folder": tmp_path / "p.everylabel", name: value}
    with pytest.raises(el.EverylabelError, match=rf"^{name} is .*; expected {expected}"):
        el.label(TEXTS, ["card", "transfer"], **options)
    assert not (tmp_path / "p.everylabel").exists()


def test_numpy_settings_are_stored_as_plain_values() -> None:
    given: Any = {"check_every": np.int64(3), "names_prior": np.True_, "tester": ""}
    found = LabelOptions(**given).settings
    assert found == {"check_every": 3, "names": True, "tester": ""}
    assert [type(value) for value in found.values()] == [int, bool, str]


def test_only_options_become_arguments_in_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "--names-prior is on (--project /tmp/my--file.csv, --label-column): class '--a' of '/b/--model'"
    plain = "names_prior is on (folder /tmp/my--file.csv, label_column): class '--a' of '/b/--model'"
    assert _plain(told) == plain
    with pytest.raises(el.EverylabelError, match=r"my--file\.csv' does not exist"):
        el.label(tmp_path / "my--file.csv")
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match=r"everylabel\[umap\]"):
        el.label(TEXTS, layout="umap")
