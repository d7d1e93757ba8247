"""Uncertainty sampling at the mean: least confident, margin and entropy (Settles, 2009)."""

from typing import Any

import numpy as np

from everylabel.selection.pool import Pool
from everylabel.selection.threads import compiled, share, worth_compiling


def least_confident(pool: Pool, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return 1 - max_y p_y."""
    return 1.0 - pool.probs(idx).max(axis=1)


def entropy(pool: Pool, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return -sum_y p_y log p_y."""
    f = pool.logits(idx)
    f = f - f.max(axis=1, keepdims=True)
    e = np.exp(f)
    total = e.sum(axis=1)
    return np.log(total) - np.sum(e * f, axis=1) / total


def margin(pool: Pool, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return -(p_first - p_second), by a compiled loop over the whole cache where that is large."""
    logits = pool.cache.logits
    if 2 * len(idx) > logits.shape[1] and len(logits) > 1 and worth_compiling(logits.size):
        loops, out = compiled("loops"), np.empty(logits.shape[1], logits.dtype)
        share(lambda start, stop: loops.margins(logits, out, start, stop), len(out))  # type: ignore[union-attr]
        return -(out if len(idx) == len(out) else out[idx])
    probs = np.partition(pool.probs(idx), -2, axis=1)
    return probs[:, -2] - probs[:, -1]
