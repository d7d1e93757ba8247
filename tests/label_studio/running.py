"""A backend on a real port in this process, connected to the stand-in of Label Studio."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.label_studio.api import Api
from everylabel.label_studio.backend import make_backend
from everylabel.label_studio.connected import BackendOptions, Connected, connect
from everylabel.label_studio.service import register
from everylabel.log import events
from everylabel.web.server import server_config
from tests.label_studio.stand_in import LabelStudio
from tests.web.servers import served

FRUIT = ["apple", "pear", "plum", "cherry", "banana", "mango", "peach", "grape", "lemon", "melon"]
ANIMALS = ["dog", "cat", "horse", "cow", "sheep", "goat", "mouse", "tiger", "whale", "eagle"]
PLACES = ["on the table", "in the garden", "by the road", "at night", "in winter", "behind the house"]
TEXTS = [
    f"the ripe {FRUIT[i % 10]} tastes sweet {PLACES[i % 6]}"
    if i % 2
    else f"a wild {ANIMALS[i % 10]} runs away {PLACES[i % 6]}"
    for i in range(60)
]


def kind_of(text: str) -> str:
    return "fruit" if "tastes" in text else "animal"


class Running:
    """A project that is served, and the address of its backend."""

    def __init__(self, project: Connected, address: str) -> None:
        self.project, self.address = project, address

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(f"{self.address}{path}", data, told)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.address}{path}", timeout=60) as reply:
            return json.loads(reply.read())

    def look(self, *tasks: int) -> int:
        """Read Label Studio's API until new tasks have joined; return the number of changes."""
        news, desk = self.project.reconciler.look(), self.project.service.desk
        until(lambda: all(str(task) in desk.state.position for task in tasks))
        return news + self.project.reconciler.look()

    def told(self) -> int:
        """Return the number of events in the log that came from Label Studio."""
        of = events.Answered | events.Undo | events.Missing | events.Sent
        self.project.service.desk.read(lambda: None).result()
        return sum(isinstance(event.body, of) for event in self.project.service.desk.log.read())

    def labels(self) -> dict[str, str]:
        """Return the class of each task that has one."""
        desk = self.project.service.desk

        def look() -> dict[str, str]:
            state = desk.state
            return {state.ids[i]: state.classes[int(str(c))] for i, c in state.labels.items()}

        found: dict[str, str] = desk.read(look).result()
        return found

    def probabilities(self) -> dict[str, np.ndarray]:
        desk = self.project.service.desk

        def look() -> dict[str, np.ndarray]:
            return dict(zip(desk.state.ids, desk.learner.pool.probs(), strict=True))

        found: dict[str, np.ndarray] = desk.read(look).result()
        return found


@contextmanager
def running(
    studio: LabelStudio,
    folder: Path,
    *,
    background: bool = False,
    password: str | None = None,
    **options: Any,
) -> Iterator[Running]:
    """Serve the stand-in's project; without `background` it reads and writes only on request."""
    api, how = (
        Api(studio.url, studio.token),
        BackendOptions(
            url=studio.url,
            token=studio.token,
            project=[studio.number],
            folder=folder,
            **{"model": "tfidf", **options},
        ),
    )
    with (
        connect(api, studio.number, how, lambda _: None) as project,
        served(server_config(make_backend({studio.number: project}, password))) as port,
    ):
        made = Running(project, f"http://127.0.0.1:{port}")
        register(api, studio.number, made.address, password)
        if background:
            project.start()
            project.renewal.start()
        else:
            project.arrivals.start()
        try:
            yield made
        finally:
            studio.webhooks.clear()
            studio.backends.clear()


def until(done: Callable[[], bool]) -> None:
    """Wait for the result of another thread, with a time limit for slow machines."""
    end = time.monotonic() + 120
    while not done():
        assert time.monotonic() < end, "never came"
        time.sleep(0.01)
