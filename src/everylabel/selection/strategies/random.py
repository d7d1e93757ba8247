"""Random sampling, the baseline."""

import numpy as np

from everylabel.selection.pool import PoolView


def random(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions drawn uniformly at random."""
    return rng.choice(len(idx), n, replace=False)
