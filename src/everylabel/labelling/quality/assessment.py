"""The accuracy of the model, estimated in the background from a copy of the state; no label waits for it.

The estimate depends only on the labels and on which of them were drawn at random, not on when it is computed.
The share of class c among the unlabelled items is a difference estimate,
    mean over unlabelled items of p_c + n/(n + SHRUNK) * mean over n checks of ([label = c] - p_c left out)

The probability that a label is wrong (`probably_wrong`):
Labels that were chosen because the model was unsure always look odd to it, so a disagreement with the model
alone is no evidence. q are the class probabilities of an item with its own label left out, at a temperature
t, y is its label, k the number of classes and e the share of labels that are wrong, with all other classes
equally likely:
    q ~ softmax(log p / t)
    P(y) = (1 - e) q_y + e (1 - q_y) / (k - 1),      P(wrong | y) = e (1 - q_y) / (k - 1) / P(y)
averaged over a grid of t and e by their posterior given all labels, with log t ~ N(0, SPREAD^2) and
e ~ Beta(1, RIGHT). The temperature explains many mild surprises, the share of errors a few large ones.

In a multi-label project each pair of item and class is a label, and q is first mixed with the share of its
class among the other items' answers (t_ic, n_c of them, share s of "yes" among all answers):
    q_ic = (1 - m) p_ic + m (sum_{j != i} t_jc + USUAL_SHARE s) / (n_c - 1 + USUAL_SHARE)
with the m in [0, 1] that makes the answers most probable. Otherwise most of the "yes" to classes that the
model cannot find look wrong.

Measured at 60, 120 and 240 labels by herding, with 3 % or 10 % of them swapped at random. On the four
datasets where the constants were chosen (12 runs), 15 of 5,040 right labels are LIKELY wrong, though the
model predicts another class for 1,584. Of the labels shown, 28 of 39 are wrong with 3 % swapped, 88 of 100
with 10 %. On four other datasets (11 runs): 9 of 4,620 right labels; 8 of 15 and 28 of 42 shown ones. Few
errors are found, but the labels shown are worth a look. The sum of all probabilities is too high if no label
is wrong (1.2 %), and too low if 10 % are (a third of the errors).
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.arrays import softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.core.posterior import Posterior
from everylabel.labelling.model.learner import Learner, fit, predicted
from everylabel.labelling.model.training import RuledOut, TrainingSet, in_order, targets, train
from everylabel.labelling.quality.accuracy import (
    FEWEST,
    Verdicts,
    accuracy_on_unlabelled,
    class_figures,
    confusion,
    set_figures,
    wilson,
)
from everylabel.labelling.sources.evidence import Evidence
from everylabel.labelling.state.types import ClassSet, Value
from everylabel.log.events import Assessed
from everylabel.models.names import NameRows
from everylabel.models.thresholds import left_out as answers_left_out
from everylabel.selection.pool.features import LazyScaled

TEMPERATURES = np.array([0.5, 0.7, 1.0, 1.4, 2.0, 2.8])
SHARES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25])  # grid of e
SPREAD = 0.4
RIGHT = 20.0
USUAL_SHARE = 20.0  # answers that the share of "yes" over all classes counts for
MIXED = np.linspace(0.0, 1.0, 11)  # grid of m
FORETOLD = 0.9  # probability from which the model has foretold a label that it guessed
LIKELY = 0.3  # a label is shown from this probability on
TINY = 1e-12
SHRUNK = 10  # checks at which half of the observed difference is applied
DIGITS = 4  # of the estimates in the log: a model that is trained again differs in the sixth digit
CLASSIFIES = 1e-3  # tolerance of training that is good enough to classify
CrossFitted = Mapping[int, Mapping[int, float]]  # item -> class -> probability with its label left out


class LeftOut(NamedTuple):
    """The model's verdict on a labelled item with its own label left out."""

    label: Value
    own: float  # probability of the label
    guess: Value  # in a multi-label project the label with its most doubtful class changed
    sure: float  # probability of the guess
    wrong: float = 0.0  # probability that the label is wrong (`probably_wrong`)


class AssessmentLabels(NamedTuple):
    """The labels from which the model's accuracy is estimated."""

    drawn: Mapping[int, float]  # weights of labelled items that were drawn at random
    guesses_before: Mapping[int, tuple[int, float]]  # guess and its probability before the label was learned
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


def assess(
    training: TrainingSet, posterior: Posterior, learner: Learner, evidence: AssessmentLabels
) -> Assessment:
    """Return the accuracy of a model trained on these labels, on random checks and on the test set.

    posterior : as trained, before later changes
    """
    if training.multi_label:
        return _assess_sets(training, posterior, learner, evidence)
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
    before = np.array([evidence.guesses_before.get(int(i), (-1, np.nan)) for i in idx]).reshape(-1, 2)
    right = before[:, 0] == np.array(training.columns)[truth]
    verdicts = Verdicts(without.max(axis=1), guess == truth, before[:, 1], right, drawn)
    if len(at) >= FEWEST and len(left):
        figures = accuracy_on_unlabelled(verdicts, now.max(axis=1))._asdict()
        shares = _class_shares(now, without[at], truth[at], drawn[at])
        figures |= {"commonest": training.columns[int(shares.argmax())], "share": float(shares.max())}
    gained = _gain(training, learner, evidence, left, now) if len(left) else {}
    expected = float(now.max(axis=1).mean()) if len(left) else 1.0
    numbers: dict[str, Any] = {"expected": expected, **figures, **gained}
    rounded: dict[str, Any] = {
        name: round(value, DIGITS) if isinstance(value, float) else value for name, value in numbers.items()
    }
    body = Assessed(labels=len(labels), checks=len(at), **rounded)
    checks = _by_class(truth[at], guess[at], drawn[at], training)
    tested = _tested(learner, posterior, evidence.test, training)
    return Assessment(body, checks, tested, _left_out(idx, truth, without, training.columns), verdicts)


def _assess_sets(
    training: TrainingSet, posterior: Posterior, learner: Learner, evidence: AssessmentLabels
) -> Assessment:
    """Return F1, exact match and figures by class of a multi-label model."""
    k, labels = training.n_classes, training.labels()
    idx, truth = targets(labels, k, True)
    drawn = np.array([evidence.drawn.get(int(i), 0.0) for i in idx])
    at = np.flatnonzero(drawn)
    said = answers_left_out(posterior)[0][: len(idx)] >= learner.thresholds_of(
        training.columns
    )  # then rows of names
    checks = set_figures(truth[at], said[at], drawn[at], training.columns)
    column = {number: j for j, number in enumerate(training.columns)}
    known = {i: label.numbered(column) for i, label in evidence.test.items() if isinstance(label, ClassSet)}
    tested = None
    if known:
        rows, answers = targets(known, k, True)
        logits = np.asarray(learner.pool.rows(rows) @ np.asarray(posterior.mean))[:, :k]
        said = predicted(learner.link(logits), learner.thresholds_of(training.columns))
        tested = set_figures(answers, said, np.ones(len(rows)), training.columns)
        tested = {
            "n": len(rows),
            **(tested["micro"] or {"estimate": None, "low": None, "high": None}),
            **tested,
        }
    figures = {name: round(value, DIGITS) for name, value in (checks["micro"] or {}).items()}
    body = Assessed(
        labels=len(labels), checks=len(at), expected=round(learner.expected_accuracy(), DIGITS), **figures
    )
    return Assessment(body, checks, tested, _doubts(posterior, labels, training.columns))


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
    features: np.ndarray | LazyScaled,
    labels: Mapping[int, Any],
    columns: Sequence[int],
    names: NameRows | None = None,
    ruled_out: RuledOut = MappingProxyType({}),
    multi_label: bool = False,
    **how: Any,
) -> Mapping[int, LeftOut]:
    """Return the verdict on each label by a model trained without it; empty while all have one class.

    labels : column of each item, or its `ClassSet` of columns; columns : class of each column; the other
        arguments are those of `fit`, for example the sources of suggestions
    """
    if len(set(labels.values())) < (1 if multi_label else 2):
        return {}
    k = len(columns)
    fitted = fit(features, labels, k, names, ruled_out=ruled_out, multi_label=multi_label, **how)
    if multi_label:
        return _doubts(fitted.posterior, labels, columns)
    idx, truth = in_order(labels)
    return _left_out(idx, truth, _without(fitted.posterior, len(idx), k, fitted.evidence), columns)


def _left_out(
    idx: np.ndarray, truth: np.ndarray, without: np.ndarray, columns: Sequence[int]
) -> dict[int, LeftOut]:
    """Return verdicts by item; columns : class of each column of the model."""
    own, numbers = without[np.arange(len(idx)), truth], np.array(columns)
    guess, wrong = numbers[without.argmax(axis=1)], probably_wrong(without, truth)
    rows = zip(*(x.tolist() for x in (numbers[truth], own, guess, without.max(axis=1), wrong)), strict=True)
    return {item: LeftOut(*row) for item, row in zip(idx.tolist(), rows, strict=True)}


def _doubts(
    posterior: Posterior, labels: Mapping[int, ClassSet], columns: Sequence[int]
) -> dict[int, LeftOut]:
    """Return the verdict on each item's most doubtful answer; each pair of item and class is a yes or no."""
    k, numbers = len(columns), dict(enumerate(columns))
    idx, truth = targets(labels, k, True)
    yes = answers_left_out(posterior)[0][: len(idx)]
    known, wrong = ~np.isnan(truth), np.zeros(truth.shape)
    yes, said = with_shares(yes, truth), truth[known].astype(np.int64)
    wrong[known] = probably_wrong(np.stack([1.0 - yes[known], yes[known]], axis=1), said)
    found = {}
    for i, c, answers, p, w in zip(
        idx.tolist(), wrong.argmax(axis=1).tolist(), truth, yes, wrong, strict=True
    ):
        there, label = bool(answers[c] == 1.0), labels[i].numbered(numbers)
        other = ClassSet((), (columns[c],)) if there else ClassSet((columns[c],), ())
        own = float(p[c] if there else 1.0 - p[c])
        found[i] = LeftOut(label, own, label.then(other), 1.0 - own, float(w[c]))
    return found


def with_shares(probs: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return probabilities (n, k) of "yes", mixed with the share of each class; see the module's head.

    answers : (n, k) of 1, 0 and nan (not answered)
    """
    known = ~np.isnan(answers)
    t = np.where(known, answers, 0.0)
    others = np.maximum(known.sum(axis=0) - known, 0)
    usual = USUAL_SHARE * t.sum() / max(1, known.sum())
    shares = (t.sum(axis=0) - t + usual) / (others + USUAL_SHARE)
    mixtures = [(1.0 - m) * probs + m * shares for m in MIXED]
    right = [np.where(t > 0.0, q, 1.0 - q)[known] for q in mixtures]
    return mixtures[int(np.argmax([np.log(np.maximum(p, TINY)).sum() for p in right]))]


def probably_wrong(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probability that each label is wrong (n,).

    probs : (n, k), each item's with its own label left out; labels : (n,)
    """
    n, k = probs.shape
    if k < 2 or not n:
        return np.zeros(n)
    logs, rows, e = np.log(np.maximum(probs, TINY)), np.arange(n), SHARES[:, None]

    def at(t: float) -> tuple[np.ndarray, np.ndarray]:
        """Return e (1 - q_y) / (k - 1) and P(y) at a temperature (shares, n)."""
        own = np.asarray(softmax(logs / t))[rows, labels]
        by_error = e * (1.0 - own) / (k - 1)
        return by_error, np.maximum((1.0 - e) * own + by_error, TINY)

    evidence = []
    for t in TEMPERATURES:
        prior = (RIGHT - 1.0) * np.log1p(-SHARES) - 0.5 * (np.log(t) / SPREAD) ** 2
        evidence.append(np.log(at(t)[1]).sum(axis=1) + prior)
    weights = np.asarray(softmax(np.concatenate(evidence)[None])).reshape(len(TEMPERATURES), -1)
    wrong = np.zeros(n)
    for t, some in zip(TEMPERATURES, weights, strict=True):  # again: all at once would take 40 arrays (n,)
        by_error, likelihood = at(t)
        wrong += some @ (by_error / likelihood)
    return wrong


def _without(posterior: Posterior, n: int, k: int, said: Evidence | None = None) -> np.ndarray:
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
    training: TrainingSet, learner: Learner, evidence: AssessmentLabels, left: np.ndarray, now: np.ndarray
) -> dict[str, Any]:
    """Return the accuracy gained from the last fifth of the labels, if it can be computed.

    Labels that the model foretold do not count: confirmations and near copies bring nothing, whatever other
    labels would bring. The gain cannot be computed if a fine-tuned encoder was trained on those labels, since
    they cannot be left out. Nor can it if the model learns from suggestions: training without the last labels
    would measure their sources again.
    """
    labels = training.labels()
    taught = [i for i, label in labels.items() if not _is_foretold(i, training.columns[label], evidence)]
    taught.sort(key=lambda item: evidence.given.get(item, 0))
    last = {*taught[-max(10, len(taught) // 5) :]}
    kept = {item: label for item, label in labels.items() if item not in last}
    if (
        training.suggestions
        or len(set(kept.values())) < 2
        or not evidence.cross_fitted.keys().isdisjoint(last)
    ):
        return {}
    features, gone = learner.pool.features, training.ruled_out()
    then_trained = train(features, kept, training.n_classes, learner.names, ruled_out=gone, tol=CLASSIFIES)
    mean = np.asarray(then_trained.mean)
    then = softmax((learner.pool.rows(left) @ mean)[:, : training.n_classes])
    guess = now.argmax(axis=1)
    rows = np.arange(len(left))
    return {"gain": float(np.mean(now[rows, guess] - now[rows, then.argmax(axis=1)])), "without": len(last)}


def _is_foretold(item: int, number: int, evidence: AssessmentLabels) -> bool:
    """Return whether the model was sure of an item's class before; random checks always count."""
    guess, sure = evidence.guesses_before.get(item, (-1, 0.0))
    return guess == number and sure >= FORETOLD and item not in evidence.drawn
