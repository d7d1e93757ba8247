"""Predictions for tasks of Label Studio, and the order in which it shows them.

Label Studio's "uncertainty sampling" shows the task with the lowest score among those that have a
prediction of the project's model version. So the score is a rank: the tasks that our strategy would ask next
have 0, 1/400, 2/400 ... in that order, all others 1/2 and more, increasing with the model's confidence.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from everylabel.label_studio.api import Json
from everylabel.label_studio.configuration import Configuration
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.learner import certainty, predicted
from everylabel.labelling.state.state import State
from everylabel.selection.select import cannot_separate, select
from everylabel.selection.strategies import DEFAULT

ORDERED, CANDIDATES, EVALUATED = 40, 300, 1000  # tasks ranked by our strategy, and its options
DRAWN = 2000  # random tasks, of which the least confident come next
COLD_CANDIDATES = 2000  # candidates before the first label
STEPS = 400  # ranks are multiples of one of these


class Ranking(NamedTuple):
    """The tasks to ask next, best first, by one version of the model."""

    version: str = ""
    tasks: tuple[str, ...] = ()


class Predictions:
    """The predictions of a project."""

    def __init__(self, desk: Desk, configuration: Configuration) -> None:
        self.desk, self.configuration = desk, configuration
        self._ranking = Ranking()
        self._named: tuple[State, int, str] = desk.state, -1, ""  # a state, and its version

    def version(self) -> "Future[str]":
        """Return the version of the current model."""
        return self.desk.read(self._version)

    def of(self, tasks: Sequence[str]) -> "Future[list[Json]]":
        """Return a prediction for each task; for a task outside the pool an empty one with the last rank."""
        return self.desk.read(lambda: self._of(tasks))

    def ranking(self) -> "Future[Ranking]":
        """Return the tasks to ask next."""
        return self.desk.read(self._ranked)

    def unsure(self, n: int) -> "Future[list[str]]":
        """Return n tasks besides those of the ranking: the least confident of a random sample."""

        def look() -> list[str]:
            pool, state = self.desk.learner.pool, self.desk.state
            ranked = [state.position[task] for task in self._ranked().tasks]
            rng = np.random.default_rng([state.seed, state.seq])
            some = np.setdiff1d(rng.permutation(pool.free_idx)[:DRAWN], ranked)
            if not len(some):
                return []
            return [state.ids[int(i)] for i in some[pool.smallest_margins(some, min(n, len(some)))]]

        return self.desk.read(look)

    def _version(self) -> str:
        state, seq, _ = self._named
        if (state, seq) != (self.desk.state, self.desk.state.seq):
            self._named = self.desk.state, self.desk.state.seq, version_of(self.desk.state)
        return self._named[2]

    def _ranked(self) -> Ranking:
        """Return the ranking of the current model, computed once."""
        version = self._version()
        if self._ranking.version != version:
            self._ranking = Ranking(version, tuple(self.desk.state.ids[i] for i in self._chosen()))
        return self._ranking

    def _chosen(self) -> list[int]:
        """Return free instances in the order of our strategy."""
        pool, state = self.desk.learner.pool, self.desk.state
        free = len(pool.free_idx)
        if not free:
            return []
        rng, cold = np.random.default_rng([state.seed, state.seq]), cannot_separate(pool)
        options: dict[str, Any] = {"candidates": COLD_CANDIDATES} if cold and free > COLD_CANDIDATES else {}
        if not cold:
            options |= {"n_candidates": CANDIDATES, "n_eval": EVALUATED}
        return [int(i) for i in select(pool, DEFAULT, min(ORDERED, free), rng, **options)]

    def _of(self, tasks: Sequence[str]) -> list[Json]:
        state, learner = self.desk.state, self.desk.learner
        (version, ranked), columns = self._ranked(), state.columns
        ranks = {task: rank for rank, task in enumerate(ranked)}
        order = [columns.index(number) for number in state.book.order]
        names = [state.book.names[number] for number in state.book.order]
        known = [task for task in tasks if task in state.position]
        places = [state.position[task] for task in known]
        probs = dict(zip(known, learner.probabilities_of(places)[:, order] if places else (), strict=True))
        knows = bool(state.labels) or learner.names is not None or learner.evidence is not None
        limits = learner.thresholds_of(state.book.order)
        made: list[Json] = []
        for task in tasks:
            result, score, given = [], 1.0, {}
            if task in probs:
                said, sure = np.flatnonzero(predicted(probs[task], limits)), certainty(probs[task], limits)
                score = ranks[task] / STEPS if task in ranks else 0.5 + sure / 2
            if task in probs and knows:
                chosen = [names[c] for c in (said if state.multi_label else said[:1])]
                result = [{**each, "score": round(sure, 6)} for each in self.configuration.result(chosen)]
                given = {name: round(float(p), 6) for name, p in zip(names, probs[task], strict=True)}
            about = {"score": round(score, 6), "model_version": version}
            made.append({"result": result, **about, "probabilities": given})
        return made


def version_of(state: State) -> str:
    """Return the version of a model: the number of its labels, and a digest of labels, classes and pool."""
    known = sorted(state.labels.items()), state.book.order, len(state.ids), len(state.missing)
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:8]
    n = len(state.labels)
    return f"{n} label{'' if n == 1 else 's'} {digest}"
