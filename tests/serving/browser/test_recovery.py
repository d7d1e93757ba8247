"""A server that is killed while someone labels."""

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.serving.browser.conftest import fresh
from tests.serving.browser.servers import Server


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
