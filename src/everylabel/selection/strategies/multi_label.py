"""Made for several classes per item: what an answer tells, and a score that has regard for rare classes.

n instances, k classes; f (n, k) logits at the mean, s (n, 1) or (n, k) their variances, p = sigmoid(f).
    class_wise    sum_c w_c p_c (1 - p_c),  w_c = 1 / (1 + labels of class c)
A plain sum goes where the common classes are unsure. The weight lets each class ask for its own instances,
the more the fewer it has.
"""

import math
from typing import Any

import numpy as np

from everylabel.selection.pool import PoolView

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(
    9
)  # the average over a standard normal, exact to degree 17
WEIGHTS = WEIGHTS / math.sqrt(2.0 * math.pi)


def information(logits: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return what each class's answer tells about its logit (n, k): H[E p] - E H[p], in nats."""
    spread = np.sqrt(np.maximum(variances, 0.0))
    mean, apart = np.zeros(logits.shape), np.zeros(logits.shape)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        f = logits + node * spread
        p = 1.0 / (1.0 + np.exp(-np.clip(f, -60.0, 60.0)))
        mean += weight * p
        apart += weight * (np.logaddexp(0.0, f) - p * f)
    inside = np.clip(mean, 1e-300, 1.0 - 1e-16)
    return np.asarray(-inside * np.log(inside) - (1.0 - inside) * np.log1p(-inside) - apart)


def class_wise(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return the module's head's score."""
    labels = np.asarray(pool.labels[pool.labelled_idx])
    if pool.posterior.multi_label:
        counts = np.nansum(labels, axis=0)
    else:
        counts = np.bincount(labels, minlength=pool.n_classes)
    p = pool.probs(idx)
    return np.asarray((p * (1.0 - p)) @ (1.0 / (1.0 + counts)))
