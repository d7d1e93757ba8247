"""Images without any model: scaled to 32 x 32 pixels, then PCA."""

import hashlib
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.models.images import encode_in_batches, image_bytes, pixels

SIDE = 32
DIMENSIONS = 128
FIT_ON = 2000


class Pixels:
    """Pixels + PCA, fitted on a sample of the images."""

    chunk = 1024

    def __init__(self, sample: list[Any]) -> None:
        from sklearn.decomposition import PCA

        sample = sample[:: max(1, len(sample) // FIT_ON)]
        digests = [hashlib.sha256(image_bytes(item)).digest() for item in sample]
        self.key = "pixels " + hashlib.sha256(b"".join(digests)).hexdigest()
        self.pca: Any = None
        rows = self.encode(sample)
        rows = rows[~np.isnan(rows).any(axis=1)] if rows.size else rows
        if not rows.size:
            raise EverylabelError("items holds no image that can be read; expected image files or PIL images")
        if len(rows) > 1:
            with np.errstate(invalid="ignore"):  # images may be all alike
                self.pca = PCA(min(DIMENSIONS, len(rows)), svd_solver="randomized", random_state=0).fit(rows)

    def encode(self, items: Any) -> np.ndarray:
        return encode_in_batches(items, self._batch, 256)

    def _batch(self, images: list[Any]) -> np.ndarray:
        rows = pixels(images, (SIDE, SIDE), 0.5, 0.5).reshape(len(images), -1)
        return rows if self.pca is None else np.asarray(self.pca.transform(rows), dtype=np.float32)
