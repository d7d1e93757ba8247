"""ProbCover (Yehuda et al., 2022): the instance whose ball covers most uncovered instances.

Balls of radius r around known instances and picks, between directions (centred, of norm 1).
    purity(r) = share of instances whose ball holds no instance of another k-means cluster (one per class)
r is the largest radius with a purity of at least `purity`. A ball is pure up to the distance to the nearest
instance of another cluster, so r is the quantile 1 - `purity` of these distances.
"""

import numpy as np

from everylabel.core.checks import check_fraction
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.sampling import kmeans
from everylabel.selection.strategies.badge import draw
from everylabel.selection.strategies.herding import directions
from everylabel.selection.strategies.strategy import squared_distances

MAX_INSTANCES = 2000  # a larger pool is represented by a random sample of this size: all pairs are compared


def probcover(
    pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator, *, purity: float = 0.95
) -> np.ndarray:
    """Return n positions; random ones once everything is covered."""
    purity = check_fraction(purity, "purity")
    some = pool.sample(max(MAX_INSTANCES, n), rng, np.arange(len(idx)))
    rows = pool.rows(idx[some])
    center = rows[:, : pool.posterior.n_features].mean(axis=0)
    x = directions(rows, center)
    known = directions(pool.rows(pool.placed(Where.LABELLED, Where.LEASED)), center)
    distances = squared_distances(x, x)
    radius = _radius(distances, kmeans(x, min(pool.n_classes, len(x)), rng), purity)
    inside = distances < radius
    np.fill_diagonal(inside, True)
    covered = np.any(squared_distances(x, known) < radius, axis=1)
    picked: list[int] = []
    while len(picked) < n:
        gain = inside[:, ~covered].sum(axis=1)
        gain[picked] = 0
        picked.append(int(np.argmax(gain)) if gain.any() else draw(gain, picked, rng))
        covered |= inside[picked[-1]]
    return some[picked]


def _radius(distances: np.ndarray, cluster: np.ndarray, purity: float) -> float:
    """Return the squared radius; the largest distance if there is one cluster only."""
    apart = np.where(cluster[:, None] == cluster, np.inf, distances).min(axis=1)
    radius = float(np.quantile(apart, 1.0 - purity, method="lower"))
    return radius if np.isfinite(radius) else float(distances.max())
