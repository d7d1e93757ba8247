"""Badge (Ash et al., 2020): diverse and uncertain by k-means++ on the last layer's gradients.

The gradient for the predicted label y* = argmax p is the outer product of r = p - e_y* and h. It is never
built, since inner products factorise: <g_i, g_j> = (r_i . r_j) (h_i . h_j).
"""

from typing import Any

import numpy as np

from everylabel.selection.pool import PoolView


def badge(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions: the largest gradient first, the others drawn by squared distance to the picks."""
    r, (along, sizes) = _residuals(pool, idx), pool.inner(idx)
    norms = np.sum(r**2, axis=1) * sizes
    picked = [int(np.argmax(norms))]
    nearest = np.full(len(idx), np.inf)
    while len(picked) < n:
        i = picked[-1]
        inner = (r @ r[i]) * along(pool.rows([idx[i]])[0])
        nearest = np.minimum(nearest, np.maximum(norms + norms[i] - 2.0 * inner, 0.0))
        nearest[picked] = 0.0
        picked.append(draw(nearest, picked, rng))
    return np.asarray(picked)


def badge_norm(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return |g|^2 = |r|^2 |h|^2 (n,), which replaces k-means++ if picks are followed by updates (App. F)."""
    return np.sum(_residuals(pool, idx) ** 2, axis=1) * pool.inner(idx)[1]


def draw(weights: np.ndarray, taken: list[int], rng: np.random.Generator) -> int:
    """Return a position drawn by weight; if all weights are 0, any position that is not taken."""
    total = np.cumsum(weights)
    at = rng.random()  # exactly one random number per draw
    if total[-1] > 0.0:
        return int(np.searchsorted(total, at * total[-1], side="right").clip(max=len(weights) - 1))
    left = np.setdiff1d(np.arange(len(weights)), taken)
    return int(left[int(at * len(left))])


def _residuals(pool: PoolView, idx: np.ndarray) -> np.ndarray:
    r = pool.probs(idx).astype(np.float64)
    if pool.multi_label:  # predicted are all classes with a probability above 1/2
        return r - (r > 0.5)
    r[np.arange(len(r)), r.argmax(axis=1)] -= 1.0
    return r
