"""Candidate batches for the optimal look-ahead: random, one instance per cluster, uncertain, or a third each.

"boss": each batch is picked by one of nine strategies from a random half of the candidates. The oracle BoSS
(Huseljic et al., 2026) judges such batches by retraining.
"""

import numpy as np

from everylabel.selection.pool import PoolView
from everylabel.selection.sampling import kmeans
from everylabel.selection.strategies.refine import proposals

SOURCES = ("random", "clusters", "uncertain", "mixed", "boss")
SHARE = 0.5  # share of the candidates from which a strategy of "boss" picks a batch


def draw_batches(
    pool: PoolView, idx: np.ndarray, n: int, n_batches: int, source: str, rng: np.random.Generator
) -> np.ndarray:
    """Return n_batches batches of n different positions in idx."""
    if source == "mixed":
        sizes = [n_batches - 2 * (n_batches // 3), n_batches // 3, n_batches // 3]
        parts = [
            draw_batches(pool, idx, n, size, kind, rng)
            for kind, size in zip(SOURCES, sizes, strict=False)
            if size
        ]
        return np.concatenate(parts)
    if source == "boss":
        return proposals(pool, idx, n, n_batches, SHARE, rng)
    if source == "clusters":
        return _one_of_each(kmeans(pool.rows(idx, np.float32), n, rng), n_batches, rng)
    if source == "uncertain":
        narrow = np.argsort(pool.margins(idx), kind="stable")[: max(3 * n, len(idx) // 10)]
        return narrow[_distinct(len(narrow), n, n_batches, rng)]
    return _distinct(len(idx), n, n_batches, rng)


def _distinct(size: int, n: int, n_batches: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of n different numbers below size."""
    return np.stack([rng.choice(size, n, replace=False, shuffle=False) for _ in range(n_batches)])


def _one_of_each(cluster: np.ndarray, n_batches: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows with a random member of every cluster."""
    members = [np.flatnonzero(cluster == c) for c in range(int(cluster.max()) + 1)]
    return np.stack([m[rng.integers(len(m), size=n_batches)] for m in members], axis=1)
