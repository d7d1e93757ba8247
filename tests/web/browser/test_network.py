"""The page says since when the network reads the items better."""

from pathlib import Path

from selenium import webdriver

from tests.projects.test_network import _by_hand, bert, label, opened, source, trainer_of  # noqa: F401
from tests.web.browser.conftest import fresh
from tests.web.browser.servers import Server


def test_note_and_curve_show_since_when_the_network_reads_better(
    source: Path,  # noqa: F811
    bert: str,  # noqa: F811
    driver: webdriver.Chrome,
) -> None:
    with opened(source, bert) as service:
        label(service)
        trainer_of(service)._attempt()
        label(service, 120)  # others: the curve goes on
    server = Server(source.parent, source.name, "--model", bert).start()
    try:
        page = fresh(driver, server)
        page.open("reader")
        page.until(lambda: "Since label 100" in page.text("#network-note"))
        page.until(lambda: page.all("#curve .generation"))
        assert "Since label 100" in page.script(
            "return document.querySelector('#curve line.generation title').textContent"
        )
        assert page.console() == []
    finally:
        server.stop()
