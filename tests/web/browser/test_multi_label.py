"""Several classes per item in a real browser: by keyboard, by mouse, on a phone, to a screen reader."""

import csv
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import ECHO, ENTER, Page
from tests.web.browser.servers import Server

WORDS = {"sport": "football match goal", "politics": "vote election party", "money": "bank price tax"}
CLASSES = list(WORDS)
PLACES = "return [...document.querySelectorAll('.actions .quiet')].map((b) => [b.offsetLeft, b.offsetTop])"
CHOOSE = """const box = document.getElementById("queue-class");
    box.value = arguments[0];
    box.dispatchEvent(new Event("change"));"""
ROOMS = "return [...document.querySelectorAll('#classes .name')].map((name) => name.offsetWidth)"


def rows() -> Iterator[tuple[str, str]]:
    """Yield texts about one, two or none of the topics, with labels of the first few."""
    kinds = [["sport"], ["politics", "money"], [], ["money"], ["sport", "money"], ["politics"]]
    for i in range(72):
        topics = kinds[i % len(kinds)]
        words = " ".join(WORDS[topic] for topic in topics) or "weather sunshine garden"
        yield f"note {i} on {words}", ";".join(topics) if topics else "[]"


@pytest.fixture(scope="module")
def several(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A multi-label server whose first 12 texts have labels."""
    folder = tmp_path_factory.mktemp("several")
    with (folder / "notes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "topics"])
        table.writerows((text, topics if i < 12 else "") for i, (text, topics) in enumerate(rows()))
    named = "--text-column", "text", "--label-column", "topics", "--model", "tfidf"
    server = Server(folder, "notes.csv", *named, "--multi-label", "--classes", ",".join(CLASSES)).start()
    yield server
    server.stop()


@pytest.fixture
def page(driver: webdriver.Chrome, several: Server) -> Iterator[Page]:
    page = fresh(driver, several)
    yield page
    assert page.console() == []


def _names(page: Page, buttons: str) -> list[str]:
    return [str(each.get_attribute("textContent")) for each in page.all(f"#classes {buttons} .name")]


def _ticked(page: Page) -> list[str]:
    return _names(page, '[aria-pressed="true"]')


def _label(server: Server, item: str) -> list[int] | None:
    label: list[int] | None = server.get(f"/api/items/{item}")["label"]
    return label


def test_keys_tick_classes_and_enter_saves_them(page: Page, several: Server) -> None:
    page.open("keys")
    page.press("1")
    page.until(lambda: _ticked(page) == ["sport"])
    page.press("3")
    page.until(lambda: _ticked(page) == ["sport", "money"])
    assert page.text("#live") == "money ticked"
    page.press("1")
    page.until(lambda: _ticked(page) == ["money"])
    assert page.text("#save-word") == "Save: money"
    item = page.answer(ENTER)
    assert _label(several, item) == [2]
    assert page.text("#live").startswith("Saved: money")
    assert _ticked(page) == []
    assert page.text("#save-word") == "Save: none of these"
    assert not page.find('[data-do="none"]').is_displayed()  # one button says it
    places = page.script(PLACES)
    page.press("2")
    page.until(lambda: page.text("#save-word") == "Save: politics")
    assert page.script(PLACES) == places  # no button moves with the ticks
    page.press("2")
    page.until(lambda: _ticked(page) == [])
    other = page.answer(ENTER)  # nothing ticked is an answer, too
    assert _label(several, other) == []
    page.press("u")
    page.shows(other)
    assert _label(several, other) is None
    page.press("u")
    page.shows(item)
    assert _ticked(page) == ["money"]  # as it was answered: an undo corrects one class of several
    page.press("3")
    page.press("2")
    page.until(lambda: _ticked(page) == ["politics"])
    page.answer(ENTER)
    assert _label(several, item) == [1]


def test_mouse_ticks_and_saves_and_the_answer_can_be_changed(page: Page, several: Server) -> None:
    page.open("mouse")
    item = page.item
    page.find('#classes [data-class="0"]').click()
    page.find('#classes [data-class="1"]').click()
    page.until(lambda: _ticked(page) == ["sport", "politics"])
    page.find("#save").click()
    page.moved_on(item)
    assert _label(several, item) == [0, 1]
    page.dialog("h")
    page.until(lambda: page.all("dialog .result"))
    assert "sport, politics" in page.text("dialog .result")
    page.find("dialog .result").click()
    page.shows(item)
    page.until(lambda: _ticked(page) == ["sport", "politics"])  # the answer so far
    page.press("2")
    page.until(lambda: _ticked(page) == ["sport"])
    page.answer(ENTER)
    assert _label(several, item) == [0]


def test_predicted_classes_are_marked_and_ticked_only_when_asked_for(page: Page) -> None:
    page.open("marks")
    page.until(lambda: page.script("return document.querySelectorAll('#classes .share').length") == 3)
    for _ in range(4):  # an item of which the model predicts something, and which is no random check
        if page.all("#classes .predicted"):
            break
        page.answer(ENTER)
    assert page.find("#classes .predicted").get_attribute("aria-description") == "predicted by the model"
    marked = _names(page, ".predicted")
    assert _ticked(page) == []
    page.dialog("?")
    assert "Dashed edge\nThe model predicts this class" in page.text("dialog .key-list")
    page.close()
    page.dialog(",")
    page.find("#start-ticked").click()
    page.close()
    page.until(lambda: _ticked(page) == marked)


def test_names_have_the_same_room_without_the_guess(page: Page) -> None:
    page.open("room")
    page.until(lambda: page.text("#classes .share"))
    rooms = page.script(ROOMS)
    page.dialog(",")
    page.find("#hide").click()
    page.close()
    page.until(lambda: not page.text("#classes .share"))
    assert page.script(ROOMS) == rooms
    page.dialog(",")
    page.find("#hide").click()
    page.close()


def test_yes_or_no_asks_one_class_and_saves_a_partial_answer(page: Page, several: Server) -> None:
    page.open("yesno")
    page.press(".")
    while not page.find("#proposal").is_displayed():
        page.answer(ENTER)  # a random check
    asked, item = page.text("#question strong"), page.item
    page.answer("n")
    event = several.get("/api/history?person=yesno&limit=1")["events"][0]
    assert (event["item"], event["class_name"], event["absent"]) == (item, [], [asked])
    assert page.text("#live").startswith(f"Saved: not {asked}")
    page.until(lambda: "1 answered partly" in page.text("#speed"))
    assert several.get("/api/progress")["partial"] == 1
    assert several.get(f"/api/items/{item}")["absent"] == [CLASSES.index(asked)]
    assert _note(page, item) == f"partly answered: not {asked}"  # not: none of these
    while not page.find("#proposal").is_displayed():
        page.answer(ENTER)
    assert "your yes or no to this question" in page.text("#reason")
    page.dialog("h")
    page.until(lambda: page.all("dialog .result"))
    (own,) = [result for result in page.all("dialog .result") if f"not {asked}" in result.text]
    own.click()
    page.shows(item)
    page.until(lambda: page.find("#classes").is_displayed() and page.find("#save").is_displayed())


def test_enter_never_takes_a_proposal_for_the_ticks(page: Page, several: Server) -> None:
    page.open("enter")
    page.press(".")
    while not page.find("#proposal").is_displayed():
        page.press("n")  # says no; nothing is proposed, and no class is added
        assert not page.all("dialog[open]")
        page.answer(ENTER)  # a random check
    item = page.item
    assert not page.find("#save").is_displayed()
    page.press(ENTER)  # nothing in sight would be saved
    time.sleep(ECHO)
    assert not page.busy
    assert page.item == item
    other = next(name for name in CLASSES if name != page.text("#question strong"))
    page.press(str(1 + CLASSES.index(other)))
    page.until(lambda: _ticked(page) == [other])
    assert page.find("#classes").is_displayed()  # no longer folded away
    assert page.text("#save") == f"Save: {other} Enter"
    assert page.answer(ENTER) == item
    assert _label(several, item) == [CLASSES.index(other)]


def test_search_adds_a_class_to_items_and_takes_it_off(page: Page, several: Server) -> None:
    page.open("bulk")
    assert _in_bulk(page, several, off=False) == [[2], [2]]
    assert _in_bulk(page, several, off=True) == [[], []]


def _note(page: Page, item: str) -> str:
    """Return the words beside an item that a search finds."""
    page.dialog("/")
    page.find("#search-box").send_keys(f"note {item}")
    row = f'dialog .result[data-item="{item}"]'
    page.until(lambda: page.all(row))
    note = page.text(f"{row} .result-note")
    page.close()
    return note


def _in_bulk(page: Page, server: Server, *, off: bool) -> list[list[int] | None]:
    """Give two items found by a search the class money, or take it off; return their labels."""
    page.dialog("/")
    page.find("#search-box").send_keys("note 6")
    page.until(lambda: len(page.all("dialog .result")) > 2)
    page.press_with("\ue009", ENTER)
    page.until(lambda: page.all("dialog input.tick"))
    names = ["61", "62"]  # nobody has labelled them
    for box in page.all("dialog input.tick"):
        if box.get_attribute("data-item") not in names:
            page.script("arguments[0].click()", box)
    if off:
        page.script("document.getElementById('several-off').click()")
    page.find('dialog [data-class="2"]').click()
    page.until(lambda: not page.all("dialog[open]") and not page.busy)
    time.sleep(ECHO)
    return [_label(server, name) for name in names]


FIGURES = """const usual = window.fetch;
    window.fetch = async (url, ...rest) => {
        if (!String(url).includes("/api/figures")) return usual(url, ...rest);
        const checks = {classes: [], micro: null, macro: {estimate: 0.5, classes: 2}, exact: null};
        const reply = {checks, classes: [], wishes: [], needed: 10, test: null, agreement: []};
        return new Response(JSON.stringify(reply), {headers: {"content-type": "application/json"}});
    };"""


def test_figures_count_the_classes(page: Page) -> None:
    page.open("macro")
    page.script(FIGURES)
    page.find(".side [data-do=figures]").click()
    page.until(lambda: "Macro F1 50 % over 2 classes with enough checks." in page.text("dialog"))
    page.close()


def test_the_model_can_finish_items_of_several_classes(page: Page) -> None:
    page.open("finishes")
    page.find(".side [data-do=finish]").click()
    page.until(lambda: page.text("dialog.finishing [role=status]"))
    assert "one wrong class makes the item wrong" in page.text("dialog.finishing")
    page.size(390, 844, mobile=True)
    wide = "return document.querySelector('#finish-class').getBoundingClientRect().width"
    assert page.script(wide) > 180  # the choice can be read
    page.close()


def test_one_class_is_confirmed_by_yes_and_no_and_answered_by_the_model(page: Page) -> None:
    page.open("finishes one")
    page.until(lambda: page.item)
    page.find(".side [data-do=finish]").click()
    page.until(lambda: page.text("dialog.finishing [role=status]"))
    page.script("document.getElementById('finish-class').value = '1'")
    for name, value in (("finish-rate", 50), ("finish-confidence", 50)):
        page.script(f"document.getElementById('{name}').value = {value}")
    page.script("document.getElementById('finish-class').dispatchEvent(new Event('input'))")
    page.until(lambda: "say yes or no to this class" in page.text("dialog.finishing [role=status]"))
    page.find("dialog.finishing .primary").click()
    page.until(lambda: not page.all("dialog[open]") and not page.busy)
    time.sleep(ECHO)
    page.answer("s")  # the item in sight was there before
    page.until(lambda: "Confirmation" in page.text("#reason"))
    for _ in range(40):
        if "Confirmation" not in page.text("#reason"):
            break
        assert page.text("#question") == "Is it politics?", "the guess is hidden"
        assert "confirmed" in page.text("#finishing")
        time.sleep(ECHO)
        item = page.item
        page.press("y" if WORDS["politics"] in page.text("#item") else "n")
        page.until(lambda item=item: page.item != item)  # type: ignore[misc]
    page.until(lambda: "politics" in page.text("dialog.finishing [role=status]"))
    page.script("document.querySelectorAll('dialog.finishing .primary')[1].click()")
    page.until(lambda: not page.all("dialog[open]") and not page.busy)
    assert page.text("#tick") == "The model has answered politics"
    assert page.text("#finishing") == ""
    page.find(".side [data-do=finish]").click()
    page.until(lambda: "The model has answered politics" in page.text("dialog.finishing"))
    page.find("dialog.finishing .quiet").click()
    page.until(lambda: not page.all("dialog[open]") and not page.busy)


def test_a_phone_shows_classes_and_the_save_button(page: Page) -> None:
    page.size(390, 844, mobile=True)
    page.open("phone")
    page.find('#classes [data-class="1"]').click()
    page.until(lambda: _ticked(page) == ["politics"])
    save = page.find("#save")
    assert save.is_displayed()
    assert save.accessible_name.startswith("Save: politics")
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    item = page.item
    save.click()
    page.moved_on(item)
    assert page.find('#classes [data-class="0"]').aria_role == "button"


def test_the_export_reads_back_as_the_same_labels(several: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "everylabel.cli", "export", "notes.csv", "--what", "labels"]
    out = tmp_path / "labels.csv"
    subprocess.run([*command, "--out", str(out)], cwd=several.folder, check=True, capture_output=True)
    with out.open(newline="") as file:
        told = {row["row"]: row["label"] for row in csv.DictReader(file)}
    for i, (_, topics) in enumerate(rows()):
        if i < 12:
            assert sorted(told[str(i)].split(";")) == sorted(topics.split(";"))


def test_a_new_class_says_that_earlier_items_are_partly_answered(page: Page, several: Server) -> None:
    page.open("adds")  # the last test of this file: the class stays
    n = several.get("/api/progress?person=adds")["labelled"]
    page.dialog("n")
    page.find("#new-class").send_keys("weather" + ENTER)
    page.until(lambda: f"{n} items without an answer to it: see Queues." in page.text(".toast"))
    cut = "const said = document.querySelector('.toast p'); return said.scrollWidth > said.clientWidth"
    assert not page.script(cut)
    page.until(lambda: f"{n} answered partly" in page.text("#speed"))
    page.dialog("q")
    page.until(lambda: page.all("[data-queue=unanswered]"))
    page.script(CHOOSE, "3")
    page.until(lambda: page.text("[data-queue=unanswered] .result-note") == str(n))
    page.close()
    many = "const done = arguments[0]; import('/static/state.js').then(({few}) => done(few([..."
    assert page.driver.execute_async_script(f"{many}'abcde'])))") == "a, b, c and 2 more"  # in History
    assert page.text("#labelled") == str(n)  # as many as before
    assert page.text("#left").startswith("answered, ")
    assert _note(page, "0") == "partly answered: sport; not politics, money"
