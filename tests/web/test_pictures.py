"""A browser's cache never shows a picture of another project, or an older one; two are decoded at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from PIL import Image

from everylabel.data.items import Options
from everylabel.data.readers.folder import read_folder
from everylabel.projects.folder import Remembered
from everylabel.projects.project import Project
from everylabel.web.item_view import ItemView
from everylabel.web.routes.reading import PICTURES_AT_ONCE, reading
from everylabel.web.server import server_config
from tests.web.servers import served
from tests.web.test_app import client

__all__ = ["client"]


def folder(place: Path, colour: str) -> ItemView:
    place.mkdir(exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(place / "a.bmp")  # of one size, whatever it shows
    items = read_folder(place, Options())
    about = Remembered(str(place), place.name, Options())
    return ItemView(Project(**vars(items) | {"features": None, "about": about, "folder": place}))


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


class Gallery:
    """Pictures that are decoded until a gate opens."""

    guesses = None  # of other endpoints

    def __init__(self) -> None:
        self.began, self.open = threading.Semaphore(0), threading.Event()

    def position(self, item: str) -> int:
        return int(item)

    def picture(self, _: str) -> tuple[bytes, str]:
        self.began.release()
        self.open.wait(60)
        return b"png", "image/png"


def test_few_pictures_are_decoded_at_once_and_others_wait() -> None:
    made, app = Gallery(), FastAPI()
    app.include_router(reading(made, made, made, {}))  # type: ignore[arg-type]
    with ThreadPoolExecutor(4) as threads, served(server_config(app)) as port:
        address = f"http://127.0.0.1:{port}/api/"
        crowd = [threads.submit(httpx.get, f"{address}image/{i}", timeout=60) for i in range(4)]
        assert all(made.began.acquire(timeout=60) for _ in range(PICTURES_AT_ONCE))
        assert not made.began.acquire(timeout=0.2)
        assert httpx.get(f"{address}health", timeout=60).json() == {"ok": True}
        made.open.set()
        assert [each.result().content for each in crowd] == [b"png"] * 4
