"""Epistemic variance of the logits: how little is known of this direction of the features."""

from typing import Any

import numpy as np

from everylabel.selection.pool import PoolView


def variance(pool: PoolView, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return h' cov h."""
    return pool.variances(idx)
