"""Images without any model: scaled to 32 x 32 pixels, then PCA.

h = (x - center) V^T    with x (n, 3072) the pixels and V the leading directions of the sample
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.media import image_bytes
from everylabel.models.embedding.images import encode_in_batches, pixels

SIDE = 32
DIMENSIONS = 128
FIT_ON = 2000


class Pixels:
    """Pixels + PCA, fitted on a sample of the images."""

    name, kind, chunk = "pixels", "image", 1024

    def __init__(self, key: str, center: np.ndarray | None, directions: np.ndarray | None) -> None:
        self.key, self.center, self.directions = key, center, directions

    @classmethod
    def fit(cls, sample: list[Any]) -> "Pixels":
        """Return what is learned from some images."""
        from sklearn.decomposition import PCA

        sample = sample[:: max(1, len(sample) // FIT_ON)]
        digests = [hashlib.sha256(image_bytes(item)).digest() for item in sample]
        key = "pixels 2 " + hashlib.sha256(b"".join(digests)).hexdigest()
        rows = cls(key, None, None).encode(sample)
        rows = rows[~np.isnan(rows).any(axis=1)] if rows.size else rows
        if not rows.size:
            raise EverylabelError("items holds no image that can be read; expected image files or PIL images")
        if len(rows) == 1:
            return cls(key, None, None)
        with np.errstate(invalid="ignore"):  # images may be all alike
            pca = PCA(min(DIMENSIONS, len(rows)), svd_solver="randomized", random_state=0).fit(rows)
        return cls(key, pca.mean_, pca.components_)

    @classmethod
    def from_arrays(cls, key: str, arrays: Mapping[str, np.ndarray]) -> "Pixels":
        """Return what learned before."""
        return cls(key, arrays.get("center"), arrays.get("directions"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what was learned from the sample."""
        if self.center is None or self.directions is None:
            return {}
        return {"center": self.center, "directions": self.directions}

    def encode(self, items: Any) -> np.ndarray:
        return encode_in_batches(items, self._batch, 256)

    def _batch(self, images: list[Any]) -> np.ndarray:
        rows = pixels(images, (SIDE, SIDE), 0.5, 0.5).reshape(len(images), -1)
        if self.center is None or self.directions is None:
            return rows
        return np.asarray((rows - self.center) @ self.directions.T, dtype=np.float32)
