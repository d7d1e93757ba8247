"""The page says since when the network reads the items better."""

from pathlib import Path

from selenium import webdriver

from everylabel.projects.folder import LogUse
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web.server import opened_server
from tests.projects.test_network import _by_hand, bert, label, opened, source, trainer_of  # noqa: F401
from tests.web.browser.conftest import fresh
from tests.web.browser.servers import Server
from tests.web.servers import served


def test_note_and_curve_show_since_when_the_network_reads_better(
    source: Path,  # noqa: F811
    bert: str,  # noqa: F811
    driver: webdriver.Chrome,
) -> None:
    with opened(source, bert) as service:
        label(service)
        trainer_of(service)._attempt()
        label(service, 120)  # others: the curve continues
    project = open_project(source, model=bert, log=LogUse())
    opening = opened_server(project, LabelOptions(port=0), print, print, None)
    with opening as here, served(here.server.config) as port:  # in this process: no more attempts are made
        server = Server(source.parent)
        server.url = f"http://127.0.0.1:{port}"
        page = fresh(driver, server).open("reader")
        page.until(lambda: "Since label 100" in page.text("#network-note"))
        assert "% of held-out labels, before" in page.text("#network-note")
        page.until(lambda: page.all("#curve .generation"))
        assert "Since label 100" in page.script(
            "return document.querySelector('#curve line.generation title').textContent"
        )
        assert page.console() == []
        driver.get("about:blank")
