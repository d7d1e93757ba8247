"""Images of any kind: paths, PIL images, pixels, the bytes of files; how to tell, open and compare them."""

import io
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import is_missing

# what is opened, whatever a file is called; for others Pillow may run a program (PostScript)
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF", "HEIF", "JPEG2000", "ICO")
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


def is_image(item: Any) -> bool:
    """Return whether an item is an image for sure: a Path, a PIL image, pixels, or the bytes of a file."""
    return (
        isinstance(item, Path | bytes)
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


def is_plain_file(path: Path) -> bool:
    """Return whether a path is a file with content; a pipe or a file of /proc may never come to an end."""
    about = path.stat()
    return stat.S_ISREG(about.st_mode) and about.st_size > 0


def open_image(item: Any) -> Any | None:
    """Return an RGB PIL image, fully decoded; None if it is broken or not there."""
    if is_missing(item):
        return None
    try:
        if isinstance(item, np.ndarray):
            return Image.fromarray(item).convert("RGB")
        if isinstance(item, (str, Path)) and not is_plain_file(Path(item)):
            return None
        return opened_image(item).convert("RGB")
    except (OSError, ValueError, TypeError, SyntaxError, Image.DecompressionBombError):
        return None  # Pillow tells a broken file in all these ways


def opened_image(item: Any) -> Any:
    """Return an image of a path or of a file's bytes, not decoded yet; a PIL image as it is."""
    if isinstance(item, bytes):
        item = io.BytesIO(item)
    if not isinstance(item, (str, Path, io.BytesIO)):
        return item
    Image.init()
    return Image.open(item, formats=[name for name in FORMATS if name in Image.OPEN])


def unpacked_image(value: Any) -> Any:
    """Return an image out of what a table keeps it in: Hugging Face has a dict of bytes and path."""
    if isinstance(value, dict) and not {"bytes", "path"}.isdisjoint(value):
        value = value.get("bytes") or (Path(value["path"]) if value.get("path") else None)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def why_unreadable(item: Any) -> str:
    """Return, in brackets, why an image cannot be opened, where that is plain."""
    if not isinstance(item, (str, Path, bytes)):
        return ""
    try:
        if isinstance(item, (str, Path)) and not is_plain_file(Path(item)):
            return " (empty, or no plain file)"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened_image(item).close()
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        return f" (too large: Pillow reads up to {limit:,} pixels; make it smaller)"
    except FileNotFoundError:
        return " (not there)"
    except UnidentifiedImageError:
        return " (broken, or of a kind that is not read: convert it to PNG)"
    except Exception:  # Pillow tells a broken file in many ways
        return ""
    return ""


def image_bytes(item: Any) -> bytes:
    """Return what tells one image from another: the file's bytes, or size and pixels."""
    if isinstance(item, (str, Path)):
        try:
            return Path(item).read_bytes() if is_plain_file(Path(item)) else b"unreadable"
        except OSError:
            return b"unreadable"
    if isinstance(item, bytes):
        return item
    if is_missing(item):
        return b"missing"
    if isinstance(item, np.ndarray):
        return f"{item.dtype}{item.shape}".encode() + item.tobytes()
    if not hasattr(item, "tobytes"):
        raise EverylabelError(
            f"items holds a {type(item).__name__}; expected paths, PIL images or arrays of pixels"
        )
    return f"{item.mode}{item.size}".encode() + item.tobytes()
