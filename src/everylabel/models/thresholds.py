"""Decision thresholds for several classes per item: the probability from which a class is predicted.

n instances, k classes; p_ic probabilities. Over a pool without labels, the threshold of a class maximises its
expected F1 (or minimises expected cost), where S holds the instances from the threshold on:
    F1 = 2 sum_{i in S} p_ic / (|S| + sum_i p_ic)
Labels that a strategy chose are no sample of the pool: rare classes are too frequent among them. Thresholds
by such labels cost up to 12 points of macro F1 on texts with rare classes, against the pool's. Labelled
instances do not belong to the pool: the model is surer of their probabilities than of all others.
Given labels t_ic of a random sample, whose probabilities are by a model that has not seen them (held out, or
leave-one-out), F1 is that of the labels. With few positives the best threshold is noisy, so it is shrunk, as
a logit, towards the best one of all classes pooled:
    logit t_c = n_c / (n_c + TRUST) logit t_c,own + TRUST / (n_c + TRUST) logit t_pooled,   n_c its positives
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from everylabel.core.arrays import as_array, to_numpy
from everylabel.core.checks import check_answers, check_matrix, check_positive
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.predict import predict_proba

TRUST = 10.0  # positives at which a class's own threshold counts as much as that of all classes pooled
EDGE = 1e-4  # thresholds stay this far from 0 and 1
USUAL = 0.5  # threshold of a class about which nothing is known
CHOSEN_FROM = 10_000  # instances of a pool that choose thresholds; more change them little


def thresholds(
    probs: Any,
    labels: Any = None,
    cost: Mapping[str, float] | None = None,
    *,
    trust: float = TRUST,
) -> np.ndarray:
    """Return a decision threshold for each class (k,); predict a class if its probability is at least that.

    Parameters
    ----------
    probs : array (n, k)
        Probabilities of instances whose labels the model has not seen: a pool, held out, or by
        `leave_one_out`. Do not choose thresholds by the labels on which you report results.
    labels : array (n, k), optional
        Their answers: 1, 0 or NaN (not answered). None takes the expectation by `probs`, for a pool: best
        where a strategy chose the labelled instances, since these are no random sample.
    cost : {"miss": a, "false alarm": b}, optional
        Minimise the cost of errors: a for each class that is present and not predicted, b for each that is
        predicted and not present. None maximises F1.
    trust : float
        Positives above which a class's own threshold counts more than that of all classes pooled; without
        labels it has no effect.

    Examples
    --------
    >>> answers = np.stack([y[:300] % 2 == 0, y[:300] > 4], axis=1).astype(float)
    >>> clf = el.LaplaceClassifier().fit(x[:300], answers)
    >>> el.thresholds(clf.leave_one_out(), answers).shape
    (2,)
    >>> el.thresholds(clf.predict_proba(x)).shape  # by a pool
    (2,)
    """
    p = np.asarray(to_numpy(check_matrix(probs, "probs", axes="(n, k): a probability for each class")))
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise EverylabelError(
            f"probs runs from {p.min():g} to {p.max():g}; expected probabilities from 0 to 1"
        )
    prices, trust = _check_cost(cost), check_positive(trust, "trust", zero=True)
    if labels is None:  # each probability stands for its answer, and a pool has enough of them
        return _over_pool(p, prices)
    t = np.asarray(to_numpy(check_answers(as_array(labels, "labels"), p.shape[0], p.shape[1], p)))
    known = ~np.isnan(t)
    if not known.any():
        return np.full(p.shape[1], USUAL)
    pooled = _logit(_best(*_falling(p[known], t[known]), prices))
    found = np.full(p.shape[1], pooled)
    for c in range(p.shape[1]):
        rows = known[:, c]
        positives = float(np.sum(t[rows, c]))
        if positives:
            share = positives / (positives + trust)
            own = _logit(_best(*_falling(p[rows, c], t[rows, c]), prices))
            found[c] = share * own + (1.0 - share) * pooled
    return np.asarray(1.0 / (1.0 + np.exp(-found)))


def _over_pool(p: np.ndarray, prices: tuple[float, float] | None) -> np.ndarray:
    """Return the best threshold of each class, where each probability stands for its answer."""
    falling = (-np.sort(-column) for column in p.T)  # sorting values takes a tenth of sorting places
    found = [_best(own, own, prices) if own.any() else USUAL for own in falling]
    return np.clip(found, EDGE, 1.0 - EDGE)


def thresholds_of(posterior: Posterior, features: Any, labelled: Iterable[int] = ()) -> np.ndarray | None:
    """Return thresholds over a pool's features (m, d), on the posterior's scale; None for one class per item.

    A class without a positive label keeps a threshold of at least USUAL: its expected F1 would be best if it
    were predicted nearly everywhere.

    labelled : rows of features that the posterior has learned; they count only if there are no others
    """
    if not posterior.multi_label or not len(features):
        return None
    rows = np.asarray(features[choosing(len(features), labelled)], np.float64)
    return pool_thresholds(predict_proba(posterior, rows, method="mean"), posterior)


def choosing(n: int, labelled: Iterable[int]) -> np.ndarray:
    """Return the instances of a pool of n that choose thresholds: unlabelled ones, if there are any."""
    others = np.ones(n, bool)
    others[np.fromiter(labelled, np.int64)] = False
    left = np.flatnonzero(others) if others.any() else np.arange(n)
    return left[np.linspace(0, len(left) - 1, min(len(left), CHOSEN_FROM)).astype(np.int64)]


def pool_thresholds(probs: np.ndarray, posterior: Posterior) -> np.ndarray:
    """Return thresholds by the probabilities of `choosing`; at least USUAL for classes without a positive."""
    found = thresholds(probs)
    if posterior.data is None or not len(posterior.data):
        return found
    never = np.nansum(np.asarray(to_numpy(posterior.data.labels)), axis=0) <= 0.0
    return np.where(never, np.maximum(found, USUAL), found)


def _best(p: np.ndarray, t: np.ndarray, prices: tuple[float, float] | None) -> float:
    """Return the best threshold of falling probabilities p, half way between two successive ones."""
    hits, taken, positives = np.cumsum(t), np.arange(1, len(p) + 1), float(t.sum())
    if prices is None:
        gain = 2.0 * hits / (taken + positives)  # F1 if the first i + 1 are predicted
    else:
        gain = -prices[0] * (positives - hits) - prices[1] * (taken - hits)
    gain[:-1][p[:-1] == p[1:]] = -np.inf  # equal probabilities are predicted together
    at = int(np.argmax(gain))
    if prices is not None and gain[at] <= -prices[0] * positives:  # predicting none costs no more
        return 1.0
    return float(p[at] + (p[at + 1] if at + 1 < len(p) else 0.0)) / 2.0


def _falling(p: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-p)
    return p[order], t[order]


def _logit(p: float) -> float:
    inside = min(max(p, EDGE), 1.0 - EDGE)
    return float(np.log(inside / (1.0 - inside)))


def _check_cost(cost: Mapping[str, float] | None) -> tuple[float, float] | None:
    if cost is None:
        return None
    if not isinstance(cost, Mapping) or set(cost) != {"miss", "false alarm"}:
        raise EverylabelError(
            f"cost is {cost!r}; expected {{'miss': a, 'false alarm': b}}, what each kind of error costs"
        )
    return check_positive(cost["miss"], "cost['miss']"), check_positive(
        cost["false alarm"], "cost['false alarm']"
    )
