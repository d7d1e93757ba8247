"""Keys that come too early, buttons that stay in place, and Space after a dialog."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import ENTER, SHIFT, TAB, Page
from tests.web.browser.servers import Server

FAST = """
    const [keys, pause, done] = arguments;
    window.missed = 0; // each time that the page says one more
    window.watching?.disconnect();
    window.watching = new MutationObserver((changes) => {
        const added = changes.flatMap((change) => [...change.addedNodes]);
        window.missed += added.filter((node) => node.textContent).length;
    });
    window.watching.observe(document.getElementById("missed"), {childList: true});
    const press = (key) => document.body.dispatchEvent(
        new KeyboardEvent("keydown", {key, code: /[0-9]/.test(key) ? `Digit${key}` : "", bubbles: true}));
    const next = (i) => {
        if (i === keys.length) return done();
        press(keys[i]);
        setTimeout(next, pause, i + 1);
    };
    next(0);
"""


def _fast(page: Page, keys: str, pause: int = 0) -> None:
    page.driver.execute_async_script(FAST, keys, pause)


def _given(server: Server, person: str) -> list[tuple[str, Any]]:
    events = server.get(f"/api/history?person={person}&limit=100")["events"]
    return [(event["item"], event["class"]) for event in reversed(events) if not event["undone"]]


def test_each_of_many_fast_keys_is_saved_or_reported_as_ignored(page: Page, digits: Server) -> None:
    page.open("fast")
    _fast(page, "123" * 10, 50)
    page.until(lambda: not page.busy)
    recorded = len(_given(digits, "fast"))
    assert recorded >= 1
    assert recorded + page.script("return window.missed") == 30
    assert len({item for item, _ in _given(digits, "fast")}) == recorded


def test_an_early_key_is_reported_and_the_sign_goes(page: Page, digits: Server) -> None:
    page.open("early")
    item = page.item
    page.hold()
    _fast(page, "345")
    assert page.text("#missed").startswith("2 answers did not count: too early")
    place = page.find('#classes [data-class="3"]').rect
    page.script("release()")
    page.moved_on(item)
    assert _given(digits, "early") == [(item, 3)]
    page.until(lambda: not page.text("#missed"))
    assert page.find('#classes [data-class="3"]').rect == place


def test_a_correction_waits_for_the_answer_under_way(page: Page, digits: Server) -> None:
    page.open("correct")
    item = page.item
    page.hold()
    _fast(page, "3u4")  # all before the server has answered
    assert page.script("return window.missed") == 0
    page.script("release()")
    page.moved_on(item)
    page.until(lambda: _given(digits, "correct") == [(item, 4)])
    page.answer("5")
    page.until(lambda: not page.busy)
    before = _given(digits, "correct")
    _fast(page, "uu7")  # seven would be for an item out of sight
    page.until(lambda: not _given(digits, "correct") and not page.busy)
    assert page.script("return window.missed") == 1
    assert len(before) == 2


def test_a_key_that_does_nothing_says_so(driver: webdriver.Chrome, tmp_path: Path) -> None:
    words = ["north wind", "cold soup", "late train", "red paint", "old violin", "wet shoes", "long letter"]
    (tmp_path / "two.csv").write_text("body\n" + "\n".join(words) + "\n")
    server = Server(tmp_path, "two.csv", "--text-column", "body", "--model", "tfidf").start()
    try:
        page = fresh(driver, server).open("nothing")
        item = page.item

        def told(key: str) -> str:
            page.script("document.getElementById('missed').textContent = ''")
            page.press(key)
            return str(page.until(lambda: page.text("#missed")))

        assert told("1") == "There are no classes yet: n adds one."
        for name in ("yes", "no"):
            server.post("/api/classes", person="nothing", name=name)
        page.driver.refresh()
        page.ready()
        assert told("3") == "No class has the key 3."
        assert told("g") == "Near copies are listed only where the model's guess is shown."
        assert told("f") == "The filter needs more than 10 classes."
        assert told("z") == "There is no picture here."
        assert page.item == item
        page.until(lambda: not page.text("#missed"))
        page.answer("1")
        while "Random check" in page.text("#reason"):
            page.answer(" ")
        page.press("g")
        page.until(lambda: page.text("#missed") == "This item has no near copies.")
    finally:
        server.stop()


@pytest.fixture(scope="module")
def letters(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("letters")
    (folder / "few.csv").write_text("body\n" + "".join(f"some words about {i}\n" for i in range(40)))
    classes = "billing,refund,delivery,broken,praise,question,spam,other"
    arguments = ("few.csv", "--text-column", "body", "--classes", classes, "--model", "tfidf")
    server = Server(folder, *arguments).start()
    yield server
    server.stop()


def _places(page: Page) -> dict[str, Any]:
    page.until(lambda: page.all("#classes .class"))
    return {str(each.get_attribute("data-class")): each.rect for each in page.all("#classes .class")}


def _add(page: Page, name: str) -> None:
    page.dialog("n")
    page.press(name, ENTER)
    page.until(lambda: name in page.text("#classes") and not page.all("dialog[open]"))


@pytest.mark.parametrize("width", [360, 1000, 1280])
def test_a_new_class_moves_no_button(driver: webdriver.Chrome, letters: Server, width: int) -> None:
    page = fresh(driver, letters)
    page.size(width, 800)
    page.open(f"ninth{width}").answer("1")
    before = _places(page)
    for name in (f"one more {width}", f"another with a very long name that needs several lines {width}"):
        _add(page, name)
        now = _places(page)
        for number, place in before.items():
            assert all(abs(now[number][side] - at) < 1 for side, at in place.items()), (
                number,
                place,
                now[number],
            )
    assert len(now) == len(before) + 2
    corners = {(each["x"], each["y"]) for each in now.values()}
    assert len(corners) == len(now)
    item = page.item
    if len(now) <= 20:
        last = str(page.all("#classes .class")[-1].get_attribute("data-key"))
        page.press_with(SHIFT, last[1:]) if last.startswith("⇧") else page.press(last)
        page.moved_on(item)
    if len(now) > 10:
        page.press("f")
        page.press("one more")
        page.until(lambda: len([each for each in page.all("#classes .class") if each.is_displayed()]) < 4)
        found = [each.rect for each in page.all("#classes .class") if each.is_displayed()]
        assert min(each["y"] for each in found) <= page.find("#classes").rect["y"] + 8
    page.driver.refresh()
    page.ready()
    rows = [each["y"] for each in _places(page).values()]
    assert rows == sorted(rows)  # laid out again, in order


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_space_after_a_dialog_skips(page: Page, digits: Server, by: str) -> None:
    page.open(f"space {by}")
    item = page.item
    opener = '[data-do="settings"]'
    if by == "mouse":
        page.find(opener).click()
    else:
        page.script("document.querySelector(arguments[0]).focus()", opener)
        page.press(ENTER)
    page.until(lambda: page.all("dialog[open]"))
    page.close()
    page.press(" ")
    page.moved_on(item)
    assert not page.all("dialog[open]")
    assert digits.get(f"/api/history?person=space%20{by}")["events"][0]["kind"] == "skip"
    page.script("document.querySelector(arguments[0]).focus()", opener)
    page.press(" ")  # a button that one goes to is pressed
    page.until(lambda: page.all("dialog[open]"))
    page.close()
    page.press(TAB)
    page.press(" ")
    page.until(lambda: page.all("dialog[open]"))
    page.close()


def test_a_class_may_have_a_key_of_its_own(driver: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("body\n" + "\n".join(f"text number {i}" for i in range(40)))
    (tmp_path / "classes.csv").write_text("name,key\nbilling,b\nother,\nrefund,1\n3,\n")
    given = ("texts.csv", "--classes", "classes.csv", "--model", "tfidf", "--check-every", "0")
    server = Server(tmp_path, *given).start()
    try:
        page = fresh(driver, server).open("own")
        keys = [button.get_attribute("data-key") for button in page.all("#classes .class")]
        assert keys == ["b", "2", "1", "3"]
        for key in ("b", "1", "2", "B"):
            item = page.item
            page.press(key)
            page.moved_on(item)
        answers = server.get("/api/history?person=own&limit=10")["events"]
        assert [each["class"] for each in answers] == [0, 1, 2, 0]
    finally:
        server.stop()
