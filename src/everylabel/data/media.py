"""Images of any kind (paths, PIL images, pixels, bytes): detecting, opening, comparing and showing them."""

import io
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import is_missing
from everylabel.data.digests import is_plain_file

# allowed formats, whatever a file is called; for others Pillow may run a program (PostScript)
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "AVIF", "HEIF", "JPEG2000", "ICO")
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
FILES_TRIED = 20  # paths of a column or list of which one must be a file


def is_image(item: Any) -> bool:
    """Return whether an item is certainly an image: a Path, a PIL image, pixels, or the bytes of a file."""
    return (
        isinstance(item, Path | bytes)
        or hasattr(item, "convert")
        or (isinstance(item, np.ndarray) and item.ndim in (2, 3))
    )


def are_paths(items: list[Any], base: Path = Path()) -> bool:
    """Return whether strings are image paths: all have an image suffix, and one of the first files exists."""
    endings = tuple(SUFFIXES)
    if not items or not all(isinstance(item, str) and item.lower().endswith(endings) for item in items):
        return False
    try:
        return any((base / item).is_file() for item in items[:FILES_TRIED])
    except (OSError, ValueError):  # a name too long for a file
        return False


def open_image(item: Any) -> Any | None:
    """Return an RGB PIL image, fully decoded; None if it is broken or missing."""
    if is_missing(item):
        return None
    try:
        if isinstance(item, np.ndarray):
            return Image.fromarray(item).convert("RGB")
        if isinstance(item, (str, Path)) and not is_plain_file(Path(item)):
            return None
        if isinstance(item, (str, Path)):
            with opened_image(item) as image:
                return image.convert("RGB")
        return opened_image(item).convert("RGB")
    except (OSError, ValueError, TypeError, SyntaxError, Image.DecompressionBombError):
        return None  # Pillow's errors for a broken file


def opened_image(item: Any) -> Any:
    """Open a path or a file's bytes as an image without decoding it; return a PIL image unchanged."""
    if isinstance(item, bytes):
        item = io.BytesIO(item)
    if not isinstance(item, (str, Path, io.BytesIO)):
        return item
    Image.init()
    return Image.open(item, formats=[name for name in FORMATS if name in Image.OPEN])


def unpacked_image(value: Any) -> Any:
    """Return the image in a table's cell; Hugging Face stores a dict of bytes and path."""
    if isinstance(value, dict) and not {"bytes", "path"}.isdisjoint(value):
        value = value.get("bytes") or (Path(value["path"]) if value.get("path") else None)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def why_unreadable(item: Any) -> str:
    """Return in brackets the reason why an image cannot be opened, if it is known."""
    if not isinstance(item, (str, Path, bytes)):
        return ""
    try:
        if isinstance(item, (str, Path)) and not is_plain_file(Path(item)):
            return " (empty, or not a regular file)"
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
    except Exception:  # Pillow raises many kinds of errors for a broken file
        return ""
    return ""


def image_bytes(item: Any) -> bytes:
    """Return bytes that identify an image: the file's bytes, or size and pixels."""
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


with suppress(ImportError):  # HEIF photos of phones, if the library is installed
    from pillow_heif import register_heif_opener

    register_heif_opener()

Picture = tuple[bytes, str]  # the bytes and their media type

LONGEST_SIDE = 1600  # pixels; a larger picture is scaled down
SMALL_SIDE = 64  # pixels; smaller pictures are drawn with hard edges
# formats that every browser shows; MPO is a JPEG with further pictures
_MEDIA = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "WEBP": "image/webp",
}


def shown_image(item: Any, name: str) -> Picture:
    """Return an image (path, file's bytes, PIL image or pixels) in a form for browsers, whatever its name."""
    if item is None:
        raise EverylabelError(f"image {name!r} does not exist; skip this one")
    if isinstance(item, str | Path):
        name, item = str(item), _read(Path(item))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about large images and odd metadata
            return _converted(item if isinstance(item, bytes) else _png(item))
    except Exception as error:  # Pillow raises many kinds of errors for a broken file
        raise EverylabelError(
            f"image {name!r} is damaged or not an image ({type(error).__name__}: {error}); replace the file, "
            "or skip this one"
        ) from error


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise EverylabelError(f"image {str(path)!r} no longer exists; put it back, or skip this one")
        if not is_plain_file(path):
            raise EverylabelError(
                f"image {str(path)!r} is empty, or not a regular file; replace it, or skip this one"
            )
        return path.read_bytes()
    except OSError as error:
        raise EverylabelError(f"image {str(path)!r} cannot be read: {error.strerror or error}") from error


def _png(item: Any) -> bytes:
    """Return the PNG of a PIL image or of pixels."""
    out = io.BytesIO()
    image = Image.fromarray(item) if isinstance(item, np.ndarray) else item
    (image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else image.convert("RGB")).save(out, "PNG")
    return out.getvalue()


def _converted(data: bytes) -> Picture:
    """Return the image unchanged if it is small and of a known type, else a smaller JPEG or a PNG."""
    with opened_image(data) as image:
        media = _MEDIA.get(image.format)
        if media is not None and max(image.size) <= LONGEST_SIDE:
            return data, media
        image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # a JPEG need not be decoded in full
        smaller = ImageOps.exif_transpose(image)
        if smaller.mode not in ("RGB", "RGBA", "L"):
            smaller = smaller.convert(
                "RGBA" if "A" in smaller.mode or "transparency" in image.info else "RGB"
            )
        smaller.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        out = io.BytesIO()
        if media == "image/jpeg":
            smaller.convert("RGB").save(out, "JPEG", quality=88)
            return out.getvalue(), "image/jpeg"
        smaller.save(out, "PNG")
        return out.getvalue(), "image/png"
