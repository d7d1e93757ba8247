"""A project in Label Studio, our backend beside it, and a person who annotates, changes and deletes."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.label_studio.backend import Backend, Opinion
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.proxy import Proxy
from tests.live.label_studio.studio import TOKEN, Project, Studio
from tests.projects.postgres import free_port

PATIENCE = 120  # seconds until something must have followed, however busy the machine is
MODEL = ("--model", "tfidf")


class Team:
    """All that takes part; `done` holds the annotations that the person made, newest last."""

    def __init__(
        self, studio: Studio, project: Project, messages: Messages, folder: Path, token: str
    ) -> None:
        self.studio, self.project, self.truth = studio, project, messages.truth
        self.tasks = {task["id"]: task for task in project.tasks()}
        self.folder, self.token, self.port = folder, token, free_port()
        self.proxy = Proxy(self.port)
        self.backend = Backend(
            project, folder / "kept", self.port, *MODEL, "--address", self.proxy.url, token=token
        )
        self.done: list[int] = []
        self.random = random.Random(0)

    def annotate(self) -> None:
        """Answer the task that the label stream shows."""
        task = self.project.next_task()
        self.done.append(self.project.annotate(task["id"], self.truth[task["data"]["text"]]))

    def skip(self) -> None:
        self.project.skip(self.project.next_task()["id"])

    def change(self) -> None:
        """Say something else of an earlier task."""
        annotation = self.random.choice(self.done)
        self.project.update(annotation, self.random.choice(sorted(set(self.truth.values()))))

    def delete(self) -> None:
        annotation = self.random.choice(self.done)
        self.done.remove(annotation)
        self.project.delete(annotation)

    def do_something(self) -> None:
        """Do one of these; mostly annotate."""
        some = (
            [self.annotate]
            if len(self.done) < 3
            else [self.annotate] * 6 + [self.change, self.delete, self.skip]
        )
        self.random.choice(some)()

    def labels(self) -> dict[int, str]:
        """Return what the annotations there are say, by task."""
        path = f"/api/projects/{self.project.number}/export?exportType=JSON"
        found = {}
        for task in self.studio.ask("GET", path):
            for annotation in task["annotations"]:
                if annotation["result"] and not annotation["was_cancelled"]:
                    found[task["id"]] = annotation["result"][0]["value"]["choices"][0]
        return found

    def follows(self) -> float:
        """Wait until the backend has learned all and Label Studio shows it; return the seconds that took."""
        began, expected = time.monotonic(), len(self.labels())
        self._until(lambda: labels_in(self.backend.version()) == expected, f"{expected} labels to be learned")
        version = self.backend.version()
        self._until(lambda: self.project.get()["model_version"] == version, f"predictions of {version!r}")
        return time.monotonic() - began

    def ranking(self, opinions: dict[int, Opinion], open_tasks: list[int]) -> list[int]:
        """Return open tasks, the most wanted first."""
        return sorted(open_tasks, key=lambda task: opinions[task].score)

    def open_tasks(self) -> list[int]:
        """Return the tasks that nobody has answered or skipped."""
        path = f"/api/projects/{self.project.number}/export?exportType=JSON"
        answered = {task["id"] for task in self.studio.ask("GET", path)}
        return [task for task in self.tasks if task not in answered]

    def opinions(self, backend: Backend | None = None) -> dict[int, Opinion]:
        return (backend or self.backend).predict(list(self.tasks.values()))

    def retrained(self) -> Backend:
        """Return a backend that knows nothing but the annotations there are."""
        own = ("--no-register", *MODEL)
        return Backend(self.project, self.folder / "retrained", free_port(), *own, token=self.token).start()

    def _until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(
                    f"waited {PATIENCE} s for {what}; it is {self.backend.version()!r}, Label Studio has "
                    f"{self.project.get()['model_version']!r}: {self.backend.printed()[-2000:]}"
                )
            time.sleep(0.02)


def labels_in(version: str) -> int:
    """Return how many labels a version says that it has learned."""
    return int(version.split()[0])


@contextmanager
def team(studio: Studio, messages: Messages, folder: Path, title: str, token: str = TOKEN) -> Iterator[Team]:
    """Yield a project with all messages and a backend that serves it."""
    project = Project.create(studio, title, messages.config, messages.texts)
    made = Team(studio, project, messages, folder, token)
    try:
        made.backend.start()
        yield made
    finally:
        made.backend.stop()
        made.proxy.close()
