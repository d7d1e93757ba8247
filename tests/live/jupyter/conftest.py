"""A JupyterLab and a browser; `make test-jupyter` installs the first, without which all is skipped."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.live.jupyter.lab import Lab
from tests.projects.postgres import free_port
from tests.web.browser import pages

WHERE = "EVERYLABEL_JUPYTER"  # the folder of JupyterLab's virtual environment


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if not os.environ.get(WHERE):
        pytest.skip(f"needs a real JupyterLab: run make test-jupyter (it sets {WHERE})")
    if pages.CHROMIUM is None or pages.CHROMEDRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    lab = Lab(Path(os.environ[WHERE]).absolute(), tmp_path_factory.mktemp("lab"), free_port()).start()
    yield lab
    lab.stop()


@pytest.fixture(scope="session")
def driver(lab: Lab) -> Iterator[webdriver.Chrome]:
    driver = pages.start_browser()
    yield driver
    driver.quit()
