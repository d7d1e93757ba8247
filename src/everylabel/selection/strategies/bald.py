"""BALD (Houlsby et al., 2011): the mutual information of label and weights, H(mean p) - mean H(p)."""

import numpy as np

from everylabel.core.checks import check_count
from everylabel.selection.pool import PoolView
from everylabel.selection.sampling import Members, entropies


def bald(pool: PoolView, idx: np.ndarray, rng: np.random.Generator, *, n_samples: int = 100) -> np.ndarray:
    """Return the mutual information of label and weights, from n_samples members."""
    members = Members(pool, check_count(n_samples, "n_samples"), rng)
    scores = [entropies(p.mean(axis=0)) - entropies(p).mean(axis=0) for _, p in members.chunks(idx)]
    return np.concatenate(scores).astype(np.float64)
