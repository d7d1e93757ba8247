"""Sources that were made to break what reads them: cleaned, or refused in a sentence."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.data import digests, images, pictures
from everylabel.data.options import Options
from everylabel.data.read import read
from everylabel.data.readers import arrays
from everylabel.projects.options import remembered


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
    with pytest.raises(EverylabelError, match="is no JSON"):
        read(str(path), Options(text_column="text"))
    (tmp_path / "project.json").write_text(path.read_text())
    with pytest.raises(EverylabelError, match="is damaged"):
        remembered(tmp_path)


def test_arrays_larger_than_the_memory_are_told_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "zeros.npz", X=np.zeros((100_000, 4)))
    monkeypatch.setattr(arrays, "_memory", lambda: 1e6)
    with pytest.raises(EverylabelError, match=r"holds arrays of 0\.0 GB, .*expected a \.npy file"):
        read(str(tmp_path / "zeros.npz"), Options())


def test_features_whose_squares_are_no_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "huge.npy", np.array([[1.0, 2.0], [1e300, 1.0]]))
    with pytest.raises(EverylabelError, match=r"first in row 1; expected numbers up to 1e\+18"):
        read(str(tmp_path / "huge.npy"), Options())


def test_a_pipe_or_a_file_of_the_system_named_as_an_image_is_never_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    odd = [pipe, Path("/proc/self/mem"), tmp_path]
    for path in filter(Path.exists, odd):  # opening the pipe would wait for ever
        assert images.open_image(path) is None
        assert images.image_bytes(path) == b"unreadable"
        assert "no plain file" in images.why_unreadable(path)
        assert digests.content_digest(path)
        with pytest.raises(EverylabelError, match=r"not there any more|no plain file"):
            pictures.read_picture(path)


def test_large_pictures_are_refused_or_made_smaller_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (2000, 100)).save(path)
    first = pictures.read_picture(path)
    assert pictures.read_picture(path)[0] is first[0]
    monkeypatch.setattr(pictures, "MOST_PIXELS", 150_000)
    Image.new("L", (2001, 100)).save(path)
    with pytest.raises(EverylabelError, match="2001 x 100 are more than 150,000 pixels"):
        pictures.read_picture(path)
    Image.new("L", (2001, 100)).save(tmp_path / "large.jpg")  # need not be decoded in full
    assert pictures.read_picture(tmp_path / "large.jpg")[1] == "image/jpeg"
