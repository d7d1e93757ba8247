"""A real Label Studio on loopback, as a process of its own, and what its page asks of its API.

It sends nothing out: no analytics, no question for its latest version, no error reports. Its data folder is
fresh, its first user and token are given on the command line.
"""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

USER, PASSWORD = "one@example.com", "not-a-secret"
TOKEN = "0123456789abcdef0123456789abcdef01234567"
PATIENCE = 300  # seconds until it must be up: the first start makes its database
QUIET = {
    "COLLECT_ANALYTICS": "false",
    "LATEST_VERSION_CHECK": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "FEATURE_FLAGS_OFFLINE": "true",
    "HTTPS_PROXY": "http://127.0.0.1:9",  # its login page asks for tips: they go nowhere
    "NO_PROXY": "127.0.0.1,localhost",
}
LOCAL = {"ML_BLOCK_LOCAL_IP": "false", "SSRF_PROTECTION_ENABLED": "false"}  # a backend on loopback


class Refused(Exception):
    """Label Studio answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Studio:
    """One server with its data, which outlive a restart."""

    def __init__(self, environment: Path, folder: Path, port: int) -> None:
        self.environment, self.folder, self.port = environment, folder, port
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.release = ""

    def start(self) -> "Studio":
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(self.environment / "bin" / "label-studio"), "start", "--no-browser"]
        command += ["--internal-host", "127.0.0.1", "--port", str(self.port), "--host", self.url]
        command += ["--data-dir", str(self.folder), "--username", USER, "--password", PASSWORD]
        command += ["--user-token", TOKEN, "--enable-legacy-api-token"]
        with (self.folder / "printed.txt").open("ab") as out:
            variables = {**os.environ, **QUIET, **LOCAL}
            variables.pop("PYTHONPATH", None)
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdout=out, stderr=out, env=variables, start_new_session=True
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.release = str(self.ask("GET", "/api/version")["release"])
                return self
            except (OSError, Refused):
                time.sleep(0.2)
        self.stop()
        raise RuntimeError(f"Label Studio did not start: {(self.folder / 'printed.txt').read_text()[-3000:]}")

    def stop(self) -> None:
        """Stop it; what it was asked before is kept."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def ask(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> Any:
        """Send one request and return what is answered."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Token {token}", "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")[:2000]) from error
        return json.loads(text) if text else None

    def complaints(self) -> list[str]:
        """Return the errors it printed."""
        text = (self.folder / "printed.txt").read_text(errors="replace")
        return re.findall(r"^.*(?:database is locked|\[ERROR\]|Internal Server Error).*$", text, re.MULTILINE)


class Project:
    """One project, seen as the page of an annotator sees it."""

    def __init__(self, studio: Studio, number: int) -> None:
        self.studio, self.number = studio, number

    @classmethod
    def create(cls, studio: Studio, title: str, config: str, texts: list[str]) -> "Project":
        """Make a project that asks for the most uncertain task next, and import texts."""
        body = {"title": title, "label_config": config, "sampling": "Uncertainty sampling"}
        project = cls(studio, studio.ask("POST", "/api/projects/", body)["id"])
        project.add(texts)
        return project

    def add(self, texts: list[str]) -> None:
        """Import texts as tasks."""
        rows = [{"text": text} for text in texts]
        self.studio.ask("POST", f"/api/projects/{self.number}/import", rows)

    def get(self) -> dict[str, Any]:
        return dict(self.studio.ask("GET", f"/api/projects/{self.number}/"))

    def tasks(self) -> list[dict[str, Any]]:
        """Return all tasks with annotations and predictions."""
        found: list[dict[str, Any]] = []
        while True:
            path = f"/api/tasks/?project={self.number}&fields=all&page_size=200&page={len(found) // 200 + 1}"
            reply = self.studio.ask("GET", path)
            found += reply["tasks"]
            if len(found) >= reply["total"] or not reply["tasks"]:
                return found

    def next_task(self, token: str = TOKEN) -> dict[str, Any]:
        """Return the task that the label stream shows next to a person."""
        return dict(self.studio.ask("GET", f"/api/projects/{self.number}/next/", token=token))

    def annotate(self, task: int, *choices: str, token: str = TOKEN) -> int:
        """Submit an annotation as the page does and return its number."""
        path = f"/api/tasks/{task}/annotations/?project={self.number}"
        body = {"result": _result(*choices), "lead_time": 2.5}
        return int(self.studio.ask("POST", path, body, token)["id"])

    def skip(self, task: int) -> int:
        path = f"/api/tasks/{task}/annotations/?project={self.number}"
        return int(self.studio.ask("POST", path, {"result": [], "was_cancelled": True})["id"])

    def update(self, annotation: int, *choices: str) -> None:
        path = f"/api/annotations/{annotation}/?project={self.number}"
        self.studio.ask("PATCH", path, {"result": _result(*choices)})

    def delete(self, annotation: int) -> None:
        self.studio.ask("DELETE", f"/api/annotations/{annotation}/?project={self.number}")


def _result(*choices: str) -> list[dict[str, Any]]:
    value = {"choices": list(choices)}
    return [{"from_name": "label", "to_name": "text", "type": "choices", "value": value}] if choices else []
