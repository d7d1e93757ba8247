"""DropQuery and ALFA-Mix: instances whose prediction flips when their features are disturbed.

z features without the bias, W (d, k) the mean's weights, y* = argmax of the logits.
    DropQuery (Gupte et al., 2024)     z' = z m / (1 - dropout), m a random mask; flips in most of `n_draws`
    ALFA-Mix (Parvaneh et al., 2022)   z' = z + a (c - z), c the mean of a class's labelled instances, with
        a = eps |c - z| g / (|g| (c - z)) per feature,  g = W (p - e_y*),  eps = `step` / sqrt(d)
ALFA-Mix moves z by eps |c - z| along g for any c, and a longer move makes every flip that a shorter one
makes. So only the farthest class mean is tried.
k-means splits the instances that flip into n clusters, and each cluster's most central instance is picked.
If too few flip, those that flip most often (DropQuery) or random ones (ALFA-Mix) are added.
"""

import numpy as np

from everylabel.core.arrays import softmax, to_numpy
from everylabel.core.checks import check_count, check_fraction, check_positive
from everylabel.selection.pool import PoolView
from everylabel.selection.sampling import most_central
from everylabel.selection.strategies.strategy import squared_distances

MAX_INSTANCES = 10_000  # a larger pool is represented by a random sample of this size


def dropquery(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    dropout: float = 0.75,
    n_draws: int = 3,
) -> np.ndarray:
    """Return n positions: one per cluster of instances whose prediction depends on few features."""
    dropout, n_draws = check_fraction(dropout, "dropout"), check_count(n_draws, "n_draws")
    some, rows, weights, bias = _linear(pool, idx, n, rng)
    now = (rows @ weights + bias).argmax(axis=1)
    flips = np.zeros(len(some), np.int64)
    for _ in range(n_draws):
        kept = rng.random(rows.shape, dtype=np.float32) >= dropout
        flips += ((rows * kept) @ weights / (1.0 - dropout) + bias).argmax(axis=1) != now
    order = np.argsort(-flips, kind="stable")
    chosen = order[: max(n, int(np.sum(2 * flips > n_draws)))]
    return some[chosen[most_central(rows[chosen], n, rng)]]


def alfamix(
    pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator, *, step: float = 0.2
) -> np.ndarray:
    """Return n positions: one per cluster of instances whose predicted class a small step changes."""
    step = check_positive(step, "step")
    some, rows, weights, bias = _linear(pool, idx, n, rng)
    known, known_rows = pool.labels[pool.labelled_idx], _features(pool, pool.labelled_idx)
    chosen = np.arange(0)
    if len(known):
        centres = np.stack([known_rows[known == y].mean(axis=0) for y in np.unique(known)])
        farthest = np.sqrt(squared_distances(rows, centres).max(axis=1))
        f = rows @ weights + bias
        now = f.argmax(axis=1)
        residual = np.asarray(softmax(f))
        residual[np.arange(len(f)), now] -= 1.0
        gradient = residual @ weights.T
        length = (
            step / np.sqrt(rows.shape[1]) * farthest / np.maximum(np.linalg.norm(gradient, axis=1), 1e-30)
        )
        chosen = np.flatnonzero((f + length[:, None] * (gradient @ weights)).argmax(axis=1) != now)
    if len(chosen) < n:
        others = np.setdiff1d(np.arange(len(some)), chosen)
        chosen = np.r_[chosen, rng.choice(others, n - len(chosen), replace=False)]
    return some[chosen[most_central(rows[chosen], n, rng)]]


def _linear(
    pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return positions in idx, their features (n, d), and the weights (d, k) and bias (k,) of the mean."""
    some = pool.sample(max(MAX_INSTANCES, n), rng, np.arange(len(idx)))
    mean = to_numpy(pool.posterior.mean).astype(np.float64)
    if mean.shape[1] == 1:
        mean = np.c_[np.zeros_like(mean), mean]
    d = pool.posterior.n_features
    return some, _features(pool, idx[some]), mean[:d], mean[d:].sum(axis=0)


def _features(pool: PoolView, idx: np.ndarray) -> np.ndarray:
    return pool.rows(idx)[:, : pool.posterior.n_features]
