"""Sampling and clustering for strategies: Monte Carlo members of the posterior, and k-means.

m members, n instances, k classes: probs (m, n, k) in single precision. k-means runs Lloyd's iterations from
k-means++: matrix products only, in single precision.
"""

from collections.abc import Iterator

import numpy as np

from everylabel.core.arrays import CHUNK, softmax, to_numpy
from everylabel.core.updates.monte_carlo import sample
from everylabel.selection.pool import PoolView

AT_ONCE = 1 / 8  # starting points drawn together, relative to those already drawn: one product for all


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


def kmeans(rows: np.ndarray, k: int, rng: np.random.Generator, max_iter: int = 10) -> np.ndarray:
    """Return the cluster of each row; each of the k clusters has at least one row."""
    norms = np.sum(rows**2, axis=1)
    centres = rows[_plus_plus(rows, norms, k, rng)]
    cluster = np.full(len(rows), -1)
    for _ in range(max_iter):
        distances = np.sum(centres**2, axis=1) - 2.0 * (rows @ centres.T)  # without the constant |row|^2
        new = np.argmin(distances, axis=1)
        _fill_empty(new, distances[np.arange(len(rows)), new] + norms, k)
        if np.mean(new != cluster) < 0.01:
            return new
        cluster = new
        order = np.argsort(cluster, kind="stable")
        starts = np.searchsorted(cluster[order], np.arange(k))
        sums = np.add.reduceat(rows[order], starts, axis=0)
        centres = sums / np.bincount(cluster, minlength=k)[:, None].astype(rows.dtype)
    return cluster


def most_central(rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of n rows: of each of n k-means clusters the row nearest to its centre."""
    cluster = kmeans(rows, n, rng)
    centres = np.stack([rows[cluster == c].mean(axis=0) for c in range(n)])
    distances = np.sum((rows - centres[cluster]) ** 2, axis=1)
    members = (np.flatnonzero(cluster == c) for c in range(n))
    return np.asarray([some[np.argmin(distances[some])] for some in members])


def _plus_plus(rows: np.ndarray, norms: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Return k different rows to start from, drawn by squared distance to the rows already drawn."""
    chosen = np.asarray([int(rng.integers(len(rows)))])
    new, nearest = chosen, np.full(len(rows), np.inf)
    while len(chosen) < k:
        distances = norms[:, None] + norms[new] - 2.0 * (rows @ rows[new].T)
        nearest = np.minimum(nearest, np.maximum(distances.min(axis=1), 0.0))
        nearest[chosen] = 0.0
        total = np.cumsum(nearest, dtype=np.float64)
        some = min(max(1, int(AT_ONCE * len(chosen))), k - len(chosen))
        at = np.searchsorted(total, rng.random(some) * total[-1], side="right")
        new = np.setdiff1d(at[at < len(rows)], chosen)
        if total[-1] <= 0.0 or not len(new):  # fewer different rows than clusters
            new = np.setdiff1d(np.arange(len(rows)), chosen)[:1]
        chosen = np.r_[chosen, new]
    return chosen


def _fill_empty(cluster: np.ndarray, distances: np.ndarray, k: int) -> None:
    """Give each empty cluster the row that is farthest from its own centre."""
    counts = np.bincount(cluster, minlength=k)
    farthest = iter(np.argsort(-distances, kind="stable"))
    for c in np.flatnonzero(counts == 0):
        for i in farthest:
            if counts[cluster[i]] > 1:
                counts[cluster[i]] -= 1
                cluster[i] = c
                counts[c] = 1
                break
