"""What all image backends share: images in batches, and pixels as a network wants them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from everylabel.data.media import open_image
from everylabel.models.embedding.backend import Network

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNetwork(Network):
    """A network that takes images, a batch at a time."""

    chunk = 256

    def encode(self, items: Any) -> np.ndarray:
        return encode_in_batches(items, self.encode_batch, self.batch_size)

    def encode_batch(self, images: list[Any]) -> np.ndarray:
        """Return features of opened images."""
        raise NotImplementedError


def encode_in_batches(items: Any, encode: Callable[[list[Any]], np.ndarray], batch_size: int) -> np.ndarray:
    """Open and encode images batch by batch; a row of NaN for each that cannot be opened."""
    parts: list[tuple[np.ndarray, np.ndarray | None]] = []
    for at in range(0, len(items), batch_size):
        images = [open_image(item) for item in items[at : at + batch_size]]
        good = np.array([image is not None for image in images])
        parts.append((good, encode([image for image in images if image is not None]) if good.any() else None))
    d = next((rows.shape[1] for _, rows in parts if rows is not None), 0)
    features = np.full((len(items), d), np.nan, dtype=np.float32)
    at = 0
    for good, rows in parts:
        if rows is not None:
            features[at + np.flatnonzero(good)] = rows
        at += len(good)
    return features


def pixels(images: list[Any], size: tuple[int, int], mean: Any, std: Any) -> np.ndarray:
    """Return (n, 3, h, w) scaled pixels: the shorter side resized, the centre cut out, normalised."""
    height, width = size
    rows = []
    for image in images:
        scale = max(height / image.height, width / image.width)
        scaled = image.resize(
            (max(width, round(image.width * scale)), max(height, round(image.height * scale)))
        )
        left, top = (scaled.width - width) // 2, (scaled.height - height) // 2
        rows.append(np.asarray(scaled.crop((left, top, left + width, top + height)), dtype=np.float32))
    array = (np.stack(rows) / 255.0 - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def pooled(output: np.ndarray) -> np.ndarray:
    """Return one row an image: (n, d) as it is, a class token's of (n, t, d), the mean of (n, d, h, w)."""
    if output.ndim == 4:
        output = output.mean(axis=(2, 3))
    elif output.ndim == 3:
        output = output[:, 0]
    return np.asarray(output.reshape(len(output), -1), dtype=np.float32)
