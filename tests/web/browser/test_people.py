"""Two browsers at one server: names, answers of others, and presence."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import ENTER, ESCAPE, Page, start_browser
from tests.web.browser.servers import Server
from tests.web.servers import label

LEASE = 1  # second
ASKED = "dialog.person-dialog[open]"


@pytest.fixture(scope="module")
def other(browser_there: None) -> Iterator[webdriver.Chrome]:
    driver = start_browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def server(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with leases of one second; the first test finds it unused."""
    server = Server(tmp_path_factory.mktemp("people"), "digits", "--lease-seconds", str(LEASE)).start()
    yield server
    server.stop()


def _answers(server: Server, item: str) -> dict[str, int]:
    return {each["person"]: each["class"] for each in server.get(f"/api/items/{item}")["answers"]}


def _told(page: Page, text: str) -> None:
    page.until(lambda: text in page.text("#toasts"))


def _beat(page: Page) -> None:
    """Let the page report that it is open, as it does regularly."""
    page.script("document.dispatchEvent(new Event('visibilitychange'))")


def test_the_second_browser_is_asked_who_it_is(
    driver: webdriver.Chrome, other: webdriver.Chrome, server: Server, axe: str
) -> None:
    first, second = fresh(driver, server).open(), fresh(other, server)
    assert first.text("#person") == "me"  # alone, and not bothered
    item = first.answer("1")
    first.driver.refresh()
    assert first.ready().text("#person") == "me"
    first.driver.get("about:blank")  # the same person opens the page in another browser
    second.driver.get(server.url)
    assert second.ready().text("#person") == "me"
    second.driver.get("about:blank")
    fresh(other, server)
    assert first.open().text("#person") == "me"
    second.driver.get(server.url)  # while it is open here
    second.until(lambda: second.all(ASKED))
    assert second.violations(axe) == []
    second.press(ENTER)
    second.until(lambda: "Enter a name" in second.text(".problem-note"))
    second.press("me", ENTER)
    second.until(lambda: "Another browser labels as “me” just now" in second.text(".problem-note"))
    second.find("#person-name").clear()
    second.find("#person-name").send_keys("Ben", ENTER)
    second.ready()
    assert second.text("#person") == "Ben"
    assert second.answer("2") != item
    second.driver.get(server.url)
    assert second.ready().text("#person") == "Ben"  # remembered

    places = first.places(".answers button")
    _beat(first)  # who was alone is asked beside the work
    first.until(lambda: first.find("#who").is_displayed())
    assert not first.all(ASKED)
    assert first.places(".answers button") == places
    first.size(390, 844, mobile=True)
    below = first.places(".answers button")
    first.script("document.getElementById('who').hidden = true")
    assert first.places(".answers button") == below
    first.script("document.getElementById('who').hidden = false")
    first.size(1280, 820)
    first.find("#who-stay").click()
    assert not first.find("#who").is_displayed()
    first.driver.refresh()
    assert first.ready().text("#person") == "me"
    people = {each["name"]: each["answers"] for each in server.get("/api/progress")["people"]}
    assert people == {"me": 1, "Ben": 1}

    fresh(other, server).driver.get(server.url)  # a third, who tells no name, gets one of their own
    second.until(lambda: second.all(ASKED))
    second.press(ESCAPE)
    _told(second, "Click that name")
    assert second.ready().text("#person") == "guest 1"


def test_a_new_name_says_what_becomes_of_earlier_answers(driver: webdriver.Chrome, digits: Server) -> None:
    page = fresh(driver, digits).open("Ola")
    page.answer("1")
    for name, said in (("Pia", "You label as “Pia” now. Earlier answers stay under “Ola”."), ("Quy", "")):
        page.find(".person").click()
        page.until(lambda: page.all(ASKED))
        page.press(name, ENTER)
        _told(page, said or "You label as “Quy” now.")
    assert "under “Pia”" not in page.text("#toasts")  # Pia has given none


def test_an_answer_given_meanwhile_is_reported_and_both_are_kept(
    driver: webdriver.Chrome, other: webdriver.Chrome, server: Server
) -> None:
    ana, ben = fresh(driver, server).open("Ada"), fresh(other, server).open("Bob")
    item = ana.item
    for mine, his in (("3", "7"), ("7", "7")):
        time.sleep(1.1 * LEASE)
        ben.script("import('/static/actions.js').then(({jump}) => jump(arguments[0]))", item)
        ben.shows(item)
        ben.answer(his)
        ana.press(mine)
        _told(ana, f"Bob said {his} meanwhile" + (", too." if mine == his else "; both answers are kept."))
        ana.moved_on(item)
        assert _answers(server, item) == {"Bob": int(his), "Ada": int(mine)}
        if mine != his:
            ana.until(lambda: "1 disputed item" in ana.text("#disputed"))
        item = ana.item


def test_an_answer_of_another_window_is_not_replaced_without_a_word(
    driver: webdriver.Chrome, other: webdriver.Chrome, digits: Server
) -> None:
    ana, twin = fresh(driver, digits).open("Ana"), fresh(other, digits)
    item = ana.item
    twin.driver.get(f"{digits.url}/?person=Ana")
    _told(twin, "Another browser labels as “Ana” just now")
    assert twin.ready().item == item
    twin.answer("4")
    ana.press("5")
    _told(ana, "answered as Ana meanwhile: 4. Your answer now replaces it; u undoes it")
    ana.moved_on(item)
    ana.press("u")
    ana.shows(item)
    assert _answers(digits, item) == {"Ana": 4}


def test_an_answer_that_is_delivered_late_counts_too(driver: webdriver.Chrome, server: Server) -> None:
    page = fresh(driver, server).open("Finn")
    item = server.answered_by(Gil=7)
    body = {"person": "Finn", "item": item, "class": 2, "key": "late"}
    stored = {"late": {"path": "/api/label", "body": body, "project": "digits"}}
    page.script("localStorage.setItem('everylabel.unsaved', arguments[0])", json.dumps(stored))
    page.driver.refresh()
    _told(page, "is saved now. Gil said 7 meanwhile; both answers are kept.")
    page.ready()
    assert _answers(server, item) == {"Gil": 7, "Finn": 2}


def test_labelling_now_ends_when_the_tab_closes(
    driver: webdriver.Chrome, other: webdriver.Chrome, server: Server
) -> None:
    ana, ben = fresh(driver, server).open("Cleo"), fresh(other, server).open("Dan")
    ben.answer("1")
    ana.answer("1")
    ana.until(lambda: "Dan\nlabelling now" in ana.text("#people"))
    ben.driver.get("about:blank")
    ana.until(lambda: "Dan\n1" in ana.text("#people"))


def test_link_opens_the_page_as_its_person(driver: webdriver.Chrome, tmp_path: Path) -> None:
    with label(tmp_path, "digits", "--host", "0.0.0.0", "--token", "abc" * 7) as running:
        address = f"http://127.0.0.1:{urlsplit(running.address).port}"
        driver.get(f"{address}/as/Zo%C3%AB%20M?token={'abc' * 7}")
        page = Page(driver, address)
        page.until(lambda: page.text("#project") == "digits")
        assert page.ready().text("#person") == "Zoë M"
        assert driver.current_url == f"{address}/as/Zo%C3%AB%20M"
        driver.get(address)
        assert page.ready().text("#person") == "Zoë M"
        assert running.process.stdout is not None
        printed = [running.process.stdout.readline(), running.process.stdout.readline()]
        assert any(line.startswith("a link for each person: ") for line in printed)
        assert any(f"/as/NAME?token={'abc' * 7}" in line for line in printed)
