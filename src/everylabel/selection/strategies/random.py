"""Random sampling, the baseline of all."""

import numpy as np

from everylabel.selection.pool import PoolView


def random(pool: PoolView, idx: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random order."""
    return rng.random(len(idx))
