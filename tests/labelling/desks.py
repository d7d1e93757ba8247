"""A small project on real digits for the tests of the desk and the server."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import ClassNames, FeatureTable, prepare
from everylabel.labelling.service import Service
from everylabel.log.store import Store
from tests.projects.starts import start

CLASSES = [str(i) for i in range(10)]
X, Y = load_digits(return_X_y=True)
N = 300
FEATURES = prepare(X[:N]).features
IDS = [f"digit {i}" for i in range(N)]


@contextmanager
def service(
    path: str | Path,
    classes: list[str] = CLASSES,
    ids: list[str] = IDS,
    features: np.ndarray = FEATURES,
    names: ClassNames | None = None,
    **settings: Any,
) -> Iterator[Service]:
    """Yield a service on a log, which is created if necessary."""
    store = Store(path, "test")
    if not store.read():
        start(store, ids, classes=classes, settings=settings, names=names)
    desk = Desk(FeatureTable(ids, features, ready=True), store, names=names)
    try:
        yield Service(desk, lambda item: {"id": item})
    finally:
        desk.close()
        store.close()


def truth(item: str) -> int:
    return int(Y[int(item.split()[1])])


def label(made: Service, n: int, person: str = "me") -> list[str]:
    """Label n items with their true classes; return their ids."""
    reply, items = made.next(person).result(), []
    for _ in range(n):
        items.append(reply["next"]["item"]["id"])
        reply = made.label(person, items[-1], truth(items[-1])).result()
    return items


def until(done: Callable[[], bool]) -> None:
    """Wait for the result of another thread, with a time limit for slow machines."""
    end = time.monotonic() + 300
    while not done():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def fingerprint(made: Service) -> str:
    """Return a hash of the state."""
    return str(made.desk.read(made.views.fingerprint).result()["hash"])


def probabilities(made: Service) -> np.ndarray:
    """Return the class probabilities of all items."""
    return np.asarray(made.desk.read(lambda: np.array(made.desk.learner.pool.probs())).result())
