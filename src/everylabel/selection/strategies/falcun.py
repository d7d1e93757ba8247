"""Falcun (Gilhuber et al., 2023): uncertain instances whose predictions differ from each other's.

p (k,) an instance's probabilities, B the batch so far, u = 1 - margin.
    d(x) = min(u(x), min_{b in B} |p_x - p_b|_1), rescaled to 0..1 after each pick
    chance of x = (u(x) + d(x))^gamma / sum
Diversity is measured between predictions (k numbers), never between features.
"""

import numpy as np

from everylabel.core.checks import check_positive
from everylabel.selection.pool import PoolView
from everylabel.selection.strategies.badge import draw


def falcun(
    pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator, *, gamma: float = 10.0
) -> np.ndarray:
    """Return n positions, drawn one after another."""
    gamma = check_positive(gamma, "gamma", zero=True)
    probs = pool.probs(idx).astype(np.float64)
    unsure = 1.0 - pool.margins(idx).astype(np.float64)
    distance, picked = unsure.copy(), list[int]()
    while len(picked) < n:
        chances = (unsure + distance) ** gamma
        chances[picked] = 0.0
        picked.append(draw(chances, picked, rng))
        distance = np.minimum(distance, np.abs(probs - probs[picked[-1]]).sum(axis=1))
        distance /= max(float(distance.max()), 1e-12)  # the least is that of the pick: 0
    return np.asarray(picked)
