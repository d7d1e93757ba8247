"""A browser's cache never shows a picture of another project, or an older one."""

from pathlib import Path

import pytest
from PIL import Image

from everylabel.data.items import Options
from everylabel.data.readers.folder import read_folder
from everylabel.projects.project import Project, Remembered
from everylabel.web.item_view import Shown
from tests.web.test_app import client

__all__ = ["client"]


def folder(place: Path, colour: str) -> Shown:
    place.mkdir(exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(place / "a.bmp")  # of one size, whatever it shows
    items = read_folder(place, Options())
    about = Remembered(str(place), place.name, Options())
    return Shown(Project(**vars(items) | {"features": None, "about": about, "folder": place}))


def test_pictures_of_the_same_name_and_size_have_addresses_of_their_own(tmp_path: Path) -> None:
    holiday, work = folder(tmp_path / "holiday", "red"), folder(tmp_path / "work", "blue")
    before, other = holiday.item("a.bmp")["image"], work.item("a.bmp")["image"]
    assert before.split("?")[0] == other.split("?")[0]
    assert before != other
    assert folder(tmp_path / "copy", "red").item("a.bmp")["image"] == before
    folder(tmp_path / "holiday", "green")  # replaced under a running server
    assert holiday.item("a.bmp")["image"] not in (before, other)
    (tmp_path / "work" / "a.bmp").unlink()
    assert work.item("a.bmp")["image"] != other


@pytest.mark.parametrize(("content", "kept"), [("1234", True), ("other", False), ("", False)])
def test_a_browser_keeps_only_what_is_named_by_its_content(client, content: str, kept: bool) -> None:  # type: ignore[no-untyped-def]
    reply = client.get("/api/image/digit%201", params={"content": content})
    assert reply.content == b"png"
    assert reply.headers["cache-control"] == ("private, max-age=3600" if kept else "no-store")
    assert client.get("/api/progress").headers["cache-control"] == "no-store"
