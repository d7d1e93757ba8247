"""What the model thinks of tasks, as Label Studio wants it, and which of them it should show next.

Label Studio's "uncertainty sampling" shows the task with the lowest score among those that have a
prediction of the project's model version. So the score is a rank: the tasks that our default choice would
ask next have 0, 1/400, 2/400 ... in that order, all others from 1/2 on, the more the surer the model is.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from everylabel.label_studio.api import Json
from everylabel.label_studio.configuration import Configuration
from everylabel.labelling.desk import Desk
from everylabel.labelling.state.state import State
from everylabel.selection.select import knows_nothing, select
from everylabel.selection.strategies import DEFAULT

ORDERED, CANDIDATES, EVALUATED = 40, 300, 1000  # tasks ranked by our choice, and how carefully
DRAWN = 2000  # tasks of which the least sure come after them
COLD_FROM = 2000  # candidates while nothing is known
STEPS = 400  # ranks are multiples of one of these


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
