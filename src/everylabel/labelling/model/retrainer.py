"""Exact training in the background, and the estimate of the model's accuracy that follows it.

A second model is trained on a copy of the labels. It then follows the changes that came meanwhile and takes
the place of the first one.
"""

import logging
import threading
import time

from everylabel.core.errors import EverylabelError
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.scaling import Rows
from everylabel.labelling.model.training import TrainingSet
from everylabel.labelling.quality.assessment import Assessment, Evidence, assess
from everylabel.labelling.quality.check_weights import check_weights
from everylabel.labelling.snapshot import Snapshots

log = logging.getLogger(__name__)
REST = 4.0  # rest this many times as long as training has computed: a fifth of one core at most
WAIT = 0.2  # seconds between looks whether training pays
EARLY, EARLY_UP_TO = 2, 40  # labels between trainings while there are few and class names teach
EVERY = 10  # label changes between trainings where each label is learned exactly anyway
SAVE_EVERY = 10_000  # events between snapshots while the server runs


class Retrainer:
    """A thread that retrains the model whenever labels have come; snapshots: where the state is saved."""

    def __init__(self, desk: Desk, snapshots: Snapshots | None = None) -> None:
        self.desk, self.snapshots = desk, snapshots
        self._stopped = threading.Event()
        self._saved = desk.state.seq
        self._seen: tuple[int, int] = -1, 0  # label changes and checks at the last training
        self._thread = threading.Thread(target=self._work, name="retrain", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the current training, and save the state and the mean for the next start."""
        self._stopped.set()
        self.desk.learned.set()
        self._thread.join()
        self._save()

    def _work(self) -> None:
        while not self._stopped.is_set():
            self.desk.learned.wait()
            if self._stopped.is_set():
                return
            if self.desk.rows.refusal() is not None or not self._is_due():
                self._stopped.wait(WAIT)
                continue
            began = time.thread_time()  # without the time it waits for the desk
            self._seen = self.desk.state.n_changes, len(self.desk.state.checks)
            try:
                retrain(self.desk)
            except EverylabelError as error:  # the log refuses writes
                log.warning("training in the background failed: %s", error)
            except Exception:  # labels go on being learned without it
                log.exception("training in the background failed")
            if self.desk.state.seq - self._saved > SAVE_EVERY:
                self._save()
            self._stopped.wait(REST * (time.thread_time() - began))

    def _save(self) -> None:
        if self.snapshots is None or self.desk.rows.refusal() is not None:
            return
        try:
            self._saved = self.desk.state.seq
            self.snapshots.save(self.desk)
        except Exception as error:  # a full disk: the next start reads the whole log
            log.warning("the snapshot could not be saved: %s", error)

    def _is_due(self) -> bool:
        """Return whether training pays: at once, or after some labels if each is learned exactly anyway."""
        state, learner = self.desk.state, self.desk.learner
        changes, checks = self._seen
        if learner.deferred or self.desk.rows.scale_is_stale(learner.scaled_on, len(self.desk.ids)):
            return True
        names = self.desk.names.vectors(state)
        if not learner.can_follow(state.columns, names) or len(state.checks) != checks:
            return True
        early = bool(names) and len(state.labels) < EARLY_UP_TO
        every = (EARLY if early else EVERY) if learner.exact else 1
        return changes < 0 or state.n_changes - changes >= every


def retrain(desk: Desk) -> None:
    """Train on all current labels, take over with the changes since, and estimate the accuracy."""

    def look() -> tuple[TrainingSet, Evidence, Learner, Rows]:
        state = desk.state
        desk.learned.clear()
        evidence = Evidence(
            drawn=check_weights(state.standing_checks()),
            foretold=state.foretold(),
            given=dict(state.first),
            test=dict(state.test_labels),
            held_out=set(state.test),
            cross_fitted=desk.cross_fitted(),
        )
        return desk.training_set(), evidence, desk.learner, desk.rows

    training, evidence, now, rows = desk.read(look).result()
    labels = training.labels()
    stale = rows.scale_is_stale(now.scaled_on, training.n_items)
    if not labels and not training.names and not stale:
        return
    learner = Learner(rows, desk.ids, training, before=now)
    trained = learner.trained
    try:
        learner.follow(desk.read(desk.training_set).result())  # most of the changes, beside the desk
    except BaseException:
        learner.close()
        raise
    desk.submit(lambda: _taken_over(desk, learner), alone=True).result()
    if desk.learner is learner and len(set(labels.values())) > 1:
        _note(desk, assess(training, trained, learner, evidence))


def _taken_over(desk: Desk, learner: Learner) -> Finish:
    desk.take_over(learner)
    return lambda: None


def _note(desk: Desk, found: Assessment) -> None:
    """Write the estimate to the log, if it is new."""

    def write() -> Finish:
        desk.assessment = found
        if desk.state.assessed[-1:] != [found.body]:
            desk.emit("", found.body)
        return lambda: None

    desk.submit(write).result()
