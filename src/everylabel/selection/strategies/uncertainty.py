"""Uncertainty sampling at the mean: least confident, margin and entropy (Settles, 2009)."""

from typing import Any

import numpy as np

from everylabel.selection.pool import Pool
from everylabel.selection.strategies.strategy import TIE, best
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
    if _loop_over_all(pool, idx):
        return -_margins(pool, np.ones(len(pool), bool), False)[idx]
    probs = np.partition(pool.probs(idx), -2, axis=1)
    return probs[:, -2] - probs[:, -1]


def narrowest(pool: Pool, idx: np.ndarray) -> np.ndarray:
    """Return the position of the smallest margin; the normaliser is summed only where it can still win."""
    if not _loop_over_all(pool, idx):
        return best(margin(pool, idx, None), 1)
    usable = np.zeros(len(pool), bool)
    usable[idx] = True
    margins = _margins(pool, usable, True)
    return np.searchsorted(idx, [np.argmax(margins <= margins.min() + TIE)])


def _loop_over_all(pool: Pool, idx: np.ndarray) -> bool:
    logits = pool.cache.logits
    return 2 * len(idx) > logits.shape[1] and len(logits) > 1 and worth_compiling(logits.size)


def _margins(pool: Pool, usable: np.ndarray, one: bool) -> np.ndarray:
    loops, logits = compiled("pool.loops"), pool.cache.logits
    out = np.empty(len(pool), logits.dtype)
    share(lambda start, stop: loops.margins(logits, usable, one, out, start, stop), len(out))  # type: ignore
    return out
