"""Decision thresholds for several classes per item: the probability from which a class is predicted.

n instances, k classes; p_ic probabilities by a model that has not seen the label of i (held out, or
leave-one-out), t_ic the answers. The best threshold of a class maximises F1 over its answers, or minimises
cost. With few positives it is noisy, so it is shrunk, as a logit, towards the best one of all classes pooled:
    logit t_c = n_c / (n_c + TRUST) logit t_c,own + TRUST / (n_c + TRUST) logit t_pooled,   n_c its positives
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from everylabel.core.arrays import as_array, to_numpy
from everylabel.core.checks import check_answers, check_matrix, check_positive
from everylabel.core.errors import EverylabelError
from everylabel.core.leave_one_out import leave_one_out
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior

TRUST = 10.0  # positives at which a class's own threshold counts as much as that of all classes pooled
EDGE = 1e-4  # thresholds stay this far from 0 and 1
USUAL = 0.5  # threshold of a class about which nothing is known
FOLDS = 10  # of the instances that `decide_by_others` leaves out in turn


def thresholds(
    probs: Any,
    labels: Any,
    cost: Mapping[str, float] | None = None,
    *,
    trust: float = TRUST,
) -> np.ndarray:
    """Return a decision threshold for each class (k,); predict a class if its probability is at least that.

    Parameters
    ----------
    probs : array (n, k)
        Probabilities of instances whose labels the model has not seen: held out, or by `leave_one_out`. Do
        not choose thresholds on the instances on which you report results.
    labels : array (n, k)
        Their answers: 1, 0 or NaN (not answered).
    cost : {"miss": a, "false alarm": b}, optional
        Minimise the cost of errors: a for each class that is present and not predicted, b for each that is
        predicted and not present. None maximises F1.
    trust : float
        Positives above which a class's own threshold counts more than that of all classes pooled.

    Examples
    --------
    >>> answers = np.stack([y[:300] % 2 == 0, y[:300] > 4], axis=1).astype(float)
    >>> clf = el.LaplaceClassifier().fit(x[:300], answers)
    >>> el.thresholds(clf.leave_one_out(), answers).shape
    (2,)
    """
    p = np.asarray(to_numpy(check_matrix(probs, "probs", axes="(n, k): a probability for each class")))
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise EverylabelError(
            f"probs runs from {p.min():g} to {p.max():g}; expected probabilities from 0 to 1"
        )
    t = np.asarray(to_numpy(check_answers(as_array(labels, "labels"), p.shape[0], p.shape[1], p)))
    prices = _check_cost(cost)
    trust = check_positive(trust, "trust", zero=True)
    known = ~np.isnan(t)
    if not known.any():
        return np.full(p.shape[1], USUAL)
    pooled = _logit(_best(p[known], t[known], prices))
    found = np.full(p.shape[1], pooled)
    for c in range(p.shape[1]):
        rows = known[:, c]
        positives = float(np.sum(t[rows, c]))
        if positives:
            share = positives / (positives + trust)
            found[c] = share * _logit(_best(p[rows, c], t[rows, c], prices)) + (1.0 - share) * pooled
    return np.asarray(1.0 / (1.0 + np.exp(-found)))


def left_out(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (n, k) of labelled instances, each without its own label, and the answers."""
    if posterior.data is None or not len(posterior.data):
        return np.zeros((0, posterior.n_classes)), np.zeros((0, posterior.n_classes))
    kind = LIKELIHOODS[posterior.likelihood]
    answers = posterior.data.counted(kind.targets).labels
    return np.asarray(to_numpy(kind.link(leave_one_out(posterior)))), np.asarray(to_numpy(answers))


def thresholds_of(posterior: Posterior) -> np.ndarray | None:
    """Return thresholds by the labels of a posterior, each left out in turn; None if items have one class."""
    if not posterior.multi_label:
        return None
    probs, answers = left_out(posterior)
    return thresholds(probs, answers) if len(probs) else np.full(posterior.n_classes, USUAL)


def decide_by_others(probs: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return which classes are predicted (n, k), by thresholds that other instances chose.

    An instance that had a part in choosing a threshold would flatter it.
    """
    said = np.zeros(probs.shape, bool)
    fold = np.arange(len(probs)) % FOLDS
    for out in (fold == f for f in range(min(FOLDS, len(probs)))):
        others = thresholds(probs[~out], answers[~out]) if not out.all() else USUAL
        said[out] = probs[out] >= others
    return said


def _best(p: np.ndarray, t: np.ndarray, prices: tuple[float, float] | None) -> float:
    """Return the best threshold, half way between two successive probabilities."""
    order = np.argsort(-p, kind="stable")
    p, hits = p[order], np.cumsum(t[order])
    taken, positives = np.arange(1, len(p) + 1), float(t.sum())
    if prices is None:
        gain = 2.0 * hits / (taken + positives)  # F1 if the first i + 1 are predicted
    else:
        gain = -prices[0] * (positives - hits) - prices[1] * (taken - hits)
    gain[:-1][p[:-1] == p[1:]] = -np.inf  # equal probabilities are predicted together
    at = int(np.argmax(gain))
    if prices is not None and gain[at] <= -prices[0] * positives:  # predicting none costs no more
        return 1.0
    return float(p[at] + (p[at + 1] if at + 1 < len(p) else 0.0)) / 2.0


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
