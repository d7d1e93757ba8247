"""Phone, dark mode, accessibility, and what the page loads."""

import io
import json
from urllib.parse import urlsplit

import pytest
from PIL import Image

from tests.web.browser.pages import Page, start_browser
from tests.web.browser.servers import Server

KEYS = {
    "main": "",
    "search": "/",
    "map": "m",
    "history": "h",
    "classes": "c",
    "add": "n",
    "settings": ",",
    "export": "e",
    "help": "?",
}
LOAD = 300_000  # bytes
SMALLEST = 44  # pixels a finger needs
AT_ITS_MIDDLE = """
    const {x, y, width, height} = arguments[0].getBoundingClientRect();
    return document.elementFromPoint(x + width / 2, y + height / 2) === arguments[0];
"""


def test_phone(page: Page) -> None:
    page.size(360, 740, mobile=True)
    page.open("phone")
    assert page.script("return document.documentElement.scrollWidth") == 360
    for button in page.all(".answers button, .top button"):
        if button.is_displayed():
            size = button.size
            assert min(size["width"], size["height"]) >= SMALLEST, button.text
    bottom = max(button.rect["y"] + button.rect["height"] for button in page.all("#classes .class"))
    assert page.find("#item img").rect["y"] < page.find("#classes .class").rect["y"]
    apart = "return getComputedStyle(document.getElementById('item-heading')).marginInlineEnd"
    assert page.script(apart) == "8px"  # the reason follows in the same line
    assert bottom <= 740
    assert not page.find("#curve").is_displayed()
    item = page.item
    page.find('[data-class="3"]').click()
    page.until(lambda: page.item != item)
    page.find(".menu-button").click()
    page.until(lambda: page.all("dialog.menu"))
    page.find(".menu-entry").click()
    page.until(lambda: page.all("dialog.search"))
    assert page.script("return document.documentElement.scrollWidth") == 360


def test_a_picture_of_few_pixels_has_a_frame(page: Page) -> None:
    page.open("frame")
    page.until(lambda: page.find("#item img").get_property("naturalWidth"))
    screen = Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
    box = page.find("#item img").rect
    row = round(box["y"] + box["height"] / 2)
    outside = [screen.getpixel((round(box["x"]) + at, row)) for at in (-8, -1)]
    assert outside[0] == (255, 255, 255)
    assert outside[1] != outside[0]


def _background(page: Page) -> int:
    """Return how bright the page is, 0 to 255."""
    colour = page.script("return getComputedStyle(document.body).backgroundColor")
    return max(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def test_dark_mode_follows_the_system_and_the_person(page: Page) -> None:
    page.open("dark")
    assert _background(page) > 200
    page.prefer("dark")
    assert _background(page) < 60
    page.press("d")
    assert _background(page) > 200
    page.driver.refresh()
    page.ready()
    assert _background(page) > 200
    page.press("d")
    assert _background(page) < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, axe: str, scheme: str) -> None:
    page.prefer(scheme)
    page.open("axe")
    page.answer("1")
    found = {}
    for name, key in KEYS.items():
        if key:
            page.dialog(key)
            page.until(lambda: "Drawing" not in page.text("dialog"))
        found[name] = page.violations(axe)
        if key:
            page.close()
    assert found == {name: [] for name in KEYS}


@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_in_dialogs_without_a_key(page: Page, axe: str, width: int) -> None:
    page.size(width, 740)
    page.open("axe")
    openers = [".top .person", ".menu-button"] if width < 960 else [".top .person"]
    for opener in openers:
        page.find(opener).click()
        page.until(lambda: page.all("dialog[open]"))
        assert page.find("dialog").size["width"] >= 300
        assert page.violations(axe) == []
        for button in page.all("dialog button"):
            assert page.script(AT_ITS_MIDDLE, button), button.text
        page.close()


def test_axe_finds_nothing_in_the_list_of_disputes(page: Page, axe: str, digits: Server) -> None:
    digits.answered_by(dora=3, emil=4)
    page.open("axe")
    page.until(lambda: page.find("#disputed").is_displayed())
    assert page.violations(axe) == []
    page.find("#disputed").click()
    page.until(lambda: page.all("dialog .result"))
    assert page.violations(axe) == []
    page.close()
    digits.post("/api/undo", person="emil")  # others share this server


@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_with_many_classes_and_a_long_text(text_page: Page, axe: str, width: int) -> None:
    text_page.size(width, 800)
    text_page.open("long").jump("needle")
    assert text_page.violations(axe) == []


def test_first_load_is_small_and_stays_here(digits: Server) -> None:
    driver = start_browser(requests=True)
    try:
        page = Page(driver, digits.url).open("load")
        page.dialog("m")
        page.until(lambda: page.all("canvas.scatter"))
        log = driver.get_log("performance")  # type: ignore[no-untyped-call]
        events = [json.loads(entry["message"])["message"] for entry in log]
        assert page.console() == []
    finally:
        driver.quit()
    urls = {
        e["params"]["requestId"]: e["params"]["request"]["url"]
        for e in events
        if e["method"] == "Network.requestWillBeSent"
    }
    assert any(url.endswith("/static/app.js") for url in urls.values())
    strangers = [
        u
        for u in urls.values()
        if urlsplit(u).netloc != urlsplit(digits.url).netloc and not u.startswith("data:")
    ]
    assert strangers == []
    first = {request for request, url in urls.items() if "/api/map" not in url}
    done = [e["params"] for e in events if e["method"] == "Network.loadingFinished"]
    assert sum(e["encodedDataLength"] for e in done if e["requestId"] in first) < LOAD
