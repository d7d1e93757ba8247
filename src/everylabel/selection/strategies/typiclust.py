"""Typiclust (Hacohen et al., 2022): the most typical instance of each cluster without labels.

As the authors run it: min(labelled + n, 500) clusters by k-means; clusters with the fewest labels first, the
largest of these; in it the instance with the least mean distance to its min(20, size/2) nearest neighbours.
"""

import numpy as np

from everylabel.selection.pool import PoolView, Where
from everylabel.selection.sampling import kmeans
from everylabel.selection.strategies.strategy import squared_distances

MAX_CLUSTERS, NEIGHBOURS = 500, 20
MAX_INSTANCES = 10_000  # App. F: Typiclust chooses from 10,000


def typiclust(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions, one per cluster while there are clusters."""
    known = pool.placed(Where.LABELLED, Where.LEASED)
    seed = int(rng.integers(2**31))
    drawn = np.random.default_rng(seed)
    many = len(idx) > MAX_INSTANCES
    free = (
        np.sort(drawn.choice(len(idx), max(MAX_INSTANCES, n), replace=False)) if many else np.arange(len(idx))
    )
    rows = pool.rows(np.r_[known, idx[free]], np.float32)
    n_clusters = min(len(known) + n, MAX_CLUSTERS, len(rows))
    cluster = kmeans(rows, n_clusters, drawn)
    labelled = np.bincount(cluster[: len(known)], minlength=n_clusters)
    size = np.bincount(cluster[len(known) :], minlength=n_clusters)
    picked: list[int] = []
    taken = np.zeros(len(free), bool)
    while len(picked) < n:
        order = np.lexsort((-size, labelled, size == 0))  # empty ones last, then by labels, then by size
        for c in order[: min(n - len(picked), int(np.sum(size > 0)))]:
            members = np.flatnonzero((cluster[len(known) :] == c) & ~taken)
            i = members[_most_typical(rows[len(known) + members])]
            taken[i] = True
            picked.append(int(free[i]))
            size[c] -= 1
            labelled[c] += 1
    return np.asarray(picked)


def _most_typical(rows: np.ndarray) -> int:
    """Return the row with the least mean distance to its nearest neighbours."""
    near = min(NEIGHBOURS, max(1, len(rows) // 2))
    if len(rows) <= 2:
        return 0
    distances = np.sqrt(squared_distances(rows, rows))
    np.fill_diagonal(distances, 0.0)
    nearest = np.partition(distances, near, axis=1)[:, : near + 1]
    return int(np.argmin(nearest.sum(axis=1)))  # itself is at distance 0
