"""k-means by Lloyd's iterations with k-means++ as the start: matrix products only, in single precision.

What Typiclust and the clustered batches of the optimal look-ahead need: which cluster each row is in.
"""

import numpy as np

AT_ONCE = 1 / 8  # starting points drawn together, as a part of those there are: one product for all


def kmeans(rows: np.ndarray, k: int, rng: np.random.Generator, max_iter: int = 10) -> np.ndarray:
    """Return the cluster of each row; every one of the k clusters has at least one."""
    norms = np.sum(rows**2, axis=1)
    centres = rows[_plus_plus(rows, norms, k, rng)]
    cluster = np.full(len(rows), -1)
    for _ in range(max_iter):
        distances = np.sum(centres**2, axis=1) - 2.0 * (rows @ centres.T)  # up to |row|^2
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


def _plus_plus(rows: np.ndarray, norms: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Return k different rows to start from, drawn by squared distance to those before, a few at a time."""
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
