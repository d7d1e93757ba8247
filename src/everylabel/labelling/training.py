"""Exact training on the labels of some rows: the model that all of them make, in whatever order they came."""

from collections.abc import Mapping

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.models.names import NameRows
from everylabel.models.scaling import suited_precision


def train(
    features: np.ndarray,
    labels: Mapping[int, int],
    n_classes: int,
    names: NameRows | None = None,
    *,
    tol: float = 1e-8,
) -> Posterior:
    """Return the posterior trained on labels (row -> class) and names; without any, the prior."""
    idx, y = in_order(labels)
    x, k, weights = features[idx].astype(np.float64), max(1, n_classes), np.ones(len(idx))
    if names is not None:
        x, y, weights = names.together_with(x, y)
    prior = suited_precision(k)
    mean = (
        fit_map(x, y, k, prior, weights=weights, tol=tol) if len(y) else np.zeros((features.shape[1] + 1, k))
    )
    return laplace(mean, x, prior_precision=prior, weights=weights, labels=y)


def in_order(labels: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes, by row: the order of labelling must not matter."""
    idx = np.array(sorted(labels), dtype=np.int64)
    return idx, np.array([labels[int(i)] for i in idx], dtype=np.int64)
