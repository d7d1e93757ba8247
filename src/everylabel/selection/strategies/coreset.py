"""Core-Set (Sener & Savarese, 2018): k-center greedy, the instance farthest from all that are known."""

import numpy as np

from everylabel.core.arrays import CHUNK
from everylabel.selection.pool import Pool
from everylabel.selection.strategies.base import squared_distances


def coreset(pool: Pool, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions; centres are the labelled instances, those that are out, and the picks."""
    rows = pool.rows(idx)
    known = np.flatnonzero(pool.state != 0)
    nearest = np.full(len(idx), np.inf)
    at_once = max(1, CHUNK // len(idx))
    for start in range(0, len(known), at_once):
        centres = pool.rows(known[start : start + at_once])
        nearest = np.minimum(nearest, squared_distances(rows, centres).min(axis=1))
    if not len(known):  # the first centre is the instance in the middle
        nearest = -squared_distances(rows, rows.mean(axis=0, keepdims=True))[:, 0]
    picked: list[int] = []
    norms = np.sum(rows**2, axis=1)
    while len(picked) < n:
        i = int(np.argmax(nearest))
        if not picked and not len(known):
            nearest = np.full(len(idx), np.inf)
        picked.append(i)
        nearest = np.minimum(nearest, np.maximum(norms + norms[i] - 2.0 * (rows @ rows[i]), 0.0))
        nearest[picked] = -1.0
    return np.asarray(picked)
