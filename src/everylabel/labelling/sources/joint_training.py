"""Train the head on people's labels and on suggestions, which are weighted soft targets.

An item has suggestions but no label by people. s_j is the suggestion of source j for it, theta_j the
confusion matrix of j, p the head's probabilities, q the soft target that the head learns.
    q ~ softmax(f) prod_j theta_j[:, s_j],    f the head's logits without the item's own target       (E-step)
    theta_j = `confusion` of people's labels, which count 1, and of q, which counts WEIGHT
    mean = argmin  sum over people's labels of -log p_y
                 + WEIGHT sum over such items of -sum_c q_c log p_c  +  prior                         (M-step)
ROUNDS of this, starting from the head and the theta of people's labels. This is EM with the class as the
hidden variable (Raykar et al. 2010), with one difference: an item does not confirm its own target. With
w = WEIGHT, v = h' cov h and r the curvature, one for all classes,
    f = h' mean - w v / (1 - w r v) (q - p)                          (one Newton step)
This step is right for two classes and coarse for many, which was enough.
If no source suggests anything, q = p and the gradient p - q is zero. A source that the labels do not support
(probability of being useless above USELESS_FROM) is ignored. A person's answer replaces the suggestions for
its item.
How the rule was chosen: `benchmarks/sources.py`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.core.arrays import softmax
from everylabel.core.updates.partial import note_shares
from everylabel.labelling.model.training import CLASSIFIES, RuledOut, in_order
from everylabel.labelling.sources.consensus import UNLIKELY
from everylabel.labelling.sources.evidence import SoftTargets, evidence_of, measure
from everylabel.labelling.sources.reliability import Confusion
from everylabel.labelling.state.types import Suggestions
from everylabel.models.class_names import NameRows
from everylabel.models.scaling import suited_precision
from everylabel.selection.pool.features import LazyScaled

WEIGHT = 0.1  # weight of an item with suggestions, relative to a label by people
ROUNDS = 5  # EM rounds
USELESS_FROM = 0.95  # probability of being useless above which a source is ignored
MOST = 20_000  # maximum number of items with suggestions that the head is trained on
IMPOSSIBLE = -1e3  # logarithm of a probability
CLOSEST = 0.05  # least 1 - w r v, for an item that alone determines a direction


class TrainedHead(NamedTuple):
    """A head trained on labels and suggestions.

    Later labels are best learned by second-order steps. They use the full curvature in the covariance and
    take no longer than without suggestions. (Exact updates with the suggestions as a linear term took two to
    seven times as long, and were no better after 20 labels on three sets.)
    """

    posterior: Posterior  # with the curvature and data of everything it was trained on, people's labels first
    targets: SoftTargets | None  # None if no source is used
    confusions: dict[str, Confusion]
    used: tuple[Suggestions, ...] = ()  # suggestions of the sources that are not ignored

    @property
    def mean(self) -> np.ndarray:
        """The mean of the weights (d + 1, k)."""
        return np.asarray(self.posterior.mean)


def train_jointly(
    features: "np.ndarray | LazyScaled",
    labels: Mapping[int, int],
    sources: Sequence[Suggestions],
    n_classes: int,
    *,
    names: NameRows | None = None,
    drawn: Mapping[int, float] | None = None,
    ruled_out: RuledOut = MappingProxyType({}),
    tol: float = 1e-8,
) -> TrainedHead:
    """Return the head trained on people's labels (row -> column), class names and suggestions.

    ruled_out : row without a label -> columns that people ruled out; such a row weighs as much as a label
    """
    k = max(1, n_classes)
    confusions = {one.source: measure(one, labels, k, drawn) for one in sources}
    x, y, weights = rows_of(features, labels, names)
    precision = suited_precision(k)
    mean = np.zeros((features.shape[1] + 1, k))
    if len(y):
        mean = fit_map(x, y, k, precision, weights=weights, tol=tol)
    used = tuple(one for one in sources if len(one.items) and confusions[one.source].useless <= USELESS_FROM)
    items = rest_of(used, labels, ruled_out)
    if not len(items):
        posterior = laplace(mean, x, prior_precision=precision, weights=weights, labels=y)
        return TrainedHead(posterior, None, confusions)
    more = features[items].astype(np.float64)
    design, labelled = np.concatenate([x, more]), np.eye(k)[y]
    light = np.where(np.isin(items, list(ruled_out)), 1.0, WEIGHT)
    all_weights = np.concatenate([weights, light])
    logits, learned, targets = more @ mean[:-1] + mean[-1], confusions, None
    for i in range(ROUNDS):
        suggested = log_likelihood(items, used, learned, labels, k, ruled_out)
        q = np.asarray(softmax(logits + suggested))
        soft = np.concatenate([labelled, q])
        accuracy = tol if i == ROUNDS - 1 else CLASSIFIES
        mean = fit_map(design, soft, k, precision, weights=all_weights, init=mean, soft=True, tol=accuracy)
        change = without_own(mean, design, soft, all_weights, precision)[len(y) :]
        logits, targets = more @ mean[:-1] + mean[-1] + change, SoftTargets(items, q, light, change)
        learned = {s.source: measure(s, labels, k, drawn, UNLIKELY, targets) for s in used}
    data = laplace(mean, x, prior_precision=precision, weights=weights, labels=y).data
    whole = laplace(mean, design, prior_precision=precision, weights=all_weights, keep_data=False)
    posterior = note_shares(whole.replace(data=data), more, q, light)
    return TrainedHead(posterior, targets, confusions, used)


def without_own(
    mean: np.ndarray, features: np.ndarray, targets: np.ndarray, weights: np.ndarray, precision: float
) -> np.ndarray:
    """Return the change of the logits (n, k) of each row if it were left out of the training."""
    rows, k = np.column_stack([features, np.ones(len(features))]), targets.shape[1]
    p = np.asarray(softmax(rows @ mean))
    bend = weights * (p * (1.0 - p)).sum(axis=1) / max(k - 1, 1)
    cov = np.asarray(laplace(mean, features, prior_precision=precision, weights=bend, keep_data=False).cov)
    v = np.sum((rows @ cov) * rows, axis=1)
    return np.asarray(-(weights * v / np.maximum(1.0 - bend * v, CLOSEST))[:, None] * (targets - p))


def rest_of(
    sources: Sequence[Suggestions], labels: Mapping[int, int], ruled_out: RuledOut = MappingProxyType({})
) -> np.ndarray:
    """Return at most MOST items with suggestions that people have not labelled, and those they ruled out."""
    found = [one.items for one in sources]
    items = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
    items = items[~np.isin(items, list(labels))]
    if len(items) > MOST:
        items = items[np.linspace(0, len(items) - 1, MOST).astype(np.int64)]
    return np.union1d(items, np.array([i for i in ruled_out if i not in labels], np.int64))


def log_likelihood(
    items: np.ndarray,
    sources: Sequence[Suggestions],
    confusions: Mapping[str, Confusion],
    labels: Mapping[int, int],
    k: int,
    ruled_out: RuledOut = MappingProxyType({}),
) -> np.ndarray:
    """Return log P(suggestions | class) (m, k), IMPOSSIBLE for classes that people ruled out."""
    logs = evidence_of(items, sources, confusions, labels, k)
    for row in np.flatnonzero(np.isin(items, list(ruled_out))).tolist():
        logs[row, list(ruled_out[int(items[row])])] = IMPOSSIBLE
    return logs


def rows_of(
    features: "np.ndarray | LazyScaled", labels: Mapping[int, int], names: NameRows | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, columns and weights of people's labels and class names together."""
    idx, y = in_order(labels)
    x = features[idx].astype(np.float64)
    return (x, y, np.ones(len(idx))) if names is None else names.together_with(x, y)
