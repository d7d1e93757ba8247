"""A real JupyterLab on this machine, and a notebook in it driven as a person would."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.web.browser.pages import PATIENCE, Page

ROOT = Path(__file__).parents[3]
GRACE = 10  # seconds to stop in
KERNEL = "python3"  # in place of the one that JupyterLab brings
QUIET = {
    "fetchNews": "false",
    "checkForUpdates": False,
    "doNotDisturbMode": True,
}  # nothing is asked of others


class Lab:
    """JupyterLab of a virtual environment, whose kernels have everylabel; it asks for no token."""

    def __init__(self, environment: Path, folder: Path, port: int) -> None:
        self.environment, self.folder, self.port = environment, folder, port
        self.url = f"http://localhost:{port}"  # another site than 127.0.0.1 to a browser, as it is usual
        self.temporary = folder / "temporary"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Lab":
        kernel = self.folder / "share" / "kernels" / KERNEL
        quiet = self.folder / "settings" / "@jupyterlab" / "apputils-extension"
        for folder in (kernel, quiet, self.temporary, self.folder / "work"):
            folder.mkdir(parents=True, exist_ok=True)
        (quiet / "notification.jupyterlab-settings").write_text(json.dumps(QUIET))
        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        about = {"argv": launch, "display_name": "Python 3", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(about))
        own = {
            f"JUPYTER_{name}_DIR": str(self.folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")
        }
        own |= {"JUPYTER_PATH": str(self.folder / "share"), "TMPDIR": str(self.temporary)}
        own |= {"JUPYTERLAB_SETTINGS_DIR": str(self.folder / "settings")}
        settings = {
            "ServerApp.port": str(self.port),
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.root_dir": str(self.folder / "work"),
            "ServerApp.allow_root": "True",
            "IdentityProvider.token": "",
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        }
        command = [str(self.environment / "bin" / "jupyter-lab"), "--no-browser", "--expose-app-in-browser"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        place = os.environ | own | {"PYTHONPATH": str(ROOT)}
        with (self.folder / "printed.txt").open("wb") as out:
            self.process = subprocess.Popen(
                command, env=place, stdout=out, stderr=out, start_new_session=True
            )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            if time.monotonic() > end or self.process.poll() is not None:
                self.stop()
                raise RuntimeError(f"JupyterLab did not start: {(self.folder / 'printed.txt').read_text()}")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _answers(self) -> bool:
        try:
            self.get("/api/status")
        except OSError:
            return False
        return True

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as reply:
            return json.load(reply)

    def write(self, name: str, cells: list[str]) -> None:
        """Write a notebook of these cells."""
        empty: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        kernel = {"name": KERNEL, "display_name": "Python 3", "language": "python"}
        all_cells = [empty | {"id": f"cell-{i}", "source": text} for i, text in enumerate(cells)]
        known = {"kernelspec": kernel, "language_info": {"name": "python"}}
        about = {"metadata": known, "nbformat": 4, "nbformat_minor": 5, "cells": all_cells}
        (self.folder / "work" / name).write_text(json.dumps(about))

    def left(self) -> list[str]:
        """Return what sessions have left behind."""
        return [path.name for path in self.temporary.iterdir() if path.name.startswith("everylabel-")]


class Notebook(Page):
    """A notebook that is open in JupyterLab; inside the frame, the page of a session."""

    def __init__(self, driver: webdriver.Chrome, lab: Lab, name: str) -> None:
        super().__init__(driver, f"{lab.url}/lab/tree/{name}")

    def start(self) -> "Notebook":
        """Open it, and wait for its kernel."""
        self.driver.get(f"{self.url}?reset")
        idle = (
            "const context = window.jupyterapp?.shell.currentWidget?.sessionContext;"
            "return !!context?.isReady && context.session?.kernel?.status === 'idle'"
        )
        asks = ".jp-Dialog .jp-mod-accept"  # which kernel, the first time
        self.until(lambda: self.script("return !!window.jupyterapp && !!document.querySelector('.jp-Cell')"))
        self.until(lambda: self.all(asks) or self.script(idle))
        for button in self.all(asks):
            button.click()
        self.until(lambda: not self.all(asks) and self.script(idle))
        return self

    def run(self, command: str) -> None:
        """Run a command of JupyterLab."""
        self.script("window.jupyterapp.commands.execute(arguments[0])", command)

    def run_cell(self) -> None:
        self.run("notebook:run-cell-and-select-next")

    def enter(self) -> None:
        """Go into the frame of the session, and wait for its first item."""
        self.until(lambda: self.all("iframe[title=everylabel]"))
        self.driver.switch_to.frame(self.driver.find_element(By.CSS_SELECTOR, "iframe[title=everylabel]"))
        self.ready()

    def leave(self) -> None:
        self.driver.switch_to.default_content()
