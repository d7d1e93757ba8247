"""Random sampling, the baseline of all."""

import numpy as np

from everylabel.selection.pool import PoolView


def random(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions at random, all as likely as each other."""
    return rng.choice(len(idx), n, replace=False)
