"""Suggestions in a real browser: shown as such, taken by one key, hidden on random checks."""

import json
from collections.abc import Iterator

import pytest
from selenium import webdriver
from sklearn.datasets import load_digits

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import Page
from tests.web.browser.servers import Server

Y = load_digits().target
HIDDEN = "No suggestion is shown here, so that you are not biased."


@pytest.fixture(scope="module")
def suggested(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of digits with a suggestion for each."""
    folder = tmp_path_factory.mktemp("suggested")
    rows = ({"id": str(i), "label": str(Y[i]), "score": 0.75, "source": "gpt"} for i in range(len(Y)))
    (folder / "gpt.jsonl").write_text("\n".join(map(json.dumps, rows)))
    server = Server(folder, "digits", "--suggestions", "gpt.jsonl", "--check-every", "2").start()
    yield server
    server.stop()


def test_a_suggestion_is_taken_by_one_key_and_hidden_on_random_checks(
    driver: webdriver.Chrome, suggested: Server
) -> None:
    page: Page = fresh(driver, suggested)
    page.open("Ann")
    seen, tops = set(), set()
    for _ in range(4):
        item = page.item
        check = "Random check" in page.text("#reason")
        seen.add(check)
        tops.add(page.find("#classes .class").rect["y"])
        assert page.find("#suggestion-accept").is_displayed() != check
        if check:
            assert page.text("#suggestion-text") == HIDDEN
            page.press(";")  # there is one, but it is hidden
            page.until(lambda: page.text("#missed") == HIDDEN)
            page.answer("1")
            continue
        assert page.text("#suggestion-text") == f"gpt suggests {Y[int(item)]}, 0.75"
        page.answer(";")
        event = suggested.get("/api/history?person=Ann&limit=1")["events"][0]
        assert (event["item"], event["class"]) == (item, Y[int(item)])
    assert seen == {True, False}
    assert len(tops) == 1  # the classes do not move
    assert page.find("#sources-section").rect["y"] < page.find("#curve").rect["y"]  # in sight
    page.find("[data-do='sources']").click()
    page.until(lambda: "1,797" in page.text("dialog tbody"))
    assert "random check" in page.text("dialog tbody")
    page.close()
    page.size(390, 844, mobile=True)
    assert not page.find(".suggestion kbd").is_displayed()  # a thumb has no keys
    assert page.console() == []
