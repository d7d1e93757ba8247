"""The probability that a label is wrong, from the model without that label.

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

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.arrays import softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior
from everylabel.labelling.model.learner import fit
from everylabel.labelling.model.training import RuledOut, in_order, targets
from everylabel.labelling.sources.evidence import Evidence
from everylabel.labelling.state.types import ClassSet, Value
from everylabel.models.class_names import NameRows
from everylabel.selection.pool.features import LazyScaled

TEMPERATURES = np.array([0.5, 0.7, 1.0, 1.4, 2.0, 2.8])
SHARES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25])  # grid of e
SPREAD = 0.4
RIGHT = 20.0
USUAL_SHARE = 20.0  # answers that the share of "yes" over all classes counts for
MIXED = np.linspace(0.0, 1.0, 11)  # grid of m
LIKELY = 0.3  # a label is shown from this probability on
TINY = 1e-12


class LeftOut(NamedTuple):
    """The model's verdict on a labelled item with its own label left out."""

    label: Value
    own: float  # probability of the label
    guess: Value  # in a multi-label project the label with its most doubtful class changed
    wrong: float  # probability that the label is wrong


def left_out(
    features: np.ndarray | LazyScaled,
    labels: Mapping[int, Any],
    columns: Sequence[int],
    names: NameRows | None = None,
    ruled_out: RuledOut = MappingProxyType({}),
    multi_label: bool = False,
    **sources: Any,
) -> Mapping[int, LeftOut]:
    """Return the verdict on each label by a model trained without it; empty while all have one class.

    labels : column of each item, or its `ClassSet` of columns; columns : class of each column; the other
        arguments are those of `fit`
    """
    if len(set(labels.values())) < (1 if multi_label else 2):
        return {}
    fitted = fit(
        features, labels, len(columns), names, ruled_out=ruled_out, multi_label=multi_label, **sources
    )
    without = left_out_probabilities(fitted.posterior, len(labels), fitted.evidence)
    return (set_verdicts if multi_label else verdicts_on)(labels, without, columns)


def left_out_probabilities(posterior: Posterior, n: int, evidence: Evidence | None = None) -> np.ndarray:
    """Return the probabilities (n, k) of the first n labelled items, each with its own label left out.

    evidence : of suggestions, by sources that were measured without the label, too
    """
    logits = np.asarray(leave_one_out(posterior))[:n]
    logits = logits if evidence is None else logits + evidence.left_out
    return np.asarray(LIKELIHOODS[posterior.likelihood].link(logits))


def verdicts_on(labels: Mapping[int, int], without: np.ndarray, columns: Sequence[int]) -> dict[int, LeftOut]:
    """Return the verdict on each label, from probabilities (n, k) without it; arguments as in `left_out`."""
    (idx, truth), numbers = in_order(labels), np.array(columns)
    own, guess = without[np.arange(len(idx)), truth], numbers[without.argmax(axis=1)]
    values = (each.tolist() for each in (idx, numbers[truth], own, guess, probably_wrong(without, truth)))
    return {item: LeftOut(*verdict) for item, *verdict in zip(*values, strict=True)}


def set_verdicts(
    labels: Mapping[int, ClassSet], without: np.ndarray, columns: Sequence[int]
) -> dict[int, LeftOut]:
    """Return the verdict on each item's most doubtful answer; each pair of item and class is a yes or no."""
    idx, truth = targets(labels, len(columns), True)
    known, wrong, yes = ~np.isnan(truth), np.zeros(truth.shape), with_shares(without, truth)
    pairs = np.stack([1.0 - yes[known], yes[known]], axis=1)
    wrong[known] = probably_wrong(pairs, truth[known].astype(np.int64))
    numbers, found = dict(enumerate(columns)), {}
    for row, (item, column) in enumerate(zip(idx.tolist(), wrong.argmax(axis=1).tolist(), strict=True)):
        label, doubted, own = labels[item].numbered(numbers), (columns[column],), float(yes[row, column])
        if truth[row, column] == 1.0:
            guess = label.then(ClassSet(absent=doubted))
        else:
            guess, own = label.then(ClassSet(present=doubted)), 1.0 - own
        found[item] = LeftOut(label, own, guess, float(wrong[row, column]))
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
