"""Exact training in the background: never in the way, and what is shown never goes backwards.

A second model is trained on the labels as they are, follows what happens meanwhile, and takes the
first one's place once it has nearly caught up, or after some tries: under any load it gets its turn, and
follows what has turned meanwhile. The log notes up to which event it was trained, so that a replay does the
same.
"""

import logging
import math
import threading
import time
from functools import partial
from typing import NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.labelling.assessing import Assessment, Evidence, assess
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.drawn import check_weights
from everylabel.labelling.giving_back import give_back, give_end_back
from everylabel.labelling.learner import MANY, Learner
from everylabel.labelling.ledger import Foretold
from everylabel.labelling.packing import Packed
from everylabel.labelling.records import Check
from everylabel.labelling.replay import Start, learner_at
from everylabel.labelling.training import in_order
from everylabel.models.names import are_of_use, name_rows
from everylabel.models.scaling import Scaling, suited_precision
from everylabel.selection.pool.scaled import Scaled

log = logging.getLogger(__name__)
REST = 4.0  # rest this many times as long as training has computed: a fifth of one core at most
NEARLY = 20  # rounds left whose changes move the logits, in place of being followed without them
ONE = 1  # rounds left to follow when the desk takes over: each is a pass over the pool that a label waits for
PARTS = 3, 10  # that changes are followed in at most, without and with logits: then the desk takes over
WAIT = 0.2  # seconds between looks whether training pays
EARLY, EARLY_UP_TO = 2, 40  # labels between looks at the class names, while there are few
KEEP_EVERY = 20.0  # seconds between models that are kept for the next start, at least
EVERY = 10  # changes between trainings where each label is learned exactly anyway


class Refitter:
    """A thread that trains the model exactly whenever labels have come."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._stopped = threading.Event()
        self._kept_at = self._ledger_from = time.monotonic()
        self._changes, self._names, self._checks = 0, self.desk.ledger.n_names, 0
        self._thread = threading.Thread(target=self._work, name="refit", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after what is being trained, and keep the model for the next start."""
        self._stopped.set()
        self.desk.learned.set()
        self._thread.join()
        self._keep()

    def _work(self) -> None:
        while not self._stopped.is_set():  # asked again: a training clears what `close` has set to wake it
            self.desk.learned.wait()
            if self._stopped.is_set():
                return
            if self.desk.rows.refusal() is not None or not self._due():
                self._stopped.wait(WAIT)
                continue
            began, ledger = time.thread_time(), self.desk.ledger  # not what it waited for others
            self._changes, self._names = ledger.n_changes, ledger.n_names
            self._checks = len(ledger.checks)
            try:
                refit(self.desk, self._keeps_ledger())
            except EverylabelError as error:  # the log takes nothing
                log.warning("training in the background failed: %s", error)
            except Exception:  # labels go on being learned without it
                log.exception("training in the background failed")
            self._give_back()
            self._rest(REST * (time.thread_time() - began))

    def _rest(self, seconds: float) -> None:
        """Leave the desk alone, but for keeping the model now and then."""
        end = time.monotonic() + seconds
        while not self._stopped.is_set():
            if time.monotonic() - self._kept_at > KEEP_EVERY:
                self._keep()
            left = end - time.monotonic()
            if left <= 0:
                return
            self._stopped.wait(min(left, KEEP_EVERY))

    def _keep(self) -> None:
        try:
            if self.desk.rows.refusal() is None:
                self.desk.keep()
        except EverylabelError as error:  # a database that is away
            log.warning("the model could not be kept: %s", error)
        except Exception:  # a full disk: the next start makes the model from the log
            log.exception("the model could not be kept")
        self._kept_at = time.monotonic()
        self._give_back()

    def _give_back(self) -> None:
        """Give the system what this thread and the desk's have let go of."""
        self.desk.read(give_end_back)
        give_back()

    def _keeps_ledger(self) -> bool:
        """Return whether the ledger is to be kept, which the next start reads in place of the log."""
        due = time.monotonic() >= self._ledger_from
        if due:
            self._ledger_from = time.monotonic() + KEEP_EVERY
        return due

    def _due(self) -> bool:
        """Return whether training pays: at once, or after some labels if each is learned exactly anyway."""
        ledger = self.desk.ledger
        if self.desk.learner.waiting or scale_is_due(self.desk):
            return True
        if (ledger.n_names != self._names and ledger.labels) or len(ledger.checks) != self._checks:
            return True
        every = EARLY if ledger.vectors and len(ledger.labels) < EARLY_UP_TO else EVERY
        return ledger.n_changes - self._changes >= (every if self.desk.learner.exact else 1)


def refit(desk: Desk, keep: bool = False) -> None:
    """Train on all labels there are, follow what came meanwhile, take over, tell how good the model is.

    keep : put the ledger that it started from on the shelf: a replay starts there, too
    """

    def look() -> tuple[Start, Seen, Learner, bool, Packed | None]:
        ledger = desk.ledger
        aside = dict(ledger.test_labels), set(ledger.test)
        seen = Seen(ledger.standing_checks(), Foretold.of(ledger), *aside)
        return desk.start(), seen, desk.learner, scale_is_due(desk), desk.pack() if keep else None

    start, seen_of, now, anew, packed = desk.read(look).result()
    if not start.labels and not start.names and not anew:
        return
    told_by = start.here if anew or now.told_by is None else now.told_by
    scaling, features = desk.rows.scaling(desk.ids, told_by), now.pool.features
    folded = desk.rows.folds(start.here)  # as a replay that starts here would
    if anew or folded != isinstance(features, Scaled):
        features = desk.rows.on_scale(desk.ids, 0, start.here, scaling, folded)
    elif isinstance(features, Scaled):
        features = features.first(start.here)
    else:
        features = features[: start.here]
    start = start._replace(names_hold=_names_hold(start, features, scaling))
    learner = learner_at(start, desk.ledger, desk.rows, told_by, features)
    trained = learner.trained
    try:
        _take_over(desk, learner, start)
    except BaseException:
        learner.close()
        raise
    if packed is not None:
        desk.keep_ledger(packed)
    if trained is not None and len(set(start.labels.values())) > 1:
        _note(desk, assess(start, trained, learner, seen_of.evidence()))


def _take_over(desk: Desk, learner: Learner, start: Start) -> None:
    """Have a model follow what came while it was trained, and the desk go on with it.

    Both are done beside the desk: many changes are followed without the logits, which are computed then; the
    few that come meanwhile move them, until next to none is left for the desk, whose rounds cost more than to
    follow them.
    """
    settled = _caught_up(desk, learner, start.seq, NEARLY, PARTS[0], later=True)
    learner.settle()
    seen = _caught_up(desk, learner, settled, ONE, PARTS[1], later=False)

    def take_over() -> Finish:
        desk.take(learner, start, settled, seen)
        return lambda: None

    desk.submit(take_over, alone=True).result()


def _caught_up(desk: Desk, learner: Learner, seen: int, enough: int, parts: int, later: bool) -> int:
    """Have a model follow what came after an event until so few rounds are left; return the last it has seen.

    It ends, too, where people answer as fast as it follows: each part must be half of the one before.
    """
    most = math.inf
    for _ in range(parts):
        changes = desk.read(partial(desk.changes_since, seen)).result()
        rounds = len({change.block for change in changes})
        few = rounds <= enough and (later or len(changes) < MANY)  # more are trained with, as a whole
        if few or rounds > most:
            break
        learner.follow(changes, later)
        seen, most = changes[-1].seq, max(rounds / 2, NEARLY)
    return seen


class Seen(NamedTuple):
    """Copies of what tells how good a model is, made while the desk waits: all else is done beside it."""

    checks: list[Check]
    foretold: Foretold
    test: dict[int, int]
    aside: set[int]

    def evidence(self) -> Evidence:
        return Evidence(check_weights(self.checks), self.foretold.found(), self.test, self.aside)


def _note(desk: Desk, found: Assessment) -> None:
    """Write down how good the model is, if that is news."""

    def write() -> Finish:
        desk.assessment = found
        if desk.ledger.assessed[-1:] != [found.body]:
            desk.emit("", found.body)
        return lambda: None

    desk.submit(write).result()


def scale_is_due(desk: Desk) -> bool:
    """Return whether so many instances have joined that they should tell the scale anew."""
    told_by = desk.learner.told_by
    return told_by is not None and desk.rows.told_anew(told_by, len(desk.ids))


def _names_hold(start: Start, features: np.ndarray | Scaled, scaling: Scaling | None) -> bool:
    """Return whether the labels bear the class names out."""
    rows = None if scaling is None else name_rows(start.vectors, scaling)
    if rows is None or not start.labels:
        return start.names_hold
    idx, y = in_order(start.labels)
    x = features[idx].astype(np.float64)
    return are_of_use(rows, x, y, start.n_classes, suited_precision(start.n_classes))
