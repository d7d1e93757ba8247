"""The quality of the model, assessed in the background from a copy of the state; no label waits for it.

It depends only on the labels and on which of them were drawn at random, not on when it is computed: the
accuracy (`accuracy`) or F1 (`f1`), figures by class (`by_class`), suspect labels (`suspect_labels`), and
what the last labels brought (`stopping`). The share of class c among the unlabelled items is a difference
estimate,
    mean over unlabelled items of p_c + n/(n + SHRUNK) * mean over n checks of ([label = c] - p_c left out)
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.labelling.model.learner import Learner, predicted
from everylabel.labelling.model.training import TrainingSet, in_order, targets
from everylabel.labelling.quality.accuracy import FEWEST, Interval, Verdicts, accuracy_on_unlabelled, wilson
from everylabel.labelling.quality.by_class import class_figures, confusion
from everylabel.labelling.quality.f1 import set_figures
from everylabel.labelling.quality.stopping import UNKNOWN, gain, last_labels
from everylabel.labelling.quality.suspect_labels import (
    LeftOut,
    left_out_probabilities,
    set_verdicts,
    verdicts_on,
)
from everylabel.labelling.state.types import ClassSet, FirstAnswer
from everylabel.log.events import Assessed

SHRUNK = 10  # checks at which half of the observed difference is applied
DIGITS = 4  # of the estimates in the log: a model that is trained again differs in the sixth digit
CrossFitted = Mapping[int, Mapping[int, float]]  # item -> class -> probability with its label left out


class AssessmentLabels(NamedTuple):
    """The labels from which the model's quality is assessed."""

    first: Mapping[int, FirstAnswer] = MappingProxyType({})  # the first answer to each item
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


def assess(
    training: TrainingSet, posterior: Posterior, learner: Learner, evidence: AssessmentLabels
) -> Assessment:
    """Return the accuracy of a model trained on these labels, on random checks and on the test set.

    posterior : as trained, before later changes
    """
    if training.multi_label:
        return _assess_sets(training, posterior, learner, evidence)
    labels, column = training.labels(), {number: j for j, number in enumerate(training.columns)}

    def probabilities(items: np.ndarray) -> np.ndarray:
        return learner.link(learner.combined(items, learner.pool.rows(items) @ np.asarray(posterior.mean)))

    # the model helped to find the consensus, so it is judged by people's majority
    judged = labels | {i: column[c] for i, c in evidence.voted.items() if i in labels and c in column}
    idx, truth = in_order(judged)
    without = left_out_probabilities(posterior, len(idx), learner.evidence)
    _use_cross_fitted(without, idx, training.columns, evidence.cross_fitted)
    guess, drawn = without.argmax(axis=1), _weights(idx, training)
    first = [evidence.first.get(i, UNKNOWN) for i in idx.tolist()]
    sure_before = np.array([answer.sure for answer in first], float)  # nan: unknown
    right_before = np.array([answer.guess for answer in first]) == np.array(training.columns)[truth]
    verdicts = Verdicts(without.max(axis=1), guess == truth, sure_before, right_before, drawn)
    figures: dict[str, Any] = {"expected": 1.0}
    known = {*labels, *evidence.held_out}
    unlabelled = np.array([i for i in learner.sample.tolist() if i not in known], dtype=np.int64)
    at = np.flatnonzero(drawn)
    if len(unlabelled):
        now = probabilities(unlabelled)
        figures["expected"] = float(now.max(axis=1).mean())
        figures |= _gain(training, learner, evidence, unlabelled, now)
        if len(at) >= FEWEST:
            figures |= accuracy_on_unlabelled(verdicts, now.max(axis=1))._asdict()
            shares = _class_shares(now, without[at], truth[at], drawn[at])
            figures |= {"commonest": training.columns[int(shares.argmax())], "share": float(shares.max())}
    checks = _by_class(truth[at], guess[at], drawn[at], training.columns)
    tested, test = None, {item: column[c] for item, c in evidence.test.items() if c in column}
    if test:
        items, truth = in_order(test)
        guess = probabilities(items).argmax(axis=1)
        tested = {"n": len(items), **wilson(float(np.mean(guess == truth)), len(items))._asdict()}
        tested |= _by_class(truth, guess, np.ones(len(items)), training.columns)
    left_out = verdicts_on(judged, without, training.columns)
    return Assessment(_estimate(labels, at, figures), checks, tested, left_out, verdicts)


def _assess_sets(
    training: TrainingSet, posterior: Posterior, learner: Learner, evidence: AssessmentLabels
) -> Assessment:
    """Return F1, exact match and figures by class of a multi-label model."""
    k, labels = training.n_classes, training.labels()
    thresholds = learner.thresholds_of(training.columns)
    idx, truth = targets(labels, k, True)
    without = left_out_probabilities(posterior, len(idx))
    drawn = _weights(idx, training)
    at = np.flatnonzero(drawn)
    guess = predicted(without[at], thresholds)
    checks = set_figures(truth[at], guess, drawn[at], training.columns)
    column = {number: j for j, number in enumerate(training.columns)}
    tested, test = None, {i: c.numbered(column) for i, c in evidence.test.items() if isinstance(c, ClassSet)}
    if test:
        items, truth = targets(test, k, True)
        probs = learner.link(learner.pool.rows(items) @ np.asarray(posterior.mean))
        found = set_figures(truth, predicted(probs, thresholds), np.ones(len(items)), training.columns)
        tested = {"n": len(items), **(found["micro"] or dict.fromkeys(Interval._fields)), **found}
    figures = {"expected": learner.expected_accuracy(), **(checks["micro"] or {})}
    left_out = set_verdicts(labels, without, training.columns)
    return Assessment(_estimate(labels, at, figures), checks, tested, left_out)


def _weights(idx: np.ndarray, training: TrainingSet) -> np.ndarray:
    """Return the weights of labelled items (n,), 0 for those that were not drawn at random."""
    return np.array([training.drawn.get(i, 0.0) for i in idx.tolist()])


def _estimate(labels: Mapping[int, Any], checks: np.ndarray, figures: Mapping[str, Any]) -> Assessed:
    """Return the estimate that is logged, rounded."""
    rounded: dict[str, Any] = {
        name: round(value, DIGITS) if isinstance(value, float) else value for name, value in figures.items()
    }
    return Assessed(labels=len(labels), checks=len(checks), **rounded)


def _by_class(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, columns: Sequence[int]
) -> dict[str, Any]:
    """Return figures by class number; truth and guess (n,) are columns of the model."""
    numbers = np.array(columns)
    shown = [number for number in columns if number >= 0]  # NONE, the last column, is not shown
    each = np.eye(len(columns))[:, : len(shown)]
    return {
        "classes": class_figures(each[truth], each[guess] == 1.0, weights, shown),
        "confusion": confusion(numbers[truth], numbers[guess]),
    }


def _use_cross_fitted(
    without: np.ndarray, idx: np.ndarray, columns: Sequence[int], cross_fitted: CrossFitted
) -> None:
    """Replace rows of labels that the encoder was trained on by cross-fitted probabilities.

    If the encoder was trained on a label, leaving that label out of the head alone is no test.
    """
    for row, item in enumerate(idx.tolist() if cross_fitted else ()):
        known = cross_fitted.get(item)
        if known:
            probs = np.array([known.get(number, 0.0) for number in columns])
            without[row] = probs / max(float(probs.sum()), 1e-12)


def _class_shares(now: np.ndarray, without: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the share of each class among the unlabelled items; see the module's head."""
    surplus = np.eye(now.shape[1])[truth] - without
    n = weights.sum()
    shares = now.mean(axis=0) + n / (n + SHRUNK) * (weights @ surplus) / n
    return np.asarray(np.clip(shares, 0.0, 1.0))


def _gain(
    training: TrainingSet, learner: Learner, evidence: AssessmentLabels, items: np.ndarray, probs: np.ndarray
) -> dict[str, Any]:
    """Return what the last labels brought, if it can be computed.

    It cannot if a fine-tuned encoder was trained on those labels, since they cannot be left out. Nor can it
    if the model learns from suggestions: training without the last labels would measure their sources again.
    """
    labels = {item: training.columns[column] for item, column in training.labels().items()}
    last = last_labels(labels, evidence.first, training.drawn)
    if training.suggestions or not evidence.cross_fitted.keys().isdisjoint(last):
        return {}
    brought = gain(training, learner, last, items, probs)
    return {} if brought is None else {"gain": brought, "without": len(last)}
