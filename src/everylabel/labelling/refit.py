"""Exact training in the background: never in the way, and what is shown never goes backwards.

A second model is trained on the labels as they are, follows what happens meanwhile, and takes the
first one's place once it has caught up. The log notes up to which event it was trained, so that a
replay does the same.
"""

import logging
import threading
import time
from functools import partial

import numpy as np

from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.learner import Learner
from everylabel.labelling.replay import Start
from everylabel.labelling.training import in_order, train
from everylabel.models.names import are_of_use, name_rows
from everylabel.models.scaling import suited_precision

log = logging.getLogger(__name__)
REST = 4.0  # rest this many times as long as training took: a fifth of one core at most
NEARLY = 2  # changes left to follow when the desk takes over
WAIT = 0.2  # seconds between looks whether training pays
CLASSIFIES = 1e-3  # tolerance of weights that are good enough to classify by
EARLY, EARLY_UP_TO = 2, 40  # labels between looks at the class names, while there are few
STABLE_EVERY = 10  # labels between looks at how much the last ones have changed


class Refitter:
    """A thread that trains the model exactly whenever labels have come."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._stopped = threading.Event()
        self._looked_at = -STABLE_EVERY
        self._changes, self._names = 0, self.desk.ledger.n_names
        self._thread = threading.Thread(target=self._work, name="refit", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after what is being trained."""
        self._stopped.set()
        self.desk.learned.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self.desk.learned.wait()
            if self._stopped.is_set():
                return
            if not self._due():
                self._stopped.wait(WAIT)
                continue
            began, ledger = time.perf_counter(), self.desk.ledger
            self._changes, self._names = ledger.n_changes, ledger.n_names
            try:
                refit(self.desk, self)
            except Exception:  # labels go on being learned without it
                log.exception("training in the background failed")
            self._stopped.wait(REST * (time.perf_counter() - began))

    def _due(self) -> bool:
        """Return whether training pays: at once, or after some labels if each is learned exactly anyway."""
        ledger = self.desk.ledger
        if ledger.n_names != self._names and ledger.labels:
            return True
        every = EARLY if ledger.vectors and len(ledger.labels) < EARLY_UP_TO else STABLE_EVERY
        return ledger.n_changes - self._changes >= (every if self.desk.learner.exact else 1)

    def look(self, start: Start, learner: Learner) -> tuple[float, int] | None:
        """Return what the last labels have changed, every some labels."""
        if abs(len(start.labels) - self._looked_at) < STABLE_EVERY:
            return None
        self._looked_at = len(start.labels)
        return without_last(start, learner)


def refit(desk: Desk, looker: Refitter | None = None) -> None:
    """Train on all labels there are, follow what happened meanwhile, and take over."""
    start: Start = desk.read(desk.start).result()
    if not start.labels:
        return
    start = start._replace(names_hold=_names_hold(start, desk))
    learner, seen = start.learner(desk.features, desk.scaling), start.seq
    while len(changes := desk.read(partial(desk.changes_since, seen)).result()) > NEARLY:
        learner.follow(changes)
        seen = changes[-1].seq
    changed = looker.look(start, learner) if looker is not None else None

    def take_over() -> Finish:
        desk.take(learner, start, seen)
        desk.changed = changed or desk.changed
        return lambda: None

    desk.submit(take_over, alone=True).result()


def _names_hold(start: Start, desk: Desk) -> bool:
    """Return whether the labels bear the class names out."""
    rows = None if desk.scaling is None else name_rows(start.vectors, desk.scaling)
    if rows is None:
        return start.names_hold
    idx, y = in_order(start.labels)
    x = desk.features[idx].astype(np.float64)
    return are_of_use(rows, x, y, start.n_classes, suited_precision(start.n_classes))


def without_last(start: Start, learner: Learner) -> tuple[float, int] | None:
    """Return the share of a sample classified otherwise without the last fifth of the labels."""
    n_last = max(10, len(start.labels) // 5)
    kept = list(start.labels.items())[:-n_last]
    if len({label for _, label in kept}) < 2:
        return None
    pool = learner.pool
    names = learner.rows_of(start.vectors if start.names_hold else {})
    mean = np.asarray(train(pool.features, dict(kept), start.n_classes, names, tol=CLASSIFIES).mean)
    now = pool.logits(learner.sample)[:, : start.n_classes].argmax(axis=1)
    then = (pool.rows(learner.sample) @ mean).argmax(axis=1)
    return float(np.mean(now != then)), n_last
