"""The sources' evidence about the class of an item, and predictions that combine it with the head.

For an item x with suggestions s_j of sources j, theta_j the confusion matrix of j by people's labels,
    p(y | x, s) prop. to p(y | x) (prod_j theta_j[y, s_j])^g
    g = (a + 1) / (a + b + 2),   a, b the labels that the sources alone, or the head alone, predict rightly
p is of the head without the item's own suggestions (`joint_training.without_own`). A source that gives a
probability v for each class counts as sum_s v[s] theta_j[y, s]. a and b count labels on which head
(leave-one-out) and sources (confusion matrices by five folds) differ; items
that a strategy chose count CHOSEN.
With g = 1 the product is right if head and sources err independently, but sources err where the head is
unsure. No other g was clearly better: `benchmarks/sources.py`.

A score compares one suggestion of a source with its others. The labels decide how informative scores are:
    log odds of being right = a + b z,     z the standardised logit of the score, b ~ N(0, SLOPE^2)
and the odds of the suggested class are multiplied by the item's odds relative to the source's mean.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from everylabel.core import Posterior
from everylabel.core.leave_one_out import leave_one_out
from everylabel.labelling.model.training import in_order
from everylabel.labelling.quality.accuracy import logistic
from everylabel.labelling.sources.reliability import (
    CHOSEN,
    USELESS,
    Confusion,
    confusion,
    count,
    label_shares,
)
from everylabel.labelling.state.types import Suggestions

FEW = 5  # with fewer labelled suggestions, the confusion matrix of a source is assumed
AT_ITS_WORD = 0.5  # assumed accuracy beyond chance of such a source
SLOPE = 0.5  # standard deviation of the prior on b
FOLDS = 5  # folds of labels: confusion matrices are measured on the others
EDGE = 0.01  # scores are clipped to [EDGE, 1 - EDGE]


class SoftTargets(NamedTuple):
    """Items without a label by people that the head learns from."""

    items: np.ndarray  # (m,)
    probs: np.ndarray  # (m, k)
    weights: np.ndarray  # (m,)
    change: np.ndarray  # (m, k) of the logits, if the item were left out


class Evidence(NamedTuple):
    """The change of an item's logits by its suggestions, for all items that have suggestions."""

    items: np.ndarray  # (m,) ascending
    logs: np.ndarray  # (m, k) float32
    left_out: np.ndarray  # (n, k) of the labelled items, by sources measured without the label

    def combined(self, items: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Return logits (n, k) of items, those with suggestions combined with the evidence."""
        at = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        rows = np.flatnonzero(self.items[at] == items)
        logs, found = self.logs[at[rows]], np.array(logits, np.float64)
        found[rows, : logs.shape[1]] += logs
        found[rows, logs.shape[1] :] += logs.mean(axis=1, keepdims=True)  # they say nothing of a new class
        return found


def measure(
    suggestions: Suggestions,
    labels: Mapping[int, int],
    k: int,
    drawn: Mapping[int, float] | None = None,
    useless: float = USELESS,
    targets: SoftTargets | None = None,
) -> Confusion:
    """Return a source's confusion matrix, measured against people's labels (item -> column) and targets.

    drawn : weights of items that were drawn at random; others count CHOSEN. None: all were drawn.
    """
    shares = label_shares(suggestions.classes, k)
    known = [(i, labels[i]) for i in suggestions.items.tolist() if i in labels]
    if len(known) < FEW:
        return Confusion(AT_ITS_WORD * np.eye(k) + (1.0 - AT_ITS_WORD) * shares, USELESS)
    both = np.isin(suggestions.items, [i for i, _ in known])
    weights = np.array([1.0 if drawn is None else drawn.get(i, CHOSEN) for i, _ in known])
    truth = np.array([y for _, y in known])
    counts = count(truth, suggestions.classes[both], k, weights)
    if targets is not None:
        _, at, there = np.intersect1d(suggestions.items, targets.items, return_indices=True)
        counts += count(targets.probs[there], suggestions.classes[at], k, targets.weights[there])
    return confusion(counts, shares, useless)


def evidence_of(
    items: np.ndarray,
    sources: Sequence[Suggestions],
    confusions: Mapping[str, Confusion],
    labels: Mapping[int, int],
    k: int,
) -> np.ndarray:
    """Return log P(suggestions | class) (m, k) of ascending items; zeros without suggestions."""
    logs = np.zeros((len(items), k))
    for one in sources:
        some = np.isin(one.items, items)
        at, classes = np.searchsorted(items, one.items[some]), one.classes[some]
        if one.probs is not None:
            logs[at] += np.log(confusions[one.source].mixed(one.probs[some]))
            continue
        logs[at] += np.log(confusions[one.source].likelihood(classes))
        logs[at, classes] += _by_score(one, labels)[some]
    return logs


def weigh(
    posterior: Posterior,
    labels: Mapping[int, int],
    sources: Sequence[Suggestions],
    confusions: Mapping[str, Confusion],
    k: int,
    drawn: Mapping[int, float] | None = None,
    targets: SoftTargets | None = None,
) -> Evidence | None:
    """Return the evidence of sources, raised to the power g; None without sources.

    posterior : of the head, with the labels' data first (`joint_training.TrainedHead`)
    drawn : as in `measure`
    targets : what the head has learned from the suggestions
    """
    labelled, y = in_order(labels)
    if not sources:
        return None
    left_out, fold = np.zeros((len(y), k)), np.arange(len(y)) % FOLDS
    for b in range(FOLDS):
        others = dict(zip(labelled[fold != b].tolist(), y[fold != b].tolist(), strict=True))
        without = {one.source: measure(one, others, k, drawn) for one in sources}
        left_out[fold == b] = evidence_of(labelled[fold == b], sources, without, others, k)
    power = 0.5
    if len(y):
        weights = np.array([1.0 if drawn is None else drawn.get(i, CHOSEN) for i in labelled.tolist()])
        weights = weights * left_out.any(axis=1)  # has suggestions
        head = np.asarray(leave_one_out(posterior))[: len(y), :k].argmax(axis=1)
        guess = left_out.argmax(axis=1)
        by_sources, by_head = (weights @ ((one == y) & (head != guess)) for one in (guess, head))
        power = float((by_sources + 1.0) / (by_sources + by_head + 2.0))
    items = np.unique(np.concatenate([one.items for one in sources]))
    logs = power * evidence_of(items, sources, confusions, labels, k)
    if targets is not None:
        _, at, there = np.intersect1d(items, targets.items, return_indices=True)
        logs[at] += targets.change[there]
    return Evidence(items, logs.astype(np.float32), power * left_out)


def _by_score(one: Suggestions, labels: Mapping[int, int]) -> np.ndarray:
    """Return log odds (m,) of the suggested classes by their scores, centred at 0; zeros without scores."""
    if one.scores is None or np.isnan(one.scores).all():
        return np.zeros(len(one.items))
    given = np.clip(np.where(np.isnan(one.scores), np.nanmedian(one.scores), one.scores), EDGE, 1.0 - EDGE)
    size = np.log(given / (1.0 - given))
    size = (size - size.mean()) / max(float(size.std()), 1e-9)
    known = np.flatnonzero(np.isin(one.items, list(labels)))
    right = np.array([labels[int(i)] == c for i, c in zip(one.items[known], one.classes[known], strict=True)])
    rows, prior = np.column_stack([np.ones(len(known)), size[known]]), np.array([0.1, SLOPE**-2])
    (_, slope), _ = logistic(rows, right.astype(float), np.ones(len(known)), np.zeros(2), prior)
    return np.asarray(slope * size)
