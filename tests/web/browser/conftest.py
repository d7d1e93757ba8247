"""One server of each kind and one browser a worker; each test labels under a name of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.web.browser import pages
from tests.web.browser.servers import Server
from tests.web.browser.texts import write_texts


@pytest.fixture(scope="session")
def browser_there() -> None:
    for name, found in (("chromium", pages.CHROMIUM), ("chromedriver", pages.CHROMEDRIVER)):
        if found is None:
            pytest.skip(f"{name} is not installed (Debian: apt-get install chromium chromium-driver)")


@pytest.fixture(scope="session")
def digits(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("digits"), "digits").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def texts(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("texts")
    server = Server(folder, *write_texts(folder)).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def driver(browser_there: None) -> Iterator[webdriver.Chrome]:
    driver = pages.start_browser()
    yield driver
    driver.quit()


def fresh(driver: webdriver.Chrome, server: Server) -> pages.Page:
    """Return a page at its usual size that remembers nothing of earlier tests."""
    page = pages.Page(driver, server.url)
    page.size(1280, 820)
    page.prefer("light")
    kept = {"origin": server.url, "storageTypes": "cookies,local_storage"}  # the page uses no other
    driver.execute_cdp_cmd("Storage.clearDataForOrigin", kept)
    page.console()
    return page


@pytest.fixture
def page(driver: webdriver.Chrome, digits: Server) -> Iterator[pages.Page]:
    page = fresh(driver, digits)
    yield page
    assert page.console() == []  # no error, and nothing against the content security policy


@pytest.fixture
def text_page(driver: webdriver.Chrome, texts: Server) -> Iterator[pages.Page]:
    page = fresh(driver, texts)
    yield page
    assert page.console() == []


@pytest.fixture(scope="session")
def axe(browser_there: None) -> str:
    """Return the source of axe-core, which npm fetches into a cache on the first run."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "everylabel-tests"
    source = cache / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(
                "axe-core is not there, and npm is not installed to fetch it (Debian: apt-get install npm)"
            )
        source.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:  # another worker may fetch too
            command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder]
            done = subprocess.run([*command, "axe-core@4"], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(
                    f"axe-core is not there, and npm could not fetch it: {done.stderr.strip()[-200:]}"
                )
            (Path(folder) / source.relative_to(cache)).replace(source)
    return source.read_text()
