"""The printed address, opened from anywhere."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from selenium import webdriver

from tests.web.browser.pages import ENTER, Page
from tests.web.servers import label


@contextmanager
def _site(link: str) -> Iterator[str]:
    """Yield the address of another site with a link."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f'<!doctype html><a id="link" href="{link}">the page</a>'.encode())

        def log_message(self, format: str, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:  # browsers open connections ahead, and wait
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://localhost:{site.server_port}/"
        site.shutdown()
        thread.join()


def test_a_link_on_another_site_and_two_servers(driver: webdriver.Chrome, tmp_path: Path) -> None:
    options = ("digits", "--host", "0.0.0.0", "--token")
    with (
        label(tmp_path, *options, "abc" * 7, "--project", tmp_path / "a") as one,
        label(tmp_path, *options, "def" * 7, "--project", tmp_path / "b") as two,
    ):
        first, second = (f"http://127.0.0.1:{urlsplit(server.address).port}" for server in (one, two))
        with _site(f"{first}/?token={'abc' * 7}&amp;person=anna") as site:
            driver.get(site)
            page = Page(driver, first)
            page.find("#link").click()
            page.until(lambda: page.text("#project") == "digits")
            page.ready()
        assert driver.current_url == f"{first}/?person=anna"
        assert page.text("#person") == "anna"
        driver.get(f"{second}/?token={'def' * 7}")
        page.until(lambda: page.all("dialog.person-dialog"))  # whoever comes with a token is asked
        page.press("anna", ENTER)
        Page(driver, second).ready()
        page.open("anna")  # the second server's cookie has not taken the place of the first one's
        assert page.item


def test_read_only_token_sees_all_and_changes_nothing(driver: webdriver.Chrome, tmp_path: Path) -> None:
    options = ("digits", "--host", "0.0.0.0", "--token", "abc" * 7, "--look-token", "eye" * 7)
    with label(tmp_path, *options) as server:
        address = f"http://127.0.0.1:{urlsplit(server.address).port}"
        driver.get(f"{address}/?token={'eye' * 7}")
        page = Page(driver, address)
        page.until(lambda: "You have read-only access" in page.text("#item"))
        page.press("1")
        assert page.dialog("e") == "Export"
        page.until(lambda: page.all(".download"))
        page.console()
        assert server.client.get("/api/progress")["answers"] == 0
