"""The model's guesses about all items: predictions, the map, near copies, and the data of queues.

What takes the whole pool blocks: the desk's thread only copies, and the caller's thread computes.
"""

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everylabel.labelling.desk import Desk
from everylabel.labelling.model.learner import Learner, predicted
from everylabel.labelling.queues import MOST, SURE, QueueData, near_copies
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Refused, Value, absent_in_reply, in_reply
from everylabel.selection.pool import Where
from everylabel.selection.pool.sparse import all_but

if TYPE_CHECKING:
    from everylabel.labelling.views import Views

NO_CLASS = -1  # in place of a class's number
MOST_NUMBERS = 200_000  # probabilities on a page of predictions


@dataclass(eq=False)
class Guesses:
    """The guesses about all items; all methods but `check_can_scan` block."""

    views: "Views"
    _counting: Any = field(default_factory=threading.Lock)
    # of the whole pool: version of the state, guess for each item, number of items predicted as each class
    _last: tuple[int, np.ndarray, dict[int, int]] = -1, np.zeros(0, int), {}

    @property
    def desk(self) -> Desk:
        return self.views.desk

    @property
    def state(self) -> State:
        return self.views.desk.state

    @property
    def can_scan(self) -> bool:
        """Whether all items can be scanned: they are not in remote shards."""
        return self.desk.learner.pool.can_scan

    def check_can_scan(self, what: str) -> None:
        """Refuse a request that must scan all items, if they are in remote shards."""
        if not self.can_scan:
            raise Refused(
                409, "in_shards", f"{what} is not available for shards on Ray, because it needs all items"
            )

    def all(self) -> np.ndarray:
        """Return the predicted class of each item (n,), negative if it is none; blocks.

        In a multi-label project, it is the most probable one of the predicted classes.
        """
        return self._scan()[0]

    def counts(self) -> dict[int, int]:
        """Return how many items each class is predicted for; blocks."""

        def look() -> dict[int, int] | None:
            columns = self.state.columns
            if self.can_scan:
                return None
            return dict(zip(columns, self.desk.learner.pool.guessed(len(columns)).tolist(), strict=True))

        counts: dict[int, int] | None = self.desk.read(look).result()
        return self._scan()[1] if counts is None else counts

    def _scan(self) -> tuple[np.ndarray, dict[int, int]]:
        """Return the predicted class of each item, and the counts, computed once for each version."""

        def look() -> tuple[int, tuple[int, ...], Learner, np.ndarray | None]:
            version, learner = self.state.seq, self.desk.learner
            logits = None if self._last[0] == version else np.array(learner.pool.logits())
            return version, learner.columns or (NO_CLASS,), learner, logits

        with self._counting:
            version, columns, learner, logits = self.desk.read(look).result()
            if logits is not None:
                logits = learner.combined(np.arange(len(logits)), logits)
                numbers, best = np.array(columns), logits.argmax(axis=1)
                guess, counts = numbers[best], np.bincount(best, minlength=len(numbers))
                if learner.multi_label:
                    predicted_classes = predicted(learner.link(logits), learner.thresholds_of(columns))
                    guess[~predicted_classes.any(axis=1)] = NO_CLASS
                    counts = predicted_classes.sum(axis=0)
                by_class = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
                self._last = version, guess, by_class
            return self._last[1:]

    def page(self, after: int | None, offset: int, limit: int) -> dict[str, Any]:
        """Return class probabilities of unlabelled items, in the order of the source; blocks.

        A multi-label project also has `thresholds`, the probability from which each class is predicted. With
        many classes, a page has fewer items.
        after : last position seen; labels given meanwhile then shift nothing
        """

        def look() -> tuple[np.ndarray, Learner, dict[str, Any]]:
            learner, book, columns = self.desk.learner, self.state.book, self.state.columns
            pool, column = learner.pool, {number: j for j, number in enumerate(columns)}
            others = np.array([*self.state.test_labels, *self.state.missing], np.int64)
            unlabelled = all_but(len(pool), np.union1d(pool.placed(Where.LABELLED), others))
            begin = offset + (0 if after is None else int(np.searchsorted(unlabelled, after, side="right")))
            end = begin + max(1, min(limit, MOST_NUMBERS // max(1, pool.n_classes)))
            items = unlabelled[begin:end]
            page = {
                "ids": [self.state.ids[i] for i in items],
                "classes": [book.names[number] for number in book.order],
                "total": len(unlabelled),
                "after": int(items[-1]) if begin + len(items) < len(unlabelled) and len(items) else None,
            }
            thresholds = learner.thresholds_of(book.order)
            if thresholds is not None:
                page["thresholds"] = thresholds.round(6).tolist()
            return learner.logits(items)[:, [column[number] for number in book.order]], learner, page

        logits, learner, page = self.desk.read(look).result()
        return {**page, "probabilities": learner.link(logits).round(6).tolist()}

    def points(self, most: int, among: int | None = None) -> dict[str, Any]:
        """Return positions of all labelled items and some others, with labels and guesses; blocks.

        among : consider only the first `among` items
        """
        self.check_can_scan("the map")

        def look() -> tuple[np.ndarray, dict[int, Value], set[int], bool]:
            where = self.desk.learner.pool.state[: len(guesses)][:among].copy()
            return where, dict(self.state.labels), self.views.checks(), self.views.has_learned

        guesses = self.all()
        where, labels, checks, has_learned = self.desk.read(look).result()
        labelled = np.flatnonzero(where == Where.LABELLED)[:most]
        others = np.setdiff1d(np.arange(len(where)), labelled)
        sample = np.random.default_rng(0).permutation(others)[: most - len(labelled)]
        idx = np.sort(np.r_[labelled, sample])
        pairs = zip(idx.tolist(), guesses[idx].tolist(), strict=True)
        return {
            "idx": idx,
            "guess": [guess if has_learned and i not in checks else None for i, guess in pairs],
            "label": [in_reply(labels.get(i)) for i in idx.tolist()],
            "absent": [absent_in_reply(labels.get(i)).get("absent") for i in idx.tolist()],
        }

    def queue_data(self) -> QueueData:
        """Return a copy of all data that queues are computed from; blocks."""

        def look() -> tuple[QueueData, np.ndarray | None, list[int], Learner]:
            state, learner, assessed = self.state, self.desk.learner, self.desk.assessment
            agreed = {i: self.desk.consensus_on(i) for i in self.desk.consensus}
            data = QueueData(
                learner.pool.features,
                None,
                dict(state.labels),
                {item: list(given) for item, given in state.answers.items()},
                {} if assessed is None else assessed.left_out,
                self.views.hidden(),
                state.multi_label,
                final=frozenset(state.adjudicated()),
                consensus={i: found for i, found in agreed.items() if found is not None},
                is_assessed=assessed is not None,
            )
            logits = learner.pool.scan() if self.views.has_learned else None
            return data, logits, list(state.book.present), learner

        data, logits, present, learner = self.desk.read(look).result()
        if logits is None:
            return data
        logits, k = learner.combined(np.arange(len(logits)), logits), max(present, default=-1) + 1
        probs = np.zeros((len(logits), k))  # by class number; 0 for removed classes
        probs[:, present] = learner.link(logits)[:, : len(present)]
        thresholds = learner.thresholds_of(range(k))
        return data._replace(probabilities=probs, multi_label=learner.multi_label, thresholds=thresholds)

    def copies(self, item: int) -> tuple[int | None, dict[int, bool]]:
        """Return an item's class and its unanswered near copies, each with whether it is sure; blocks.

        Copies are offered only if the model is sure of the item and of at least one copy. The page asks for
        every item that stays in view: the pool is compared only if the model is sure of the item.
        """

        def guessed(items: list[int]) -> tuple[np.ndarray, np.ndarray] | None:
            """Return the guessed classes, and whether each is sure; None unless the first is and is shown."""
            if item in self.views.hidden() or not self.views.has_learned or self.state.multi_label:
                return None
            probs = self.desk.learner.probabilities_of(items)[:, : len(self.state.book.present)]
            sure = probs.max(axis=1) >= SURE
            return (probs.argmax(axis=1), sure) if sure[0] else None

        def features() -> Any:
            can_compare = self.can_scan and guessed([item]) is not None
            return self.desk.learner.pool.features if can_compare else None

        def same() -> tuple[int | None, dict[int, bool]]:
            hidden = {*self.views.hidden(), *self.state.answers}
            free = [i for i in near if i not in hidden]
            found = guessed([item, *free])
            if found is None:
                return None, {}
            guesses, sure = found
            alike = np.flatnonzero(guesses[1:] == guesses[0])[:MOST]
            if not sure[1:][alike].any():
                return None, {}
            return self.state.book.present[int(guesses[0])], {free[j]: bool(sure[j + 1]) for j in alike}

        to_compare = self.desk.read(features).result()
        near = [] if to_compare is None else near_copies(to_compare, item)
        return self.desk.read(same).result() if near else (None, {})
