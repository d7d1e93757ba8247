"""Train the head on people's labels and on suggestions, which are weighted soft targets.

For an item without a label by people, s_j is the suggestion of source j, theta_j the confusion matrix of j.
    q ~ softmax(h' mean) prod_j theta_j[:, s_j]            head and sources combined            (E-step)
    mean = argmin  sum over people's labels of -log p_y
                 + w sum over suggestions of -sum_c q_c log p_c  +  prior                       (M-step)
    w = the larger of PER_ODDS * right to wrong, of the item's best source, and PER_PRIOR * prior_precision,
        kept in [LIGHTEST, HEAVIEST]
ROUNDS of both, starting from the head trained on people's labels. This is EM with the class as the hidden
variable (Raykar et al. 2010). Only people's labels determine the confusion matrices, so the head cannot
confirm a source by itself. The gradient of a soft target is p - q: zero if no source suggests anything. A
source that the labels do not support (probability of being useless above USELESS_FROM) is left out.

A score compares one suggestion of a source with its others. The checks decide how informative scores are:
    log odds of being right = a + b logit(score),     a, b fitted with the prior b ~ N(0, SLOPE^2)
and the odds of the suggested class are multiplied by the item's odds relative to the source's mean. A
person's answer replaces the suggestions for its item.

Measured at 25 to 200 labels on digits, TREC-6, MPQA, DBpedia-14 and Banking-77, one or two draws each. With
many classes, a weight of .05 is best for sources that are right in 60 to 75 % of cases, and .1 to .2 for
90 %. With two classes, where the prior is stronger, .05 to .2 is best depending on the set, and
cross-validation cannot determine it. A weight of 1 costs up to 16 points. After one round the head is up to
25 points worse than after four. An E-step by heads of other folds changes the accuracy by a point up or down
at twice the time. `benchmarks/sources.py` measures the gain.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.core.arrays import log_softmax, softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.core.updates.partial import note_shares
from everylabel.labelling.model.training import RuledOut, in_order
from everylabel.labelling.sources.reliability import (
    CHOSEN,
    USELESS,
    Confusion,
    confusion,
    count,
    label_shares,
)
from everylabel.labelling.state.types import Suggestions
from everylabel.models.names import NameRows
from everylabel.models.scaling import suited_precision
from everylabel.selection.pool.features import Scaled

PER_ODDS, PER_PRIOR = 1 / 80, 1 / 20  # weight of an item with suggestions, relative to a label by people
LIGHTEST, HEAVIEST = 0.05, 0.2
ROUNDS = 5  # EM rounds
USELESS_FROM = 0.8  # probability of being useless above which a source does not teach
FEW = 5  # labels in common below which a source is not measured but assumed
AT_ITS_WORD = 0.5  # accuracy beyond chance that is assumed of a source without measurements
SLOPE = 0.5  # standard deviation of the prior on b
MOST = 20_000  # maximum number of items with suggestions that the head is trained on
FOLDS = 5  # folds of labels: confusion matrices are measured on the others
HEADS, SPOKEN = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0), (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)  # factors of `Balance`
WIDTH = 0.7  # standard deviation of the prior on the logarithm of a head's factor
IMPOSSIBLE = -1e3  # logarithm of a probability
NEARLY, EDGE = 1e-3, 0.01  # tolerance of all trainings except the last; distance of scores from 0 and 1


class SoftTargets(NamedTuple):
    """Items without a label by people that the head learns from."""

    items: np.ndarray  # (m,)
    probs: np.ndarray  # (m, k)
    weights: np.ndarray  # (m,)


class Taught(NamedTuple):
    """A head trained on labels and suggestions."""

    mean: np.ndarray  # (d + 1, k)
    targets: SoftTargets | None  # None if no source teaches
    confusions: dict[str, Confusion]


def measure(
    suggestions: Suggestions,
    labels: Mapping[int, int],
    k: int,
    drawn: Mapping[int, float] | None = None,
    useless: float = USELESS,
) -> Confusion:
    """Return a source's confusion matrix, measured against people's labels (item -> column).

    drawn : weights of items that were drawn at random; others count CHOSEN. None: all were drawn.
    """
    shares = label_shares(suggestions.classes, k)
    known = [(i, labels[i]) for i in suggestions.items.tolist() if i in labels]
    if len(known) < FEW:
        return Confusion(AT_ITS_WORD * np.eye(k) + (1.0 - AT_ITS_WORD) * shares, USELESS)
    both = np.isin(suggestions.items, [i for i, _ in known])
    weights = np.array([1.0 if drawn is None else drawn.get(i, CHOSEN) for i, _ in known])
    truth = np.array([y for _, y in known])
    return confusion(count(truth, suggestions.classes[both], k, weights), shares, useless)


def teach(
    features: "np.ndarray | Scaled",
    labels: Mapping[int, int],
    sources: Sequence[Suggestions],
    n_classes: int,
    *,
    names: NameRows | None = None,
    drawn: Mapping[int, float] | None = None,
    ruled_out: RuledOut = MappingProxyType({}),
    tol: float = 1e-8,
) -> Taught:
    """Return the head trained on people's labels (row -> column), class names and suggestions.

    ruled_out : row without a label -> columns that people ruled out; such a row weighs as much as a label
    """
    k = max(1, n_classes)
    confusions = {one.source: measure(one, labels, k, drawn) for one in sources}
    x, y, weights = _rows(features, labels, names)
    precision = suited_precision(k)
    mean = np.zeros((features.shape[1] + 1, k))
    if len(y):
        mean = fit_map(x, y, k, precision, weights=weights, tol=tol)
    heard = [one for one in sources if len(one.items) and confusions[one.source].useless <= USELESS_FROM]
    items, said = evidence(heard, confusions, labels, k, ruled_out)
    if not len(items):
        return Taught(mean, None, confusions)
    more = features[items].astype(np.float64)
    design, certain = np.concatenate([x, more]), np.eye(k)[y]
    light = _weights(heard, confusions, items, np.bincount(y, minlength=k) + 1.0, PER_PRIOR * precision)
    light[np.isin(items, list(ruled_out))] = 1.0
    weights = np.concatenate([weights, light])
    for i in range(ROUNDS):
        q = np.asarray(softmax(more @ mean[:-1] + mean[-1] + said))
        accuracy = tol if i == ROUNDS - 1 else NEARLY
        both = np.concatenate([certain, q])
        mean = fit_map(design, both, k, precision, weights=weights, init=mean, soft=True, tol=accuracy)
    return Taught(mean, SoftTargets(items, q, light), confusions)


def posterior_of(
    taught: Taught, features: "np.ndarray | Scaled", labels: Mapping[int, int], names: NameRows | None = None
) -> Posterior:
    """Return the posterior of a taught head, with the curvature and data of everything it was trained on.

    Later labels are best learned by second-order steps. They use the full curvature in the covariance and
    take no longer than without suggestions. (Exact updates with the suggestions as a linear term took two to
    seven times as long, and were no better after 20 labels on three sets.)
    """
    x, y, weights = _rows(features, labels, names)
    precision = suited_precision(taught.mean.shape[1])
    posterior = laplace(taught.mean, x, prior_precision=precision, weights=weights, labels=y)
    if taught.targets is None:
        return posterior
    items, probs, light = taught.targets
    more = features[items].astype(np.float64)
    rows, every = np.concatenate([x, more]), np.concatenate([weights, light])
    whole = laplace(taught.mean, rows, prior_precision=precision, weights=every, keep_data=False)
    return note_shares(whole.replace(data=posterior.data), more, probs, light)


def train_with_suggestions(
    features: "np.ndarray | Scaled",
    labels: Mapping[int, int],
    none: Sequence[int],
    sources: Sequence[Suggestions],
    n_classes: int,
    names: NameRows | None = None,
    *,
    drawn: Mapping[int, float] | None = None,
    ruled_out: RuledOut = MappingProxyType({}),
) -> Posterior:
    """Return the posterior over the classes only, as `train_with_none` does, taught by suggestions, too."""
    k = n_classes + bool(none)
    all_labels = {**labels, **dict.fromkeys(none, n_classes)}
    taught = teach(features, all_labels, sources, k, names=names, drawn=drawn, ruled_out=ruled_out)
    x, y, weights = _rows(features, labels, names)
    mean = taught.mean[:, :n_classes]
    return laplace(mean, x, prior_precision=suited_precision(k), weights=weights, labels=y)


def evidence(
    sources: Sequence[Suggestions],
    confusions: Mapping[str, Confusion],
    labels: Mapping[int, int],
    k: int,
    ruled_out: RuledOut = MappingProxyType({}),
) -> tuple[np.ndarray, np.ndarray]:
    """Return at most MOST items that people have not labelled, and log P(suggestions | class) (m, k)."""
    found = [one.items for one in sources]
    items = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
    items = items[~np.isin(items, list(labels))]
    if len(items) > MOST:
        items = items[np.linspace(0, len(items) - 1, MOST).astype(np.int64)]
    items = np.union1d(items, np.array([i for i in ruled_out if i not in labels], np.int64))
    said = said_of(items, sources, confusions, labels, k)
    for row in np.flatnonzero(np.isin(items, list(ruled_out))).tolist():
        said[row, list(ruled_out[int(items[row])])] = IMPOSSIBLE
    return items, said


def said_of(
    items: np.ndarray,
    sources: Sequence[Suggestions],
    confusions: Mapping[str, Confusion],
    labels: Mapping[int, int],
    k: int,
) -> np.ndarray:
    """Return log P(suggestions | class) (m, k) of ascending items; zeros without suggestions."""
    said = np.zeros((len(items), k))
    for one in sources:
        some = np.isin(one.items, items)
        at, classes = np.searchsorted(items, one.items[some]), one.classes[some]
        said[at] += np.log(confusions[one.source].likelihood(classes))
        said[at, classes] += _by_score(one, labels)[some]
    return said


class Balance(NamedTuple):
    """Factors on the logits of the head and on the sources' evidence, for items with suggestions."""

    head: float = 1.0
    sources: float = 1.0

    def probabilities(self, logits: np.ndarray, said: np.ndarray) -> np.ndarray:
        """Return class probabilities (m, k) from head and sources combined."""
        return np.asarray(softmax(self.head * np.asarray(log_softmax(logits)) + self.sources * said))


def balance(
    posterior: Posterior, labels: Mapping[int, int], sources: Sequence[Suggestions], k: int
) -> Balance:
    """Return the factors that maximise the probability of people's labels, each label left out.

    posterior : from `posterior_of`. Trained on soft targets, its head is less sure than it could be, and
        sources err where the head is unsure, too: without factors, the sources would count too much.
    """
    items, y = in_order(labels)
    logs = np.asarray(log_softmax(np.asarray(leave_one_out(posterior))[: len(y), :k]))
    said = np.zeros((len(y), k))
    fold = np.arange(len(y)) % FOLDS
    for b in range(FOLDS):
        others = dict(zip(items[fold != b].tolist(), y[fold != b].tolist(), strict=True))
        confusions = {one.source: measure(one, others, k) for one in sources}
        said[fold == b] = said_of(items[fold == b], sources, confusions, others, k)
    grid = [(head, spoken) for head in HEADS for spoken in SPOKEN]
    fits = [
        np.asarray(log_softmax(head * logs + spoken * said))[np.arange(len(y)), y].sum()
        - 0.5 * (np.log(head) / WIDTH) ** 2
        for head, spoken in grid
    ]
    share = np.exp(np.array(fits) - max(fits))
    head, spoken = (share / share.sum()) @ np.array(grid)
    return Balance(float(head), float(spoken))


def _weights(
    sources: Sequence[Suggestions],
    confusions: Mapping[str, Confusion],
    items: np.ndarray,
    classes: np.ndarray,
    least: float,
) -> np.ndarray:
    """Return the weight of each item by its most reliable source; classes : counts (k,)."""
    weights = np.full(len(items), max(least, LIGHTEST))
    for one in sources:
        odds = confusions[one.source].odds(classes / classes.sum(), label_shares(one.classes, len(classes)))
        at = np.flatnonzero(np.isin(items, one.items))
        weights[at] = np.maximum(weights[at], min(PER_ODDS * odds, HEAVIEST))
    return weights


def _rows(
    features: "np.ndarray | Scaled", labels: Mapping[int, int], names: NameRows | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, columns and weights of people's labels and class names together."""
    idx, y = in_order(labels)
    x = features[idx].astype(np.float64)
    return (x, y, np.ones(len(idx))) if names is None else names.together_with(x, y)


def _by_score(one: Suggestions, labels: Mapping[int, int]) -> np.ndarray:
    """Return log odds (m,) of the suggested classes by their scores, centred at 0; zeros without scores."""
    if one.scores is None or np.isnan(one.scores).all():
        return np.zeros(len(one.items))
    given = np.clip(np.where(np.isnan(one.scores), np.nanmedian(one.scores), one.scores), EDGE, 1.0 - EDGE)
    size = np.log(given / (1.0 - given))
    size = (size - size.mean()) / max(float(size.std()), 1e-9)
    known = np.flatnonzero(np.isin(one.items, list(labels)))
    right = np.array([labels[int(i)] == c for i, c in zip(one.items[known], one.classes[known], strict=True)])
    level = slope = 0.0
    for _ in range(20):  # Newton's method for level and slope; ten steps are enough
        p = 1.0 / (1.0 + np.exp(-(level + slope * size[known])))
        bend = p * (1.0 - p)
        rows = np.column_stack([np.ones(len(known)), size[known]])
        hessian = (rows.T * bend) @ rows + np.diag([0.1, SLOPE**-2])
        pull = rows.T @ (right - p) - np.array([0.1 * level, slope * SLOPE**-2])
        level, slope = np.array([level, slope]) + np.linalg.solve(hessian, pull)
    return np.asarray(slope * size)
