"""The page's loop of version 0.1, in a separate process that imports a checkout of it.

    git worktree add --detach FOLDER 1d83236
Defaults of that page: look-ahead, a random check in ten, no names, features centred and scaled.
This file is also the script of that process, so it imports nothing of the benchmarks.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

COMMIT = "1d83236"
PERSON = "simulated"
EVERY = 5  # labels between trainings, where labels are learned by updates


def version_before(data: Any, stops: tuple[int, ...], checkout: Path) -> list[dict[str, Any]]:
    """Return labels and guesses at each stop, by the checkout's own code."""
    with tempfile.TemporaryDirectory() as place:
        given, found = Path(place) / "given.npz", Path(place) / "found.npz"
        np.savez(given, x=data.x, y=data.y, x_test=data.x_test, classes=np.array(data.classes), stops=stops)
        env = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run([sys.executable, "-P", __file__, str(given), str(found)], env=env, check=True)
        with np.load(found) as told:
            return [{key: told[f"{key}{n}"] for key in ("labelled", "test", "pool")} for n in stops]


def _run(given: Path, found: Path) -> None:
    with np.load(given) as told:
        x, y, x_test, classes, stops = (told[key] for key in ("x", "y", "x_test", "classes", "stops"))
    parts = ("learner", "desk", "service", "store")
    learner, desk, service, store = (import_module(f"everylabel.serving.{name}") for name in parts)
    prepared, ids = learner.prepare(x), [str(i) for i in range(len(x))]
    with closing(store.Store(given.with_suffix(".sqlite"), "bench")) as log:
        made = desk.Desk(ids, prepared.features, log, classes=classes.tolist())
        with closing(made):
            asked = service.Service(made, lambda i: {"id": ids[i]})
            points = _labelled(asked, y, stops.tolist(), prepared.features, prepared.scaling(x_test))
            arrays: dict[str, Any] = {f"{key}{n}": each for n, point in points for key, each in point.items()}
            np.savez(found, **arrays)


def _labelled(
    service: Any, y: np.ndarray, stops: list[int], pool: np.ndarray, test: np.ndarray
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    refit = import_module("everylabel.serving.refit").refit
    task = service.next(PERSON).result()["next"]
    for n in range(max(stops) + 1):
        if n and not service.desk.learner.exact and n % EVERY == 0:
            refit(service.desk)
        if n in stops:
            mean = np.asarray(service.desk.learner.pool.posterior.mean)
            on_test, on_pool = (np.argmax(h @ mean[:-1] + mean[-1], axis=1) for h in (test, pool))
            labelled = np.array(sorted(service.state.labels), dtype=np.int64)
            yield n, {"labelled": labelled, "test": on_test, "pool": on_pool}
        if n < max(stops):
            item = task["item"]["id"]
            task = service.label(PERSON, item, int(y[int(item)])).result()["next"]


if __name__ == "__main__":
    _run(Path(sys.argv[1]), Path(sys.argv[2]))
