"""Scores for several classes per item: the information of an answer, and a score that favours rare classes.

n instances, k classes; f (n, k) logits at the mean, s (n, 1) or (n, k) their variances, p = sigmoid(f).
    class_wise    sum_c w_c p_c (1 - p_c),  w_c = 1 / (1 + labels of class c)
A plain sum favours instances uncertain in common classes. The weights give more influence to classes with
few labels.
"""

import math
from typing import Any

import numpy as np

from everylabel.selection.pool import PoolView

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(
    9
)  # Gauss-Hermite average over a standard normal, exact to degree 17
WEIGHTS = WEIGHTS / math.sqrt(2.0 * math.pi)


def information(logits: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return the mutual information (n, k) of each class's answer and logit, in nats.

    It is ent(E p) - E ent(p), with ent the entropy of an answer.
    """
    spread = np.sqrt(np.maximum(variances, 0.0))
    mean, apart = np.zeros(logits.shape), np.zeros(logits.shape)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        f = logits + node * spread
        p = 1.0 / (1.0 + np.exp(-np.clip(f, -60.0, 60.0)))
        mean += weight * p
        apart += weight * (np.logaddexp(0.0, f) - p * f)
    inside = np.clip(mean, 1e-300, 1.0 - 1e-16)
    return np.asarray(-inside * np.log(inside) - (1.0 - inside) * np.log1p(-inside) - apart)


def class_wise(pool: PoolView, idx: np.ndarray, rng: Any = None) -> np.ndarray:
    """Return the score class_wise of the module docstring."""
    labels = np.asarray(pool.labels[pool.labelled_idx])
    several = pool.multi_label
    counts = np.nansum(labels, axis=0) if several else np.bincount(labels, minlength=pool.n_classes)
    p = pool.probs(idx)
    return np.asarray((p * (1.0 - p)) @ (1.0 / (1.0 + counts)))
