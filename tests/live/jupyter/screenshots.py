"""Take the picture of docs/notebooks.md from a real JupyterLab: `make screenshots-jupyter`."""

import os
import sys
import tempfile
from pathlib import Path

from tests.live.jupyter.conftest import WHERE
from tests.live.jupyter.lab import Lab, Notebook
from tests.projects.postgres import free_port
from tests.web.browser.pages import start_browser
from tests.web.browser.screenshots import TOPICS, click_class, save, write_messages

LABELS = 24


def main() -> int:
    """Label some messages inside a notebook, look at them in the next cell, and take the picture."""
    with tempfile.TemporaryDirectory() as name:
        lab = Lab(Path(os.environ[WHERE]).absolute(), Path(name), free_port())
        driver = start_browser()
        try:
            lab.start()
            topics = write_messages(lab.folder / "work" / "messages.csv")
            begin = (
                "import everylabel as el, pandas as pd\n\n"
                'messages = pd.read_csv("messages.csv")\n'
                f'session = el.label(messages, classes={list(TOPICS)}, model="tfidf", height=560)'
            ).replace("'", '"')
            lab.write(
                "messages.ipynb",
                [begin, "session.labels.tail(3)", 'session.predict(["Where is my parcel?"])'],
            )
            notebook = Notebook(driver, lab, "messages.ipynb")
            notebook.size(1180, 1120)
            notebook.prefer("light")
            notebook.start()
            notebook.run("application:toggle-left-area")
            notebook.run_cell()
            notebook.enter()
            while notebook.labelled < LABELS or "check" in notebook.text("#reason"):
                click_class(notebook, list(TOPICS).index(topics[notebook.text("#item .text")]))
            notebook.leave()
            notebook.run_cell()
            notebook.run_cell()
            notebook.until(lambda: "array(" in notebook.text(".jp-Notebook"))
            notebook.script("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
            save(notebook, "notebook", 1.0)
        finally:
            driver.quit()
            lab.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
