"""Yes or no in a real browser: by keyboard alone, on a phone, and as a screen reader hears it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import ECHO, ENTER, Page
from tests.web.browser.servers import Server
from tests.web.browser.texts import write_texts

RIGHT, LEFT, DOWN = "\ue014", "\ue012", "\ue015"


@pytest.fixture(scope="module")
def taught(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of digits whose model knows something."""
    server = Server(tmp_path_factory.mktemp("taught"), "digits").start()
    for i in range(20):
        server.post("/api/label", **{"person": "teacher", "item": str(i), "class": i % 10})
    yield server
    server.stop()


@pytest.fixture
def page(driver: webdriver.Chrome, taught: Server) -> Iterator[Page]:
    page = fresh(driver, taught)
    yield page
    assert page.console() == []


def _question(page: Page) -> str:
    return page.text("#question strong")


def _proposed(page: Page) -> str:
    """Continue to an item with a proposed class; return the class."""
    while not page.find("#proposal").is_displayed():
        page.answer("1")  # a random check
    return _question(page)


def _last(server: Server, person: str, n: int = 1) -> list[tuple[str, str, Any]]:
    """Return the last events of a person that stand, the latest first."""
    events = server.get(f"/api/history?person={person}&limit=20")["events"]
    return [(e["kind"], e["item"], e["class"]) for e in events if not e["undone"]][:n]


def _begin(page: Page, person: str) -> str:
    """Open the page as somebody who says yes or no."""
    page.open(person)
    assert not page.find("#proposal").is_displayed()
    page.press(".")
    return _proposed(page)


def _refused(page: Page, before: str) -> None:
    page.until(lambda: not page.busy and _question(page) != before)


def test_key_n_shows_the_next_proposal_and_y_the_next_item(page: Page, taught: Server) -> None:
    first = _begin(page, "yes")
    item = page.item
    assert not page.find("#classes").is_displayed()
    picture = page.find("#item img")
    places = page.places(".proposal .primary, .actions button")
    page.press("n")
    _refused(page, first)
    assert page.item == item
    assert page.find("#item img") == picture  # not drawn again
    second = _question(page)
    assert page.text("#ruled-out") == f"Refused: {first}"
    assert page.places(".proposal .primary, .actions button") == places
    assert page.text("#live") == f"Saved: not {first}. Is it {second}?"
    assert _last(taught, "yes") == [("not", item, int(first))]
    time.sleep(ECHO)
    page.press("u")
    page.until(lambda: page.text("#ruled-out") == "" and not page.busy)
    now = _question(page)  # training in the background may have changed its mind
    assert page.text("#live") == f"Undone: not {first}. Is it {now}?"
    time.sleep(ECHO)
    assert page.answer("y") == item
    assert _last(taught, "yes") == [("label", item, int(now))]
    assert page.text("#live").startswith(f"Saved: {now}. ")


def test_enter_arrows_and_the_keys_of_classes_work_and_all_is_remembered(page: Page, taught: Server) -> None:
    first = _begin(page, "arrows")
    page.press(LEFT)
    _refused(page, first)
    time.sleep(ECHO)
    second, item = _question(page), page.item
    page.answer(RIGHT)
    assert _last(taught, "arrows", 2) == [("label", item, int(second)), ("not", item, int(first))]
    third, item = _proposed(page), page.item
    page.answer(ENTER)
    assert _last(taught, "arrows") == [("label", item, int(third))]
    _proposed(page)
    item = page.answer("7")  # folded away, its key works
    assert _last(taught, "arrows") == [("label", item, 7)]
    page.driver.refresh()
    page.ready()
    _proposed(page)
    assert page.find('[data-do="yesno"]').get_attribute("aria-pressed") == "true"
    assert page.find('.actions [data-do="add"] kbd').text == "+"
    page.press(DOWN)
    assert page.find("#classes").is_displayed()
    assert page.find("#others").get_attribute("aria-expanded") == "true"
    page.find('[data-do="yesno"]').click()
    assert not page.find("#proposal").is_displayed()
    assert page.find('.actions [data-do="add"] kbd').text == "n"
    page.driver.refresh()
    page.ready()
    assert page.find("#classes").is_displayed()


def test_the_last_class_left_is_proposed_and_no_means_none_of_these(page: Page, taught: Server) -> None:
    last = _begin(page, "last")
    item = page.item
    for number in range(10):
        if number != int(last):
            taught.post("/api/not", **{"person": "last", "item": item, "class": number})
    page.driver.refresh()
    page.ready()
    assert (page.item, _question(page)) == (item, last)
    assert page.text("#ruled-out").endswith("This is the last class left.")
    assert page.text("#no-word") == "No: none of these"
    page.press(DOWN)
    assert len(page.all("#classes .class.not")) == 9
    page.answer("n")
    assert _last(taught, "last")[0][:2] == ("none", item)


def test_a_random_check_has_no_proposal(page: Page, taught: Server) -> None:
    _begin(page, "blind")
    while "Random check" not in page.text("#reason"):
        page.answer("1")
    assert not page.find("#proposal").is_displayed()
    assert page.find("#classes").is_displayed()
    assert page.text("#no-proposal").startswith("No proposal here, so that you are not biased")
    page.press("y")  # means nothing here
    assert not page.busy
    page.answer("1")


@pytest.mark.parametrize("width", [360, 1280])
def test_on_a_phone_and_for_axe(page: Page, taught: Server, axe: str, width: int) -> None:
    page.size(width, 740, mobile=width < 600)
    _begin(page, f"phone {width}".replace(" ", ""))
    page.script("document.querySelector('[data-do=no]').click()")
    page.until(lambda: page.text("#ruled-out") and not page.busy)
    assert page.violations(axe) == []
    assert page.script("return document.documentElement.scrollWidth") <= width
    for what in ("yes", "no", "others"):
        button = page.find(f'#proposal [data-do="{what}"]')
        assert button.rect["height"] >= 44
        assert button.rect["y"] + button.rect["height"] <= 740
    page.find("#others").click()
    assert page.find("#classes").is_displayed()
    assert page.violations(axe) == []


def test_among_many_classes_other_letters_still_filter(driver: webdriver.Chrome, tmp_path: Path) -> None:
    server = Server(tmp_path, *write_texts(tmp_path), "--check-every", "0").start()
    try:
        for i in range(6):
            server.post("/api/label", **{"person": "many", "item": str(i + 8), "class": i % 3})
        page = fresh(driver, server).open("many")
        page.press(".")
        first, item = _question(page), page.item
        assert page.find("#likely").is_displayed()
        page.press("n")
        _refused(page, first)
        assert page.item == item
        page.press("t")
        page.until(lambda: page.find("#classes").is_displayed())
        assert page.script("return document.activeElement.id") == "filter"
        assert page.script("return document.getElementById('filter').value") == "t"
        assert page.console() == []
    finally:
        server.stop()
