"""A small project on real digits for the tests of the desk and the server."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from everylabel.labelling.desk import Desk
from everylabel.labelling.kept import Shelf
from everylabel.labelling.rows import Rows, prepare
from everylabel.labelling.service import Service
from everylabel.projects.database.store import Store
from everylabel.projects.log import bring_up_to_date

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
    shelf: Shelf | None = None,
    **settings: Any,
) -> Iterator[Service]:
    """Yield a service on a log that is made if it is not there."""
    store = Store(path, "test")
    if not store.read():
        bring_up_to_date(store, ids, classes=classes, settings=settings)
    desk = Desk(Rows(ids, features, ready=True), store, shelf)
    try:
        yield Service(desk, lambda i: {"id": ids[i]})
    finally:
        desk.close()
        store.close()


def truth(item: str) -> int:
    return int(Y[int(item.split()[1])])


def label(made: Service, n: int, person: str = "me") -> list[str]:
    """Label n items as a person who knows; return their ids."""
    reply, items = made.next(person).result(), []
    for _ in range(n):
        items.append(reply["next"]["item"]["id"])
        reply = made.label(person, items[-1], truth(items[-1])).result()
    return items


def until(done: Callable[[], bool]) -> None:
    """Wait for what another thread does, however slow the machine is; give up only if it never comes."""
    end = time.monotonic() + 300
    while not done():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def fingerprint(made: Service) -> tuple[Any, ...]:
    """Return the whole state of the model and the ledger, to the bit."""

    def look() -> tuple[Any, ...]:
        pool, ledger = made.desk.learner.pool, made.desk.ledger
        posterior = pool.posterior
        rng = np.random.default_rng(7)
        picks = made.desk.learner.pick(ledger.settings["strategy"], 3, rng)
        return (
            np.asarray(posterior.mean).tobytes(),
            np.asarray(posterior.cov).tobytes(),
            np.ascontiguousarray(pool.logits()).tobytes(),
            pool.state.tobytes(),
            pool.labels.tobytes(),
            tuple(picks),
            tuple(sorted(ledger.labels.items())),
            tuple(ledger.leases.items()),
            ledger.seq,
        )

    return made.desk.read(look).result()
