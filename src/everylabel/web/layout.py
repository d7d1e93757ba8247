"""The pool in two dimensions, for the map: by PCA, or by UMAP where it is installed and asked for.

n points, d features. PCA: the two leading directions of at most SAMPLE rows, all rows projected on them.
"""

import warnings

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import need
from everylabel.selection.pool.features import Scaled

SAMPLE = 4000  # rows that directions are learned from
UMAP_SAMPLE = 20_000
SPARE, ROUNDS = 8, 10  # directions beside the two, and passes, of the iteration
CHUNK = 16_384  # rows in single precision at a time
TAIL = 0.002  # share of points on each side that may lie beyond the edge, and are drawn on it


def layout(
    features: np.ndarray | Scaled, rng: np.random.Generator, method: str = "pca"
) -> tuple[np.ndarray, str]:
    """Return points (n, 2) between 0 and 1, the same for the same seed, and the method's name."""
    check_choice(method, "method", ["pca", "umap"])
    n = len(features)
    if n < 3 or features.shape[1] < 2:
        method = "pca"
    points = _umap(features, rng) if method == "umap" else _pca(features, rng)
    return _fitted(points), method


def _pca(features: np.ndarray | Scaled, rng: np.random.Generator) -> np.ndarray:
    some = _some(features, SAMPLE, rng)
    center = some.mean(axis=0)
    axes = _leading(some - center, rng).T
    shift = center @ axes
    if isinstance(features, Scaled):
        return features.times(axes).T - shift
    chunks = (np.asarray(features[at : at + CHUNK], np.float32) for at in range(0, len(features), CHUNK))
    return np.concatenate([chunk @ axes - shift for chunk in chunks])


def _leading(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the two leading directions (2, d) of centred rows, by subspace iteration (Halko et al. 2011)."""
    d = rows.shape[1]
    found = rng.normal(size=(d, min(d, 2 + SPARE))).astype(np.float32)
    for _ in range(ROUNDS):
        found = np.linalg.qr(rows.T @ (rows @ found))[0]
    within = np.linalg.svd(rows @ found, full_matrices=False)[2][:2]
    axes = np.zeros((2, d), np.float32)
    axes[: len(within)] = within @ found.T
    return axes


def _umap(features: np.ndarray | Scaled, rng: np.random.Generator) -> np.ndarray:
    umap = need("umap", "umap", "a map by UMAP")
    some = _some(features, UMAP_SAMPLE, rng)
    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed means one thread
        model = umap.UMAP(n_components=2, n_neighbors=min(15, len(some) - 1), random_state=seed).fit(some)
        if len(some) == len(features):
            return np.asarray(model.embedding_)
        return np.asarray(model.transform(np.asarray(features, np.float32)))


def _some(features: np.ndarray | Scaled, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return up to `most` rows, drawn at random and kept in their order."""
    n = len(features)
    rows = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    return np.asarray(features[rows], dtype=np.float32)


def _fitted(points: np.ndarray) -> np.ndarray:
    """Return points within the unit square; a direction without spread is its middle."""
    low, high = np.quantile(points, [TAIL, 1 - TAIL], axis=0) if len(points) else (np.zeros(2), np.zeros(2))
    spread = np.where(high > low, high - low, 1.0)
    scaled = np.where(high > low, (points - low) / spread, 0.5)
    return np.asarray(np.clip(scaled, 0.0, 1.0), dtype=np.float32)
