"""Uncertainty of each instance: least confident, margin and entropy (Settles, 2009), and the variance."""

from typing import Any

import numpy as np

from everylabel.core.arrays import log_softmax
from everylabel.selection.pool import PoolView


def least_confident(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return 1 - max_y p_y."""
    return 1.0 - pool.probs(idx).max(axis=1)


def entropy(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return -sum_y p_y log p_y; with several classes per item the sum of the classes' binary entropies."""
    if pool.multi_label:
        f = pool.logits(idx)
        return np.sum(np.logaddexp(0.0, f) - pool.probs(idx) * f, axis=1)
    log_probs = log_softmax(pool.logits(idx))
    return -np.sum(np.exp(log_probs) * log_probs, axis=1)


def margin(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return -(p_first - p_second); with several classes per item of the class nearest to 1/2."""
    return -pool.margins(idx)


def variance(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return h' cov h, which is high in directions of the features with few labels (MacKay, 1992)."""
    return pool.variances(idx)
