"""Core-Set (Sener & Savarese, 2018): greedy k-center, the instance farthest from all centres."""

import numpy as np

from everylabel.core.arrays import CHUNK
from everylabel.selection.pool import PoolView, Where


def coreset(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions in idx; centres are all instances that are not free, and the picks."""
    inner, norms = pool.inner(idx)
    known = pool.placed(Where.LABELLED, Where.LEASED, Where.EXCLUDED)
    nearest = np.full(len(idx), np.inf)
    at_once = max(1, CHUNK // len(pool))  # 100 at once cost half as much as four times 25
    for start in range(0, len(known), at_once):
        centres = pool.rows(known[start : start + at_once])
        beyond = inner(-2.0 * centres.T)  # |x - c|^2 without |x|^2, in place
        beyond += np.sum(centres**2, axis=1)[:, None].astype(beyond.dtype)
        nearest = np.minimum(nearest, np.maximum(beyond.min(axis=0) + norms, 0.0))
    picked: list[int] = []
    if not len(known):  # the first centre is the instance in the middle: least |x|^2 - 2 x . mean
        middle = pool.rows(idx).mean(axis=0)
        nearest = 2.0 * inner(middle) - norms
    while len(picked) < n:
        i = int(np.argmax(nearest))
        if not picked and not len(known):
            nearest = np.full(len(idx), np.inf)
        picked.append(i)
        nearest = np.minimum(nearest, np.maximum(norms + norms[i] - 2.0 * inner(pool.rows([idx[i]])[0]), 0.0))
        nearest[picked] = -np.inf
    return np.asarray(picked)
