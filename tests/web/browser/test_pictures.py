"""A folder of pictures without classes: from the first class to the last picture."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import CONTROL, ENTER, Page
from tests.web.browser.servers import Server

SIZES = {"wide": (1800, 200), "tall": (200, 1800), "large": (1600, 1200), "small": (32, 32)}


@pytest.fixture(scope="module")
def photos(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for name, (width, height) in SIZES.items():
        tile = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(tile).resize((width, height)).save(folder / "photos" / f"{name}.png")
    server = Server(folder, "photos", "--model", "pixels", "--watch").start()
    yield server
    server.stop()


def _fits(page: Page) -> bool:
    return bool(page.script("return document.documentElement.scrollWidth <= innerWidth"))


def _add_class(page: Page, name: str) -> None:
    page.until(lambda: page.all("dialog.add"))
    page.press(name, ENTER)
    page.until(lambda: name in page.text("#classes"))


def _label_all(photos: Server) -> None:
    """Label the other items, if the previous test did not run."""
    if "warm" not in [each["name"] for each in photos.get("/api/session")["classes"]]:
        photos.post("/api/classes", person="all", name="warm")
    while (reply := photos.post("/api/next", person="all"))["next"] is not None:
        photos.post("/api/label", **{"person": "all", "item": reply["next"]["item"]["id"], "class": 0})


def test_project_is_labelled_from_the_first_class_to_the_last_item(
    driver: webdriver.Chrome, photos: Server
) -> None:
    page = fresh(driver, photos).open()
    page.dialog("e")
    page.until(lambda: page.all('[aria-label="Model: everylabel"]'))[0].click()
    page.until(lambda: "Not possible" in page.text("dialog"))
    page.console()  # the browser notes the 409
    page.close()
    page.find("#no-classes button").click()
    _add_class(page, "warm")
    page.answer("1")
    page.press("n")
    _add_class(page, "cold")
    assert not page.find("#no-classes").is_displayed()
    assert len({each.rect["y"] for each in page.all("#classes .class")}) == 1  # side by side
    page.answer("u")
    for i in range(len(SIZES)):
        page.until(lambda: page.find("#item img").get_property("naturalWidth"))
        assert page.find("#item img").rect["height"] <= page.find("#item").rect["height"]
        page.press("z")
        assert _fits(page)
        page.answer("12"[i % 2])
    assert "There is nothing left" in page.text("#item")
    page.answer("u")
    page.answer("1")
    assert photos.get("/api/progress")["labelled"] == len(SIZES)
    assert page.console() == []


def test_a_picture_that_comes_is_shown_to_a_person_who_had_finished(
    driver: webdriver.Chrome, photos: Server
) -> None:
    _label_all(photos)
    page = fresh(driver, photos).open("last")
    assert "There is nothing left" in page.text("#item")
    Image.new("RGB", (64, 64), "red").save(photos.folder / "photos" / "new.png")
    page.until(lambda: page.all("#item img"))
    assert page.text("#item-heading") == "Item new.png"
    page.ready().answer("1")
    assert page.console() == []


def test_a_deleted_picture_is_reported(driver: webdriver.Chrome, photos: Server) -> None:
    page = fresh(driver, photos)
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    (Path(photos.folder) / "photos" / "tall.png").unlink()
    page.open("late").jump("tall")
    assert "cannot be shown" in page.until(lambda: page.text("#item .missing"))
    page.console()  # the browser notes the missing picture


THUMB = """const thumb = document.querySelector(arguments[0]);
const {width, height} = thumb.getBoundingClientRect();
const above = thumb.closest("li").querySelector("input")?.getBoundingClientRect().top;
return {fit: getComputedStyle(thumb).objectFit, side: Math.min(width, height),
        below: above === undefined || above > thumb.getBoundingClientRect().top}"""


def test_lists_show_whole_pictures_large_where_one_key_labels_several(
    driver: webdriver.Chrome, photos: Server
) -> None:
    page = fresh(driver, photos).open("thumbs")
    page.dialog("/")
    page.press("png")
    page.until(lambda: page.all("dialog .thumb[src*=large]"))
    found = page.script(THUMB, "dialog .thumb[src*=large]")
    assert found["fit"] == "contain"
    assert found["side"] >= 56
    page.press_with(CONTROL, ENTER)
    page.until(lambda: page.all("dialog.several .thumb[src*=large]"))
    for width in (1280, 390):
        page.size(width, 800)
        page.until(lambda: page.script(THUMB, "dialog .thumb[src*=large]")["side"])  # the picture is there
        found = page.script(THUMB, "dialog .thumb[src*=large]")
        assert found["fit"] == "contain"
        assert found["side"] >= 112
        assert found["below"]  # its tick
        assert _fits(page)
    page.size(1280, 820)
    page.close()


MIDDLE = """const place = (name) => document.querySelector(name).getBoundingClientRect();
const [box, room] = [place("#item img"), place("#item")];
return [box.left - room.left, box.left + box.width / 2 - room.left - room.width / 2]"""


def test_pixel_by_pixel_a_picture_stays_in_the_middle(driver: webdriver.Chrome, photos: Server) -> None:
    page = fresh(driver, photos).open("thumbs")  # who may have the small picture open since an earlier test
    for name in ("small", "wide"):
        page.jump(f"{name}.png")
        width = page.until(lambda: page.find("#item img").get_property("naturalWidth"))
        page.press("z")
        assert page.find("#item img").size["width"] == width
        left, off = page.script(MIDDLE)
        assert left > 0  # all of it can be scrolled to
        assert abs(off) < 2 or name == "wide"
