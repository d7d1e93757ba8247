"""Digests that identify content: a short hash of a text, of an image's path and size, of a row of numbers.

Rows of numbers are hashed many at a time, by a sum with random factors, so that a large file costs little. A
dataset's arrays, which never change, have a single hash over shape, type and some rows.
"""

import hashlib
import stat
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

SAMPLED = 64  # rows of features in a single hash of all
AT_A_TIME = 16_384  # rows hashed together
SIZE, DIGITS = 16, frozenset("0123456789abcdef")  # length and characters of a hash as text


def packed_digests(digests: Sequence[str]) -> str | list[str]:
    """Return the stored form of hashes: one text, or a list if some have another form."""
    text = "".join(digests)
    ours = all(len(one) == SIZE for one in digests) and DIGITS.issuperset(text)
    return text if ours else list(digests)


def unpacked_digests(stored: str | Sequence[str]) -> list[str]:
    """Return hashes from their stored form."""
    if not isinstance(stored, str):
        return list(stored)
    if len(stored) % SIZE or not DIGITS.issuperset(stored):
        raise ValueError("it holds no hashes")
    return [stored[at : at + SIZE] for at in range(0, len(stored), SIZE)]


def text_digests(texts: Iterable[str]) -> list[str]:
    """Return a hash of each text."""
    return [bytes_digest(text.encode("utf-8", "surrogatepass")) for text in texts]


def image_digests(paths: Iterable[Any], names: Iterable[str]) -> list[str]:
    """Return a hash of each image's name and file size; of the name only if it is not a file."""
    pairs = zip(paths, names, strict=True)
    return [bytes_digest(f"{name}\0{_size(path)}".encode()) for path, name in pairs]


def row_digests(features: np.ndarray) -> list[str]:
    """Return a hash of each row: the sum of its 8-byte words, each times a random odd number, mod 2^64."""
    size = features.dtype.itemsize * features.shape[1]
    words = -(-size // 8)
    factors = np.random.default_rng(0).integers(2**64, size=words, dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(features), np.uint64)
    for at in range(0, len(features), AT_A_TIME):
        rows = np.ascontiguousarray(features[at : at + AT_A_TIME]).view(np.uint8).reshape(-1, size)
        if size % 8:
            rows = np.pad(rows, ((0, 0), (0, 8 * words - size)))
        hashes[at : at + AT_A_TIME] = rows.view(np.uint64) @ factors
    return unpacked_digests(hashes.astype(">u8").tobytes().hex())


def spread(start: int, stop: int, most: int = SAMPLED) -> np.ndarray:
    """Return up to `most` evenly spread row numbers from `start` up to, not including, `stop`."""
    return np.unique(np.linspace(start, stop - 1, min(most, stop - start)).astype(np.int64))


def features_digest(features: np.ndarray, places: Sequence[int] | None = None) -> str:
    """Return one hash over shape, type and evenly spread rows; of the rows in `places` if given."""
    n = len(features) if places is None else len(places)
    rows = spread(0, n)
    some = np.ascontiguousarray(features[rows if places is None else np.asarray(places)[rows]])
    shape = (n, *features.shape[1:])
    return bytes_digest(f"{shape} {features.dtype.str}".encode() + some.tobytes())


def content_digest(content: Any) -> str:
    """Return a hash of an image's content: a file's bytes or an array's pixels; UNREADABLE for all else."""
    if isinstance(content, np.ndarray):
        return bytes_digest(f"{content.shape} {content.dtype.str}".encode() + content.tobytes())
    try:
        about = Path(content).stat()
        return _file_digest(Path(content), about.st_mtime_ns)
    except (OSError, TypeError, ValueError):
        return UNREADABLE


@lru_cache(maxsize=100_000)
def _file_digest(path: Path, changed: int) -> str:
    if not is_plain_file(path):
        return UNREADABLE
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def is_plain_file(path: Path) -> bool:
    """Return whether a path is a regular, non-empty file; reading a pipe or a file of /proc may never end."""
    about = path.stat()
    return stat.S_ISREG(about.st_mode) and about.st_size > 0


def bytes_digest(content: bytes) -> str:
    """Return a hash of bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


UNREADABLE = bytes_digest(b"unreadable")


def _size(path: Any) -> int:
    try:
        return path.stat().st_size if isinstance(path, Path) else -1
    except OSError:
        return -1
