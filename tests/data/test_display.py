"""Items as the page shows them: pictures in a browser's formats, and only those of the project."""

import io
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.data.display import Pictures, Rows, Texts
from everylabel.data.media import shown_image


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_pixels_as_png(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
    data, media = Pictures(pixels[None], ["x"]).picture(0)
    assert media == "image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), pixels)


@pytest.mark.parametrize("kind", ["pixels", "in memory", "files"])
def test_another_picture_by_the_same_name_has_another_digest(kind: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(2, 30, 30), dtype=np.uint8)
    images: Any = pixels
    if kind == "in memory":
        images = [Image.fromarray(one) for one in pixels]
    if kind == "files":
        images = [tmp_path / f"{i}.png" for i in range(2)]
        for path, one in zip(images, pixels, strict=True):
            Image.fromarray(one).save(path)
    first, again, other = (Pictures(images[i : i + 1], ["the name"]).digest(0) for i in (0, 0, 1))
    assert first == again != other
    assert len(first) >= 16


def test_images_are_shown_as_they_are_or_converted(tmp_path: Path) -> None:
    for name, media in (
        ("a.png", "png"),
        ("a.jpg", "jpeg"),
        ("a.gif", "gif"),
        ("a.webp", "webp"),
        ("a.bmp", "bmp"),
    ):
        Image.new("RGB", (20, 10), "red").save(tmp_path / name)
        data, kind = shown_image(tmp_path / name, "x")
        assert kind == f"image/{media}"
        assert data == (tmp_path / name).read_bytes()
    for mode in ("RGB", "I;16", "CMYK", "LA"):
        Image.new(mode, (20, 10)).save(tmp_path / "a.tif")
        data, kind = shown_image(tmp_path / "a.tif", "x")
        assert (kind, Image.open(io.BytesIO(data)).format) == ("image/png", "PNG")


@pytest.mark.parametrize(("name", "media"), [("big.jpg", "image/jpeg"), ("big.png", "image/png")])
def test_large_images_are_made_smaller(tmp_path: Path, name: str, media: str) -> None:
    Image.new("RGB", (4000, 1000), "blue").save(tmp_path / name)
    data, kind = shown_image(tmp_path / name, "x")
    assert kind == media
    assert Image.open(io.BytesIO(data)).size == (1600, 400)


def test_only_images_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_text("password")
    with pytest.raises(EverylabelError, match=r"secret.png' is damaged or not an image"):
        shown_image(secret, "x")
    secret.write_bytes(b"\x89PNG\r\n\x1a\n" + b"password")
    with pytest.raises(EverylabelError, match="is damaged or not an image"):
        shown_image(secret, "x")
    with pytest.raises(EverylabelError, match=r"gone.png' no longer exists"):
        shown_image(tmp_path / "gone.png", "x")
    with pytest.raises(EverylabelError, match="no longer exists"):
        shown_image(tmp_path, "x")  # a folder
    with pytest.raises(EverylabelError, match="no longer exists"):
        shown_image(Path(os.devnull), "x")


def test_a_file_that_is_not_ours_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    monkeypatch.setattr(
        Path, "read_bytes", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    with pytest.raises(EverylabelError, match="cannot be read: Permission denied"):
        shown_image(tmp_path / "a.png", "x")


def test_texts_fields_and_rows() -> None:
    texts = Texts(["x" * 9000], {"n": [2.0], "empty": [None], "long": ["y" * 9000]})
    item = texts.item(0)
    assert len(item["text"]) == 9000
    assert item["fields"][0] == ["n", "2"]
    assert [name for name, _ in item["fields"]] == ["n", "long"]
    assert len(texts.text(0)) == 300
    assert Rows(["a"], {"colour": ["red"], "n": [1]}).text(0) == "red · 1"
    assert Rows(["a"]).text(0) == "row a"
    with pytest.raises(EverylabelError, match="a row of features and has no image"):
        Rows(["a"]).picture(0)
    assert Pictures([Path("x.png")], ["x.png"]).item(0)["image"] is True


def test_nested_fields_are_shown_as_json() -> None:
    when = datetime(2024, 5, 1, tzinfo=UTC)
    columns: dict[str, list[Any]] = {
        "who": [{"name": "Zoë", "paid": True}],
        "tags": [["a", None]],
        "at": [[when]],
        "n": [[2.0]],
    }
    assert Texts(["x"], columns).item(0)["fields"] == [
        ["who", '{"name": "Zoë", "paid": true}'],
        ["tags", '["a", null]'],
        ["at", f'["{when}"]'],
        ["n", "[2.0]"],
    ]
