"""A .npy file here or elsewhere: how many rows of what width it has, and the rows."""

from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import NO_ARRAY
from everylabel.scale import places

_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def header(file: str) -> tuple[int, int]:
    """Return rows and columns of a file, without reading them."""
    try:
        with places.opened(file) as stream:
            shape = _READERS[np.lib.format.read_magic(stream)](stream)[0]
        n, d = shape
    except (*NO_ARRAY, KeyError) as error:
        raise EverylabelError(f"shard {file!r} holds no rows of features ({error}); make it again") from error
    return n, d


def rows_of(file: str) -> np.ndarray:
    """Return the rows of a file: of this machine memory-mapped."""
    try:
        if not places.is_remote(file):
            mapped: np.ndarray = np.load(file, mmap_mode="r")
            return mapped
        with places.opened(file) as stream:
            read: np.ndarray = np.load(stream)
            return read
    except NO_ARRAY as error:
        raise EverylabelError(f"shard {file!r} holds no rows of features ({error}); make it again") from error
