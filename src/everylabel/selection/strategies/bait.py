"""BAIT (Ash et al., 2021): the batch that leaves the least Fisher-weighted variance over the pool.

Minimises tr(A F) with A = (cov^-1 + sum_picked c_x h h')^-1 and F = sum_pool c_x h h', greedily forward
to twice the batch and backward to the batch, as its authors do.
Departure: one matrix for all classes, with c_x = 1 - sum_y p_y^2 the trace of the softmax curvature,
where the original has (d k)^2 entries.
"""

import numpy as np

from everylabel.selection.pool import PoolView

POOL_SAMPLE = 5000  # instances that stand for the pool in F


def bait(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions, in the order of picking."""
    everywhere = pool.sample(POOL_SAMPLE, rng)
    fisher = pool.rows(everywhere)
    fisher = (fisher.T * _curvature(pool, everywhere)) @ fisher / len(everywhere)
    values, vectors = np.linalg.eigh(fisher)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rows, c = pool.rows(idx), _curvature(pool, idx)
    seen = np.ascontiguousarray(pool.cov_rows(idx).T)  # A H'
    spread = root.T @ seen  # F^(1/2) A H'
    picked: list[int] = []
    own = np.sum(rows * seen.T, axis=1)  # h'A h
    while len(picked) < min(2 * n, len(idx)):
        gain = c * np.sum(spread**2, axis=0) / (1.0 + c * own)  # by how much tr(A F) falls
        gain[picked] = -np.inf
        i = int(np.argmax(gain))
        picked.append(i)
        _condition(seen, spread, own, rows @ seen[:, i], i, c[i], 1)
    keep = np.asarray(picked)
    seen, spread, own, rows, c = seen[:, keep], spread[:, keep], own[keep], rows[keep], c[keep]
    left = np.ones(len(keep), bool)
    while left.sum() > n:
        loss = c * np.sum(spread**2, axis=0) / np.maximum(1.0 - c * own, 1e-12)
        loss[~left] = np.inf
        i = int(np.argmin(loss))
        left[i] = False
        _condition(seen, spread, own, rows @ seen[:, i], i, c[i], -1)
    return keep[left]


def _condition(
    seen: np.ndarray, spread: np.ndarray, own: np.ndarray, column: np.ndarray, i: int, c: float, sign: int
) -> None:
    """Add an instance to A (sign 1) or take it out (-1), in place (Eq. 7)."""
    factor = sign * c / max(1.0 + sign * c * own[i], 1e-12)
    seen -= factor * np.outer(seen[:, i].copy(), column)
    spread -= factor * np.outer(spread[:, i].copy(), column)
    own -= factor * column**2


def _curvature(pool: PoolView, idx: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 - np.sum(pool.probs(idx) ** 2, axis=1), np.float64)
