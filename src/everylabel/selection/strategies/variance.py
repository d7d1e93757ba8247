"""Epistemic variance of the logits, which is high in directions of the features with few labels."""

from typing import Any

import numpy as np

from everylabel.selection.pool import PoolView


def variance(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return h' cov h."""
    return pool.variances(idx)
