"""The accuracy of the model, estimated in the background from a copy of the state; no label waits for it.

The estimate depends only on the labels and on which of them were drawn at random, not on when it is computed.
The share of class c among the unlabelled items is a difference estimate,
    mean over unlabelled items of p_c + n/(n + SHRUNK) * mean over n checks of ([label = c] - p_c left out)
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.arrays import softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.core.posterior import Posterior
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import RuledOut, TrainingSet, in_order, train
from everylabel.labelling.quality.accuracy import (
    FEWEST,
    Verdicts,
    accuracy_left,
    class_figures,
    confusion,
    wilson,
)
from everylabel.labelling.quality.suspects import probably_wrong
from everylabel.labelling.sources.evidence import Evidence as Suggested
from everylabel.labelling.state.types import Value
from everylabel.log.events import Assessed
from everylabel.models.names import NameRows
from everylabel.selection.pool.features import Scaled

SHRUNK = 10  # checks at which half of the observed difference is applied
CLASSIFIES = 1e-3  # tolerance of training that is good enough to classify
CrossFitted = Mapping[int, Mapping[int, float]]  # item -> class -> probability with its label left out


class LeftOut(NamedTuple):
    """The model's verdict on a labelled item with its own label left out."""

    label: Value
    own: float  # probability of the label
    guess: Value  # in a multi-label project the label with its most doubtful class changed
    sure: float  # probability of the guess
    wrong: float = 0.0  # probability that the label is wrong (`quality/suspects.py`)


class Evidence(NamedTuple):
    """The labels from which the model's accuracy is estimated."""

    drawn: Mapping[int, float]  # weights of labelled items that were drawn at random
    foretold: Mapping[int, tuple[int, float]]  # guess and its probability before the label was learned
    given: Mapping[int, int] = MappingProxyType({})  # number of the event that labelled each item
    test: Mapping[int, Any] = MappingProxyType({})  # label of each labelled test item
    held_out: Collection[int] = ()  # all test items
    cross_fitted: CrossFitted = MappingProxyType({})  # for labels that a fine-tuned encoder was trained on
    voted: Mapping[int, Any] = MappingProxyType({})  # people's labels, where the model learned another one


class Assessment(NamedTuple):
    """The estimate that is logged, and figures that are not: by class from checks, and on the test set."""

    body: Assessed
    checks: dict[str, Any]
    test: dict[str, Any] | None
    left_out: Mapping[int, LeftOut] = MappingProxyType({})  # of each label in turn
    verdicts: Verdicts | None = None


def assess(training: TrainingSet, posterior: Posterior, learner: Learner, evidence: Evidence) -> Assessment:
    """Return the accuracy of a model trained on these labels.

    posterior : as trained, before later changes
    """
    labels, column = training.labels(), {number: j for j, number in enumerate(training.columns)}
    # the model helped to find the consensus, so it is judged by people's majority
    voted = {i: column[c] for i, c in evidence.voted.items() if i in labels and c in column}
    idx, truth = in_order(labels | voted)
    k = training.n_classes
    without = _without(posterior, len(idx), k, learner.evidence)
    without = _with_cross_fitted(without, idx, training.columns, evidence.cross_fitted)
    guess = without.argmax(axis=1)
    drawn = np.array([evidence.drawn.get(int(i), 0.0) for i in idx])
    known = {*labels, *evidence.held_out}
    left = np.array([i for i in learner.sample.tolist() if i not in known], dtype=np.int64)
    now = _probabilities(learner, left, posterior, k)
    at = np.flatnonzero(drawn)
    figures: dict[str, Any] = {}
    before = np.array([evidence.foretold.get(int(i), (-1, np.nan)) for i in idx]).reshape(-1, 2)
    right = before[:, 0] == np.array(training.columns)[truth]
    verdicts = Verdicts(without.max(axis=1), guess == truth, before[:, 1], right, drawn)
    if len(at) >= FEWEST and len(left):
        figures = accuracy_left(verdicts, now.max(axis=1))._asdict()
        shares = _class_shares(now, without[at], truth[at], drawn[at])
        figures |= {"commonest": training.columns[int(shares.argmax())], "share": float(shares.max())}
    gained = _gain(training, learner, evidence, left, now) if len(left) else {}
    expected = float(now.max(axis=1).mean()) if len(left) else 1.0
    numbers: dict[str, Any] = {"expected": expected, **figures, **gained}
    rounded: dict[str, Any] = {
        name: round(value, 6) if isinstance(value, float) else value for name, value in numbers.items()
    }
    body = Assessed(labels=len(labels), checks=len(at), **rounded)
    checks = _by_class(truth[at], guess[at], drawn[at], training)
    tested = _tested(learner, posterior, evidence.test, training)
    return Assessment(body, checks, tested, _left_out(idx, truth, without, training.columns), verdicts)


def _tested(
    learner: Learner, posterior: Posterior, test: Mapping[int, int], training: TrainingSet
) -> dict[str, Any] | None:
    """Return the accuracy on the test set, and figures by class."""
    column = {number: j for j, number in enumerate(training.columns)}
    idx, truth = in_order({item: column[number] for item, number in test.items() if number in column})
    if not len(idx):
        return None
    guess = _probabilities(learner, idx, posterior, training.n_classes).argmax(axis=1)
    known = wilson(float(np.mean(guess == truth)), len(idx))._asdict()
    return {"n": len(idx), **known, **_by_class(truth, guess, np.ones(len(idx)), training)}


def _by_class(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, training: TrainingSet
) -> dict[str, Any]:
    """Return figures by class number; truth and guess are columns of the model."""
    columns = np.array(training.columns)
    said = columns[truth], columns[guess]
    return {
        "classes": class_figures(*said, weights, [number for number in training.columns if number >= 0]),
        "confusion": confusion(*said),
    }


def _probabilities(learner: Learner, idx: np.ndarray, posterior: Posterior, k: int) -> np.ndarray:
    logits = (learner.pool.rows(idx) @ np.asarray(posterior.mean))[:, :k]
    return np.asarray(softmax(learner.combined(idx, logits)))


def left_out(
    features: np.ndarray | Scaled,
    labels: Mapping[int, int],
    columns: Sequence[int],
    names: NameRows | None,
    ruled_out: RuledOut,
    init: np.ndarray | None = None,
    cross_fitted: CrossFitted = MappingProxyType({}),
) -> Mapping[int, LeftOut]:
    """Return the verdict on each label by a model trained without it; empty while all have one class.

    labels : column of each item; columns : class of each column; the other arguments are those of `train`
    """
    if len(set(labels.values())) < 2:
        return {}
    k = len(columns)
    posterior = train(features, labels, k, names, ruled_out=ruled_out, init=init)
    idx, truth = in_order(labels)
    without = _with_cross_fitted(_without(posterior, len(idx), k), idx, columns, cross_fitted)
    return _left_out(idx, truth, without, columns)


def _left_out(
    idx: np.ndarray, truth: np.ndarray, without: np.ndarray, columns: Sequence[int]
) -> dict[int, LeftOut]:
    """Return verdicts by item; columns : class of each column of the model."""
    own, numbers = without[np.arange(len(idx)), truth], np.array(columns)
    guess, wrong = numbers[without.argmax(axis=1)], probably_wrong(without, truth)
    rows = zip(*(x.tolist() for x in (numbers[truth], own, guess, without.max(axis=1), wrong)), strict=True)
    return {item: LeftOut(*row) for item, row in zip(idx.tolist(), rows, strict=True)}


def _without(posterior: Posterior, n: int, k: int, said: Suggested | None = None) -> np.ndarray:
    """Return the probabilities (n, k) of the first n labelled items, each with its own label left out.

    said : evidence of suggestions, by sources that were measured without the label, too
    """
    logits = np.asarray(leave_one_out(posterior))[:n, :k]
    return np.asarray(softmax(logits if said is None else logits + said.left_out))


def _with_cross_fitted(
    without: np.ndarray, idx: np.ndarray, columns: Sequence[int], cross_fitted: CrossFitted
) -> np.ndarray:
    """Replace rows of labels that the encoder was trained on by cross-fitted probabilities.

    If the encoder was trained on a label, leaving that label out of the head alone is no test.
    """
    for row, item in enumerate(idx.tolist() if cross_fitted else ()):
        known = cross_fitted.get(item)
        if known:
            probs = np.array([known.get(number, 0.0) for number in columns])
            without[row] = probs / max(float(probs.sum()), 1e-12)
    return without


def _class_shares(now: np.ndarray, without: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the share of each class among the unlabelled items; see the module's head."""
    surplus = np.eye(now.shape[1])[truth] - without
    n = weights.sum()
    shares = now.mean(axis=0) + n / (n + SHRUNK) * (weights @ surplus) / n
    return np.asarray(np.clip(shares, 0.0, 1.0))


def _gain(
    training: TrainingSet, learner: Learner, evidence: Evidence, left: np.ndarray, now: np.ndarray
) -> dict[str, Any]:
    """Return the accuracy gained from the last fifth of the labels, if it can be computed.

    It cannot if a fine-tuned encoder was trained on those labels, since they cannot be left out. Nor can it
    if suggestions teach: training without the last labels would measure their sources again.
    """
    labels = training.labels()
    last = max(10, len(labels) // 5)
    in_time = sorted(labels, key=lambda item: evidence.given.get(item, 0))
    kept = {item: labels[item] for item in in_time[:-last]}
    if (
        training.suggestions
        or len(set(kept.values())) < 2
        or not evidence.cross_fitted.keys().isdisjoint(in_time[-last:])
    ):
        return {}
    features, gone = learner.pool.features, training.ruled_out()
    then_trained = train(features, kept, training.n_classes, learner.names, ruled_out=gone, tol=CLASSIFIES)
    mean = np.asarray(then_trained.mean)
    then = softmax((learner.pool.rows(left) @ mean)[:, : training.n_classes])
    guess = now.argmax(axis=1)
    rows = np.arange(len(left))
    return {"gain": float(np.mean(now[rows, guess] - now[rows, then.argmax(axis=1)])), "without": last}
