"""Pictures for a browser: files as they are, or converted and made smaller; arrays of pixels as PNG."""

import io
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError

Picture = tuple[bytes, str]  # the bytes and their media type

LONGEST_SIDE = 1600  # pixels; a larger picture is made smaller if Pillow is there
LARGEST_FILE = 200 * 2**20  # bytes
SMALL_SIDE = 64  # pixels below which a picture is drawn with hard edges
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def read_picture(path: Path) -> Picture:
    """Return an image file as a browser shows it; what is no image is refused, whatever its name."""
    try:
        if not path.is_file():
            raise _no_image(f"image {str(path)!r} is not there any more; put it back, or skip this one")
        if path.stat().st_size > LARGEST_FILE:
            raise _no_image(f"image {str(path)!r} is larger than {LARGEST_FILE >> 20} MB; make it smaller")
        data = path.read_bytes()
    except OSError as error:
        raise _no_image(f"image {str(path)!r} cannot be read: {error.strerror or error}") from error
    return shown(data, str(path))


def shown(data: bytes, name: str) -> Picture:
    """Return the bytes of an image file, as they are or, if a browser needs that, converted."""
    media = media_type(data)
    pillow = _pillow()
    if pillow is None:
        if media is None:
            raise _no_image(
                f"image {name!r} is none that a browser shows (PNG, JPEG, GIF, WebP, BMP); to have it "
                "converted: pip install 'everylabel[image]'"
            )
        return data, media
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large image, of odd metadata
            return _converted(pillow, data, media)
    except Exception as error:  # Pillow tells a broken file in many ways
        raise _no_image(
            f"image {name!r} is damaged or no image ({type(error).__name__}: {error}); replace the file, "
            "or skip this one"
        ) from error


def media_type(data: bytes) -> str | None:
    """Return the type of an image that every browser shows, told from its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for start, media in _STARTS if data.startswith(start)), None)


def png(pixels: np.ndarray) -> bytes:
    """Return grey (h, w) or RGB (h, w, 3) pixels of 8 bits as a PNG file."""
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    height, width = pixels.shape[:2]
    colour = 0 if pixels.ndim == 2 else 2
    lines = pixels.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()  # no filter a line
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _no_image(message: str) -> EverylabelError:
    return EverylabelError(message)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _pillow() -> Any | None:
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    except ImportError:
        pass
    return Image


def _converted(pillow: Any, data: bytes, media: str | None) -> Picture:
    """Return the image itself if it is small and of a known type, else a smaller JPEG or a PNG."""
    from PIL import ImageOps

    with pillow.open(io.BytesIO(data)) as image:
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
