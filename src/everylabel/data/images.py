"""What all image backends share: opening images, and pixels as a network wants them."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.data.cells import is_missing

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def is_image(item: Any) -> bool:
    """Return whether an item is an image for sure: a Path, a PIL image, an array of pixels."""
    return (
        isinstance(item, Path)
        or hasattr(item, "convert")
        or (isinstance(item, np.ndarray) and item.ndim in (2, 3))
    )


def are_paths(items: list[Any]) -> bool:
    """Return whether strings are paths of images: all have the suffix of one, and the first is there."""
    endings = tuple(SUFFIXES)
    if not items or not all(isinstance(item, str) and item.lower().endswith(endings) for item in items):
        return False
    try:
        return Path(items[0]).is_file()
    except (OSError, ValueError):  # a name too long for a file
        return False


def open_image(item: Any) -> Any | None:
    """Return an RGB PIL image, fully decoded; None if it is broken or not there."""
    pil = need("PIL.Image", "image", "reading images")
    if is_missing(item):
        return None
    try:
        if isinstance(item, np.ndarray):
            return pil.fromarray(item).convert("RGB")
        image = pil.open(item) if isinstance(item, (str, Path)) else item
        return image.convert("RGB")
    except (OSError, ValueError, TypeError, SyntaxError, pil.DecompressionBombError):
        return None  # Pillow tells a broken file in all these ways


def why_unreadable(item: Any) -> str:
    """Return, in brackets, why an image cannot be opened, where that is plain."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Image.open(item).close()
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        return f" (too large: Pillow reads up to {limit:,} pixels; make it smaller)"
    except FileNotFoundError:
        return " (not there)"
    except Exception:  # Pillow tells a broken file in many ways
        return ""
    return ""


def image_bytes(item: Any) -> bytes:
    """Return what tells one image from another: the file's bytes, or size and pixels."""
    if isinstance(item, (str, Path)):
        try:
            return Path(item).read_bytes()
        except OSError:
            return b"unreadable"
    if is_missing(item):
        return b"missing"
    if isinstance(item, np.ndarray):
        return f"{item.dtype}{item.shape}".encode() + item.tobytes()
    if not hasattr(item, "tobytes"):
        raise EverylabelError(
            f"items holds a {type(item).__name__}; expected paths, PIL images or arrays of pixels"
        )
    return f"{item.mode}{item.size}".encode() + io.BytesIO(item.tobytes()).getvalue()


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
