"""The page inside a notebook of a real JupyterLab, in a real browser."""

import urllib.error
import urllib.request

import pytest
from selenium import webdriver

from tests.live.jupyter.lab import Lab, Notebook

CELLS = [
    "import everylabel as el\nfrom tests.notebook.people import CLASSES, TEXTS\n"
    "session = el.label(TEXTS, CLASSES, model='tfidf')\nprint('here', session.address)",
    "print('labelled', len(session.records), session.predict(['my new debit card'])[0])",
]


def is_card(notebook: Notebook) -> bool:
    return notebook.text("#item .text").endswith("card")


def test_the_page_is_labelled_inside_a_notebook(lab: Lab, driver: webdriver.Chrome) -> None:
    lab.write("session.ipynb", CELLS)
    notebook = Notebook(driver, lab, "session.ipynb").start()
    notebook.run_cell()
    notebook.enter()
    first = notebook.item  # after a click the keys are the frame's
    notebook.find('[data-class="0"]' if is_card(notebook) else '[data-class="1"]').click()
    notebook.moved_on(first)
    for _ in range(7):
        notebook.answer("1" if is_card(notebook) else "2")
    notebook.leave()
    assert not [line for line in notebook.console() if "frame-ancestors" in line]
    notebook.run_cell()
    outputs = notebook.until(lambda: "labelled" in (text := notebook.text(".jp-Notebook")) and text)
    assert "labelled 8 card" in outputs
    address = outputs.split("here ")[1].split()[0]
    assert len(lab.left()) == 1

    notebook.run("notebook:restart-kernel")
    notebook.until(lambda: notebook.all(".jp-Dialog .jp-mod-accept"))[0].click()
    notebook.until(lambda: not lab.left())
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)
