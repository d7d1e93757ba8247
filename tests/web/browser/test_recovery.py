"""A server that is killed while someone labels."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import Page
from tests.web.browser.servers import Server


@pytest.fixture(scope="module")
def server(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("recovery"), "digits").start()
    yield server
    server.stop()


def _answered(server: Server, person: str) -> list[tuple[str, int]]:
    events = server.get(f"/api/history?person={person}")["events"]
    return [(event["item"], event["class"]) for event in reversed(events)]


def test_nothing_is_lost_when_the_server_is_killed(driver: webdriver.Chrome, server: Server) -> None:
    page = fresh(driver, server).open("kill")
    items = [page.answer(key) for key in "123"]
    server.kill()
    items.append(page.item)
    page.press("7")
    page.until(lambda: "Not saved yet" in page.text("#offline"))
    page.press("8")  # too late: 7 is on its way
    server.start()
    page.moved_on(items[-1])
    assert not page.text("#offline")
    items.append(page.answer("5"))
    page.until(lambda: page.labelled == 5)
    assert _answered(server, "kill") == list(zip(items, [1, 2, 3, 7, 5], strict=True))


def test_an_answer_outlives_the_page(driver: webdriver.Chrome, server: Server) -> None:
    page = fresh(driver, server).open("outlive")
    item = page.item
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/label"]})
    page.press("7")
    page.until(lambda: "Not saved yet" in page.text("#offline"))
    driver.get("about:blank")
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    assert _answered(server, "outlive") == []
    page.open("outlive")
    assert page.item != item
    assert _answered(server, "outlive") == [(item, 7)]


def _refusing(page: Page, status: int) -> None:
    """Refuse the page's requests."""
    page.script(
        """const [status] = arguments;
        window.fetch = async () => new Response(
            JSON.stringify({error: {code: "refused", message: "Refused for a test"}}), {status});""",
        status,
    )


def _unsaved(page: Page) -> dict[str, Any]:
    return json.loads(page.script("return localStorage.getItem('everylabel.unsaved')") or "{}")


def test_an_answer_without_the_token_waits(driver: webdriver.Chrome, server: Server) -> None:
    page = fresh(driver, server).open("waits")
    item = page.item
    _refusing(page, 401)
    for key in "37":  # the second is what counts
        page.press(key)
        page.until(lambda: not page.busy)
        page.until(lambda: "Refused for a test" in page.text("#toasts"))
        page.script("document.getElementById('toasts').replaceChildren()")
    assert [entry["body"]["class"] for entry in _unsaved(page).values()] == [7]
    page.press("u")  # is not kept
    page.until(lambda: "Refused for a test" in page.text("#toasts"))
    assert len(_unsaved(page)) == 1
    page.open("waits")
    assert _answered(server, "waits") == [(item, 7)]
    assert _unsaved(page) == {}


@pytest.mark.parametrize("status", [404, 409, 422])
def test_permanently_refused_answer_is_dropped(driver: webdriver.Chrome, server: Server, status: int) -> None:
    page = fresh(driver, server).open(f"refused{status}")
    _refusing(page, status)
    page.press("3")
    page.until(lambda: "Refused for a test" in page.text("#toasts"))
    assert _unsaved(page) == {}


def test_answers_of_another_project_stay(driver: webdriver.Chrome, server: Server) -> None:
    page = fresh(driver, server).open("stay")
    item = page.item
    body = {"person": "stay", "item": item, "class": 4}
    entries = {
        key: {"path": path, "body": {**body, "key": key}, "project": project}
        for key, path, project in (("a", "/api/label", "reviews.csv"), ("b", "/api/label", "digits"))
    }
    page.script("localStorage.setItem('everylabel.unsaved', arguments[0])", json.dumps(entries))
    page.open("stay")
    assert _answered(server, "stay") == [(item, 4)]
    assert _unsaved(page) == {"a": entries["a"]}


def test_unsent_answers_are_kept_until_they_are_delivered(driver: webdriver.Chrome, server: Server) -> None:
    page = fresh(driver, server).open("kept")
    stored = {}
    for item in ("11", "12"):
        body = {"person": "kept", "item": item, "class": 4, "key": f"kept {item}"}
        stored[f"kept {item}"] = {"path": "/api/label", "body": body, "project": "digits"}
    page.script("localStorage.setItem('everylabel.unsaved', arguments[0])", json.dumps(stored))
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/label"]})
    driver.get(f"{server.url}/?person=kept")
    page.until(lambda: "Not saved yet" in page.text("#offline"))
    assert set(_unsaved(page)) == set(stored)
    driver.get("about:blank")  # closed while the first is on its way
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.open("kept")
    assert _answered(server, "kept") == [("11", 4), ("12", 4)]


def test_the_page_says_that_the_log_is_gone(
    browser_there: None, driver: webdriver.Chrome, tmp_path: Path
) -> None:
    server = Server(tmp_path, "digits").start()
    page = fresh(driver, server).open("gone")
    page.answer("3")
    log = next(tmp_path.rglob("labels.sqlite"))
    log.rename(tmp_path / "elsewhere")
    item = page.item
    page.press("5")
    page.until(lambda: "deleted or moved" in page.text("#offline"))
    assert "Not saved yet, but not lost" in page.text("#offline")
    (tmp_path / "elsewhere").rename(log)
    page.moved_on(item)
    assert [given for _, given in _answered(server, "gone")] == [3, 5]
    server.stop()
