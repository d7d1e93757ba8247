"""What the model thinks of tasks, as Label Studio wants it, and which of them it should show next.

Label Studio's "uncertainty sampling" shows the task with the lowest score among those that have a
prediction of the project's model version. So the score is a rank: the tasks that our default choice would
ask next have 0, 1/400, 2/400 ... in that order, all others from 1/2 on the more the surer the model is. A
version is written in bulk and then made the project's, so that the order changes at once; older ones are
removed some time later, since a person may have one of their predictions on the screen.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from everylabel.label_studio.api import Api, ApiError, Json
from everylabel.label_studio.configuration import Configuration
from everylabel.labelling.desk import Desk
from everylabel.labelling.ledger import Ledger
from everylabel.selection.select import knows_nothing, select
from everylabel.selection.strategies import DEFAULT

logger = logging.getLogger(__name__)
ORDERED, CANDIDATES, EVALUATED = 40, 300, 1000  # tasks ranked by our choice, and how carefully
WANTED, DRAWN = 200, 2000  # tasks that get a prediction, the rest of them the least sure of so many
COLD_FROM = 2000  # candidates while nothing is known
STEPS = 400  # ranks are multiples of one of these
PAUSE = 1.0  # seconds between two versions, at least
KEPT = 300.0  # seconds that an old version stays


class Ranking(NamedTuple):
    """The tasks to ask next, best first, of one version of the model."""

    version: str
    tasks: list[str]
    predictions: list[Json]


class Predictions:
    """The predictions of a project. `renew` is called by one thread."""

    def __init__(self, desk: Desk, configuration: Configuration) -> None:
        self.desk, self.configuration = desk, configuration
        self._ranks: tuple[str, dict[str, int]] = ("", {})  # of a version

    def version(self) -> "Future[str]":
        return self.desk.read(lambda: version_of(self.desk.ledger))

    def of(self, tasks: Sequence[str]) -> "Future[list[Json]]":
        """Return a prediction for each task; one that is not in the pool (yet) has none, and comes last."""
        return self.desk.read(lambda: self._of(tasks))

    def ranking(self, wanted: int = WANTED) -> "Future[Ranking]":
        """Return the tasks to ask next, ranked from now on, with their predictions."""

        def look() -> Ranking:
            ledger, version = self.desk.ledger, version_of(self.desk.ledger)
            tasks = [ledger.ids[i] for i in self._most_wanted(wanted)]
            self._ranks = version, {name: rank for rank, name in enumerate(tasks[:ORDERED])}
            made = [{"task": int(name), **one} for name, one in zip(tasks, self._of(tasks), strict=True)]
            return Ranking(version, tasks, made)

        return self.desk.read(look)

    def _most_wanted(self, wanted: int) -> list[int]:
        """Return free instances: some in the order of our choice, then the least sure of a sample."""
        pool, ledger = self.desk.learner.pool, self.desk.ledger
        free = pool.free_idx
        if not len(free):
            return []
        rng, cold = np.random.default_rng([ledger.seed, ledger.seq]), knows_nothing(pool)
        n = min(ORDERED, len(free), wanted)
        options: dict[str, Any] = {"candidates": COLD_FROM} if cold and len(free) > COLD_FROM else {}
        if not cold:
            options |= {"n_candidates": CANDIDATES, "n_eval": EVALUATED}
        first = [int(i) for i in select(pool, DEFAULT, n, rng, **options)]
        others = np.setdiff1d(rng.permutation(free)[:DRAWN], first)
        sure = pool.probs(others).max(axis=1) if len(others) else np.zeros(0)
        return [*first, *others[np.argsort(sure, kind="stable")][: wanted - n].tolist()]

    def _of(self, tasks: Sequence[str]) -> list[Json]:
        ledger, pool = self.desk.ledger, self.desk.learner.pool
        version, columns = version_of(ledger), ledger.columns
        order = [columns.index(number) for number in ledger.book.order]
        names = [ledger.book.names[number] for number in ledger.book.order]
        places = [ledger.position[name] for name in tasks if name in ledger.position]
        knows = bool(ledger.labels) or len(ledger.teaching()) > 1
        rows = iter(pool.probs(np.array(places))[:, order] if places and names else ())
        return [
            self._one(task, version, names, next(rows) if task in ledger.position and names else None, knows)
            for task in tasks
        ]

    def _one(
        self, task: str, version: str, names: Sequence[str], probs: np.ndarray | None, knows: bool
    ) -> Json:
        ranked, ranks = self._ranks
        if probs is None:
            return {"result": [], "score": 1.0, "model_version": version}
        best, sure = int(probs.argmax()), float(probs.max())
        score = ranks[task] / STEPS if task in ranks and ranked == version else 0.5 + sure / 2
        result = [] if not knows else [self._result(names[best], sure)]
        given = {name: round(float(p), 6) for name, p in zip(names, probs, strict=True)} if knows else {}
        return {"result": result, "score": round(score, 6), "model_version": version, "probabilities": given}

    def _result(self, name: str, sure: float) -> Json:
        configuration = self.configuration
        return {
            "from_name": configuration.control,
            "to_name": configuration.target,
            "type": "choices",
            "value": {"choices": [configuration.choices.get(name, name)]},
            "score": round(sure, 6),
        }


def version_of(ledger: Ledger) -> str:
    """Return what a model is called: how many labels it has learned, and a digest of these and the pool."""
    known = sorted(ledger.labels.items()), ledger.book.order, len(ledger.ids), len(ledger.left)
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:8]
    n = len(ledger.labels)
    return f"{n} label{'' if n == 1 else 's'} {digest}"


class Renewal:
    """A thread that keeps the predictions in Label Studio up to date; it is in nobody's way.

    Where several people annotate, Label Studio shows by chance one of the tasks that have a prediction of the
    version: then only the best have one.
    """

    def __init__(self, api: Api, project: int, predictions: Predictions) -> None:
        self.api, self.project, self.predictions = api, project, predictions
        self.times: list[float] = []  # seconds that versions took to be written
        self._stopped, self._due = threading.Event(), threading.Event()
        self._now, self._old = "", list[tuple[float, str]]()
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)

    def start(self) -> None:
        self._due.set()
        self._thread.start()

    def ask(self) -> None:
        """Something was learned: renew soon."""
        self._due.set()

    def close(self) -> None:
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        pause = PAUSE
        while True:
            self._due.wait()
            self._due.clear()
            if self._stopped.is_set():
                return
            try:
                self.renew()
                pause = PAUSE
            except Exception as error:
                pause = min(60.0, 2 * pause)
                if not isinstance(error, ApiError):
                    logger.exception("predictions could not be renewed")
                self._due.set()
            self._stopped.wait(pause)

    def renew(self) -> bool:
        """Write the predictions of the model as it is now, if it is another one; return whether it was."""
        began = time.monotonic()
        people = self.predictions.desk.read(lambda: len(self.predictions.desk.ledger.by_person)).result()
        if self.predictions.version().result() == self._now:
            return False
        ranking = self.predictions.ranking(
            WANTED if people < 2 else min(WANTED, max(ORDERED // 2, 5 * people))
        ).result()
        if ranking.predictions:
            bare = [
                {name: value for name, value in one.items() if name != "probabilities"}
                for one in ranking.predictions
            ]
            self.api.add_predictions(self.project, bare)
            self.api.change_project(self.project, model_version=ranking.version)
            self._old.append((time.monotonic(), self._now))
        self._now = ranking.version
        self.times.append(time.monotonic() - began)
        self._clean()
        return True

    def _clean(self) -> None:
        """Remove versions that nobody looks at any more."""
        while self._old and self._old[0][0] < time.monotonic() - KEPT:
            version = self._old.pop(0)[1]
            if version and version != self._now and version not in (name for _, name in self._old):
                self.api.remove_predictions(self.project, version)
