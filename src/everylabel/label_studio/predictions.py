"""Predictions for tasks of Label Studio, the order in which it shows them, and how both are kept up to date.

Label Studio's "uncertainty sampling" shows the task with the lowest score among those that have a
prediction of the project's model version. So the score is a rank: the tasks that our default choice would
ask next have 0, 1/400, 2/400 ... in that order, all others from 1/2 on, the more the surer the model is.

After each label the few tasks to ask next get predictions of a new version, which then becomes the
project's: the order changes at once. Some hundreds more follow when nobody has annotated for some seconds;
and so does the removal of older versions, one prediction at a time, since removing many at once locks Label
Studio's database for seconds.
"""

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from everylabel.label_studio.api import Api, ApiError, Json
from everylabel.label_studio.configuration import Configuration
from everylabel.labelling.desk import Desk
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Refused
from everylabel.selection.select import knows_nothing, select
from everylabel.selection.strategies import DEFAULT

ORDERED, CANDIDATES, EVALUATED = 40, 300, 1000  # tasks ranked by our choice, and how carefully
DRAWN = 2000  # tasks of which the least sure come after them
COLD_FROM = 2000  # candidates while nothing is known
STEPS = 400  # ranks are multiples of one of these
logger = logging.getLogger(__name__)
MORE = 160  # tasks that get a prediction besides the ranked ones, when it is quiet
PAUSE, LONGEST = (
    0.5,
    60.0,
)  # seconds between two versions, at least, and at most if Label Studio does not answer
QUIET = 3.0  # seconds without news
KEPT = 300.0  # seconds that an old version stays: a person may have one of its predictions on the screen
OURS = re.compile(r"\d+ labels? [0-9a-f]{8}")  # versions


class Ranking(NamedTuple):
    """The tasks to ask next, best first, by one version of the model."""

    version: str = ""
    tasks: tuple[str, ...] = ()

    @property
    def ranks(self) -> dict[str, int]:
        return {task: rank for rank, task in enumerate(self.tasks)}


class Predictions:
    """The predictions of a project."""

    def __init__(self, desk: Desk, configuration: Configuration) -> None:
        self.desk, self.configuration = desk, configuration
        self._ranking = Ranking()
        self._named: tuple[State, int, str] = desk.state, -1, ""  # a state, and its version

    def version(self) -> "Future[str]":
        """Return what the model is called as it is now."""
        return self.desk.read(self._version)

    def of(self, tasks: Sequence[str]) -> "Future[list[Json]]":
        """Return a prediction for each task; one that is not in the pool (yet) has none, and comes last."""
        return self.desk.read(lambda: self._of(tasks))

    def ranking(self) -> "Future[Ranking]":
        """Return the tasks to ask next."""
        return self.desk.read(self._ranked)

    def unsure(self, n: int) -> "Future[list[str]]":
        """Return n tasks to ask some time, besides those of the ranking: the least sure of a sample."""

        def look() -> list[str]:
            pool, state = self.desk.learner.pool, self.desk.state
            ranked = [state.position[task] for task in self._ranked().tasks]
            rng = np.random.default_rng([state.seed, state.seq])
            some = np.setdiff1d(rng.permutation(pool.free_idx)[:DRAWN], ranked)
            if not len(some):
                return []
            order = np.argsort(pool.probs(some).max(axis=1), kind="stable")
            return [state.ids[int(i)] for i in some[order][:n]]

        return self.desk.read(look)

    def _version(self) -> str:
        state, seq, _ = self._named
        if (state, seq) != (self.desk.state, self.desk.state.seq):
            self._named = self.desk.state, self.desk.state.seq, version_of(self.desk.state)
        return self._named[2]

    def _ranked(self) -> Ranking:
        """Return the ranking of the model as it is now, made once."""
        version = self._version()
        if self._ranking.version != version:
            self._ranking = Ranking(version, tuple(self.desk.state.ids[i] for i in self._chosen()))
        return self._ranking

    def _chosen(self) -> list[int]:
        """Return free instances in the order of our choice."""
        pool, state = self.desk.learner.pool, self.desk.state
        free = len(pool.free_idx)
        if not free:
            return []
        rng, cold = np.random.default_rng([state.seed, state.seq]), knows_nothing(pool)
        options: dict[str, Any] = {"candidates": COLD_FROM} if cold and free > COLD_FROM else {}
        if not cold:
            options |= {"n_candidates": CANDIDATES, "n_eval": EVALUATED}
        return [int(i) for i in select(pool, DEFAULT, min(ORDERED, free), rng, **options)]

    def _of(self, tasks: Sequence[str]) -> list[Json]:
        state, pool = self.desk.state, self.desk.learner.pool
        (version, _), columns, ranks = self._ranked(), state.columns, self._ranked().ranks
        order = [columns.index(number) for number in state.book.order]
        names = [state.book.names[number] for number in state.book.order]
        places = [state.position[name] for name in tasks if name in state.position]
        knows = bool(state.labels) or self.desk.learner.names is not None
        rows = iter(pool.probs(np.array(places))[:, order] if places else ())
        return [
            self._one(version, ranks.get(task), names, next(rows) if task in state.position else None, knows)
            for task in tasks
        ]

    def _one(
        self, version: str, rank: int | None, names: Sequence[str], probs: np.ndarray | None, knows: bool
    ) -> Json:
        if probs is None:
            return {"result": [], "score": 1.0, "model_version": version}
        best, sure = int(probs.argmax()), float(probs.max())
        score = 0.5 + sure / 2 if rank is None else rank / STEPS
        result = [self._result(names[best], sure)] if knows else []
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


def version_of(state: State) -> str:
    """Return what a model is called: how many labels it has learned, and a digest of these and the pool."""
    known = sorted(state.labels.items()), state.book.order, len(state.ids), len(state.left)
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:8]
    n = len(state.labels)
    return f"{n} label{'' if n == 1 else 's'} {digest}"


class Renewal:
    """A thread that writes predictions; `quiet` is called when nobody has annotated for some seconds."""

    def __init__(self, api: Api, project: int, predictions: Predictions, quiet: Callable[[], Any]) -> None:
        self.api, self.project, self.predictions, self._quiet = api, project, predictions, quiet
        self._stopped, self._due = threading.Event(), threading.Event()
        self._now, self._tidied = "", ""
        self._kept: dict[str, float] = {}  # versions of the last minutes -> when they were replaced
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)

    def start(self) -> None:
        """Begin with the model as it is."""
        self._due.set()
        self._thread.start()

    def ask(self) -> None:
        """Something was learned: renew soon."""
        self._due.set()

    def close(self) -> None:
        """Stop after the request that is under way."""
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def renew(self) -> bool:
        """Write the predictions of the model as it is now, if it is another one; return whether it was."""
        ranking = self.predictions.ranking().result()
        if ranking.version == self._now:
            return False
        if ranking.tasks:
            version = self._write(ranking.tasks)
            self.api.change_project(self.project, model_version=version)
            self._kept[self._now] = time.monotonic()
        self._now = ranking.version
        return True

    def tidy(self) -> None:
        """Do what can wait, until something is learned."""
        if self._tidied != self._now:
            self._quiet()
            if not self._due.is_set():
                self._write(self.predictions.unsure(MORE).result())
            self._tidied = self._now
        for number in self._outdated():
            if self._due.is_set():
                return
            self.api.send("DELETE", f"/api/predictions/{number}/")

    def _work(self) -> None:
        pause, wait = PAUSE, QUIET
        while not self._stopped.is_set():
            if not self._due.wait(wait):
                self._try(self.tidy)
                wait = KEPT  # those of the last minutes are old then
                continue
            self._due.clear()
            if self._stopped.is_set():
                return
            wait = QUIET
            if self._try(self.renew):
                pause = PAUSE
            else:
                pause = min(LONGEST, 2 * pause)
                self._due.set()
            self._stopped.wait(pause)

    def _try(self, step: Callable[[], Any]) -> bool:
        """Take a step; return whether Label Studio did not fail us."""
        try:
            step()
        except (ApiError, Refused) as error:
            logger.info("predictions could not be renewed: %s", error)
            return False
        except Exception:
            logger.exception("predictions could not be renewed")
            return False
        return True

    def _write(self, tasks: Sequence[str]) -> str:
        """Write the predictions of tasks; return their version."""
        tasks = [task for task in tasks if task.isdigit()]  # our page takes others, too
        made = self.predictions.of(tasks).result()
        bare = [{name: one[name] for name in ("result", "score", "model_version")} for one in made]
        both = zip(tasks, bare, strict=True)
        if bare:
            self.api.add_predictions(self.project, [{"task": int(task), **one} for task, one in both])
        return str(bare[0]["model_version"]) if bare else ""

    def _outdated(self) -> list[int]:
        """Return the predictions of our versions that nobody looks at any more."""
        latest = time.monotonic() - KEPT
        self._kept = {version: at for version, at in self._kept.items() if at > latest}
        stay = {*self._kept, self._now}
        return [
            int(each["id"])
            for each in self.api.predictions(self.project)
            if OURS.fullmatch(str(each.get("model_version"))) and each["model_version"] not in stay
        ]
