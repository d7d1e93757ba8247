"""`everylabel label-studio` as a process of its own, which may be killed at any moment."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.log.events import Assessed, Event
from everylabel.log.store import Store
from tests.live.label_studio.studio import TOKEN, Project

COMMAND = [sys.executable, "-m", "everylabel.cli", "label-studio"]
PATIENCE = 1800  # seconds until it must be up, however busy the machine is and many tasks there are


class Backend:
    """Our backend beside one project, in a folder that keeps what it knows."""

    def __init__(self, project: Project, folder: Path, port: int, *more: str, token: str = TOKEN) -> None:
        self.project, self.folder, self.port, self.more, self.token = project, folder, port, more, token
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.starts: list[float] = []

    def start(self) -> "Backend":
        """Start it and wait until it answers."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [*COMMAND, "--url", self.project.studio.url, "--token", self.token]
        command += ["--project", str(self.project.number), "--port", str(self.port), *self.more]
        variables = {**os.environ, "EVERYLABEL_CACHE": str(self.folder / "cache")}
        with (self.folder / "printed.txt").open("ab") as out:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=out, env=variables)
        while time.monotonic() < began + PATIENCE and self.process.poll() is None:
            try:
                self.ask("/health")
                self.starts.append(time.monotonic() - began)
                return self
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"the backend did not start: {self.printed()[-3000:]}")

    def kill(self) -> None:
        """Kill it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Ask it to end."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.load(reply)

    def predict(self, tasks: list[dict[str, Any]]) -> dict[int, "Opinion"]:
        """Return what it thinks of tasks, asked as Label Studio asks."""
        known = self.project.get()
        body = {
            "tasks": [{"id": task["id"], "data": task["data"]} for task in tasks],
            "project": f"{self.project.number}.0",
            "label_config": known["label_config"],
            "params": {"login": None, "password": None, "context": None},
        }
        results = self.ask("/predict", body)["results"]
        return {task["id"]: Opinion.read(result) for task, result in zip(tasks, results, strict=True)}

    def version(self) -> str:
        """Return the model's version, asked as Label Studio asks."""
        body = {"project": f"{self.project.number}.0", "schema": "", "hostname": self.project.studio.url}
        return str(self.ask("/setup", body)["model_version"])

    def events(self) -> list[Event]:
        """Return what its log holds."""
        place = self.folder / f"label-studio-{self.project.number}.everylabel"
        store = Store(place / "labels.sqlite", f"{place.stem}.jsonl", write=False)
        try:
            return store.read()
        finally:
            store.close()

    def train(self) -> None:
        """Have it train exactly, as the button in Label Studio does, and wait until that is done."""
        before = self._trainings()
        self.ask("/webhook", {"action": "START_TRAINING", "project": {"id": self.project.number}})
        end = time.monotonic() + PATIENCE
        while self._trainings() == before:
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for training: {self.printed()[-2000:]}")
            time.sleep(0.1)

    def _trainings(self) -> int:
        return sum(isinstance(event.body, Assessed) for event in self.events())

    def printed(self) -> str:
        return (self.folder / "printed.txt").read_text(errors="replace")


class Opinion(NamedTuple):
    """A prediction of one task: its class, how likely that is, and how soon it should be asked."""

    choice: str
    probability: float
    score: float

    @classmethod
    def read(cls, result: dict[str, Any]) -> "Opinion":
        regions = result["result"] or [{"value": {"choices": [""]}, "score": 0.0}]
        return cls(regions[0]["value"]["choices"][0], regions[0]["score"], result["score"])
