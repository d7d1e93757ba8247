"""Background work beside the desk: exact training, and the estimate after it.

A second model is trained on a copy of the labels. It then applies the changes that arrived meanwhile and
replaces the first model.

The mean of the model is saved at the end: the next start trains from it, which is faster. The file may be
deleted at any time.
"""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_file
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.learner import Learner, WarmStart
from everylabel.labelling.model.training import FeatureTable, TrainingSet
from everylabel.labelling.quality.assessment import Assessment, AssessmentLabels, assess
from everylabel.labelling.sources.consensus import KNOWN, find_consensus
from everylabel.labelling.state.types import WHICH, Answer

log = logging.getLogger(__name__)
REST = 4.0  # rest this many times as long as training computed: use at most a fifth of one core
WAIT = 0.2  # seconds until the next look whether training is due
EARLY, EARLY_UP_TO = 2, 40  # label changes between trainings while there are few labels, and class names help
EVERY = 10  # label changes between trainings if each label is learned exactly anyway
PAUSE = 5.0  # seconds without a label change after which the figures are brought up to date all the same
FORMAT = "everylabel mean"


def save_mean(path: Path, desk: Desk) -> None:
    """Save the mean of a running desk's model."""

    def look() -> tuple[tuple[int, ...], np.ndarray]:
        return desk.learner.columns, np.asarray(desk.learner.pool.posterior.mean)

    columns, mean = desk.read(look).result()
    known = {"format": FORMAT, "version": VERSION, "columns": [int(c) for c in columns]}
    write_file(path, known, {"mean": mean}, mode=0o600)


def saved_mean(path: Path) -> WarmStart | None:
    """Return the saved mean, if there is one."""
    if not path.exists():
        return None
    try:
        header, arrays = read_file(path, FORMAT, "mean of a model", "everylabel label")
        mean = np.asarray(arrays["mean"], np.float64)
        return [int(c) for c in header["columns"]], mean if np.isfinite(mean).all() else np.zeros((0, 0))
    except (EverylabelError, KeyError, TypeError, ValueError):
        return None


class Retrainer:
    """A thread that retrains the model when labels have arrived.

    mean_path : file to which the mean of the model is saved at the end
    """

    def __init__(self, desk: Desk, mean_path: Path | None = None) -> None:
        self.desk, self.mean_path = desk, mean_path
        self._stopped = threading.Event()
        self._seen: tuple[int, int] = -1, 0  # label changes and checks at the last training
        self._rows = desk.rows  # features at the last training
        self._last = -1, 0.0  # label changes, and when their number was first seen
        self._thread = threading.Thread(target=self._work, name="retrain", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the current training, and save the mean for the next start."""
        self._stopped.set()
        self.desk.learned.set()
        self._thread.join()
        if self.mean_path is None:
            return
        try:
            save_mean(self.mean_path, self.desk)
        except Exception as error:  # a full disk: the next start trains from zero
            log.warning("the mean of the model could not be saved: %s", error)

    def _work(self) -> None:
        while not self._stopped.is_set():
            self.desk.learned.wait()
            if self._stopped.is_set():
                return
            if not self._is_due():
                self._stopped.wait(WAIT)
                continue
            began = time.thread_time()  # without the time spent waiting for the desk
            # read before training: labels that arrive meanwhile make the next training due
            self._seen = self.desk.state.n_changes, len(self.desk.state.checks)
            self._rows = self.desk.rows
            try:
                retrain(self.desk)
            except EverylabelError as error:  # the log refuses writes
                log.warning("training in the background failed: %s", error)
            except Exception:  # labels are still learned without it
                log.exception("training in the background failed")
            self._stopped.wait(REST * (time.thread_time() - began))

    def _is_due(self) -> bool:
        """Return whether to train now: after one label, or after several if each is learned exactly.

        New features change the accuracy without any label. After a pause one label is enough: the figures are
        then those that a restart would show.
        """
        state, learner = self.desk.state, self.desk.learner
        changes, checks = self._seen
        if state.n_changes != self._last[0]:
            self._last = state.n_changes, time.monotonic()
        if learner.deferred or self.desk.rows.scale_is_stale(learner.scaled_on, len(self.desk.ids)):
            return True
        names = self.desk.names.vectors(state)
        if not learner.can_update(state.columns, names) or len(state.checks) != checks:
            return True
        if self.desk.rows is not self._rows:
            return True
        early = bool(names) and len(state.labels) < EARLY_UP_TO
        every = (EARLY if early else EVERY) if learner.exact else 1
        paused = state.n_changes > changes and time.monotonic() - self._last[1] >= PAUSE
        return changes < 0 or paused or state.n_changes - changes >= every


def retrain(desk: Desk) -> None:
    """Train on all current labels, apply the changes since, replace the model and estimate the accuracy."""

    def look() -> tuple[TrainingSet, AssessmentLabels, Learner, FeatureTable]:
        state = desk.state
        desk.learned.clear()  # on the desk's thread, so no label can slip in between this and the copy
        evidence = AssessmentLabels(
            first=state.first_answers(),
            test=dict(state.test_labels),
            held_out=set(state.test),
            cross_fitted=desk.cross_fitted(),
            voted={i: state.labels[i] for i in desk.consensus if i in state.labels},
        )
        return desk.training_set(), evidence, desk.learner, desk.rows

    _learn_consensus(desk)
    training, evidence, now, rows = desk.read(look).result()
    labels = training.labels()
    stale = rows.scale_is_stale(now.scaled_on, training.n_items)
    if not (labels or training.names or training.suggestions or stale):
        return
    learner = Learner(rows, desk.ids, training, before=now)
    trained = learner.trained
    try:
        if training.multi_label and (labels or learner.names is not None):
            learner.choose_thresholds()
        learner.move_to(desk.read(desk.training_set).result())  # learn most changes without blocking the desk
    except BaseException:
        learner.close()
        raise
    # the rest, and the exchange, happen in one round of the desk: no label is missed
    desk.submit(lambda: desk.replace_model(learner), alone=True).result()
    if desk.learner is learner and len(set(labels.values())) > 1:
        _log_assessment(desk, assess(training, trained, learner, evidence))


def _learn_consensus(desk: Desk) -> None:
    """Replace labels of items with several answers by their consensus, if reliabilities can be estimated."""

    def look() -> tuple[dict[int, list[Answer]], Mapping[int, Any], Any] | None:
        state, pool = desk.state, desk.learner.pool
        agreement = state.tally.agreement.get(WHICH)
        if state.multi_label or not pool.can_scan or agreement is None or agreement.items < KNOWN:
            return None
        answers = {i: list(state.answers[i]) for i in state.labels if i in state.answers}
        return answers, state.adjudicated(), pool.features

    found = desk.read(look).result()
    if found is None:
        return
    answers, final, features = found
    consensus = find_consensus(features, answers, final)
    desk.submit(lambda: desk.use_consensus(consensus)).result()


def _log_assessment(desk: Desk, found: Assessment) -> None:
    """Write the accuracy estimate to the log, if it has changed."""

    def write() -> None:
        desk.assessment = found
        if desk.state.assessed[-1:] != [found.body]:
            desk.emit("", found.body)

    desk.submit(write).result()
