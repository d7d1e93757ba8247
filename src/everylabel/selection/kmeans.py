"""k-means by Lloyd's iterations with k-means++ as the start: matrix products only, in single precision.

What Typiclust and the clustered batches of the optimal look-ahead need: which cluster each row is in.
"""

import numpy as np


def kmeans(rows: np.ndarray, k: int, rng: np.random.Generator, max_iter: int = 20) -> np.ndarray:
    """Return the cluster of each row; every one of the k clusters has at least one."""
    norms = np.sum(rows**2, axis=1)
    centres = rows[_plus_plus(rows, norms, k, rng)]
    cluster = np.full(len(rows), -1)
    for _ in range(max_iter):
        distances = np.sum(centres**2, axis=1) - 2.0 * (rows @ centres.T)  # up to |row|^2
        new = np.argmin(distances, axis=1)
        _fill_empty(new, distances[np.arange(len(rows)), new] + norms, k)
        if np.mean(new != cluster) < 1e-3:
            return new
        cluster = new
        order = np.argsort(cluster, kind="stable")
        starts = np.searchsorted(cluster[order], np.arange(k))
        sums = np.add.reduceat(rows[order], starts, axis=0)
        centres = sums / np.bincount(cluster, minlength=k)[:, None].astype(rows.dtype)
    return cluster


def _plus_plus(rows: np.ndarray, norms: np.ndarray, k: int, rng: np.random.Generator) -> list[int]:
    """Return k rows to start from, each drawn by its squared distance to those before."""
    chosen = [int(rng.integers(len(rows)))]
    nearest = np.full(len(rows), np.inf)
    while len(chosen) < k:
        i = chosen[-1]
        nearest = np.minimum(nearest, np.maximum(norms + norms[i] - 2.0 * (rows @ rows[i]), 0.0))
        nearest[chosen] = 0.0
        total = np.cumsum(nearest, dtype=np.float64)
        at = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
        if total[-1] <= 0.0 or at >= len(rows):  # fewer different rows than clusters
            at = int(np.setdiff1d(np.arange(len(rows)), chosen)[0])
        chosen.append(at)
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
