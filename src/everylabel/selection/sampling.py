"""What strategies draw: Monte Carlo members of the posterior with their predictions, and instances to try.

m members, n instances, k classes: probs (m, n, k) in single precision.
"""

from collections.abc import Iterator

import numpy as np

from everylabel.core.arrays import CHUNK, to_numpy
from everylabel.core.softmax import softmax
from everylabel.core.updates.monte_carlo import sample
from everylabel.selection.pool import PoolView


class Members:
    """Weights drawn once from the pool's posterior."""

    def __init__(self, pool: PoolView, m: int, rng: np.random.Generator) -> None:
        self.pool = pool
        self.weights = to_numpy(sample(pool.posterior, m, rng).members).astype(np.float32)  # (m, d, k)
        self.binary = pool.posterior.likelihood == "binary"

    def probs(self, idx: np.ndarray) -> np.ndarray:
        """Return every member's class probabilities (m, n, k)."""
        f = self.pool.rows(idx, np.float32) @ self.weights
        if self.binary:
            f = np.concatenate([np.zeros_like(f), f], axis=2)
        return np.asarray(softmax(f))

    def chunks(self, idx: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of idx and their probabilities."""
        size = max(1, CHUNK // (len(self.weights) * self.pool.n_classes))
        for start in range(0, len(idx), size):
            yield slice(start, start + size), self.probs(idx[start : start + size])


def entropies(probs: np.ndarray) -> np.ndarray:
    """Return the entropy along the last axis; 0 log 0 is 0."""
    return -np.sum(probs * np.log(np.maximum(probs, 1e-30)), axis=-1)


def candidates(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return which of idx are tried: all, or half by margin and half drawn from the others."""
    if len(idx) <= n:
        return np.arange(len(idx))
    narrow = pool.smallest_margins(idx, n // 2)
    others = rng.choice(len(idx) - len(narrow), n - n // 2, replace=False)  # counted without the narrow ones
    skipped = np.sort(narrow) - np.arange(len(narrow))
    return np.r_[narrow, others + np.searchsorted(skipped, others, side="right")]
