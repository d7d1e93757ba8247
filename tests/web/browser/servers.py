"""The real server as a process of its own."""

import json
import re
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.forks import Forked

PATIENCE = 300  # seconds until a server must be up, compiling and a busy machine included


class Server:
    """`everylabel label` with some arguments, in a folder that keeps its labels."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.arguments = folder, arguments
        self.port, self.url = 0, ""
        self.process: Forked | None = None

    def start(self) -> "Server":
        """Start it, at the same port when it has run before."""
        printed = self.folder / "printed.txt"
        command = ["label", *self.arguments, "--port", str(self.port), "--no-browser"]
        with printed.open("wb") as out:
            self.process = Forked(command, self.folder, out)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"http://[\w.]+:(\d+)", printed.read_text(errors="replace"))
            if found and self._answers(found[0]):
                self.url, self.port = found[0], int(found[1])
                return self
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"the server did not start: {printed.read_text(errors='replace')}")

    def kill(self) -> None:
        """Kill it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def _answers(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(f"{url}/api/health", timeout=PATIENCE) as reply:
                return bool(json.load(reply)["ok"])
        except OSError:
            return False

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as reply:
            return json.load(reply)

    def post(self, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.load(reply)

    def answered_by(self, **answers: int) -> str:
        """Let people answer one item, which the first of them gets; return it."""
        item = str(self.post("/api/next", person=next(iter(answers)))["next"]["item"]["id"])
        for person, number in answers.items():
            self.post("/api/label", **{"person": person, "item": item, "class": number})
        return item
