"""Arrays that lie in a file: whether it is still what they were mapped from.

A process that reads a part of a file that was cut off is ended by the system (SIGBUS), whatever it is doing.
Looking takes a microsecond. What is cut off between the look and the reading still ends it.
"""

import hashlib
import mmap

import numpy as np

from everylabel.data.digests import spread


class MappedFile:
    """The file behind an array."""

    def __init__(self, array: np.ndarray, mapped: mmap.mmap) -> None:
        self._array, self._mapped = array, mapped
        self._size = mapped.size()
        self._content, self._was_cut = self._sample(), False

    @classmethod
    def of(cls, array: object) -> "MappedFile | None":
        """Return the file that an array is mapped from; None if it lies in memory."""
        behind = array
        while isinstance(behind, np.ndarray):
            behind = behind.base
        return cls(array, behind) if isinstance(array, np.ndarray) and isinstance(behind, mmap.mmap) else None

    def wrong(self) -> str:
        """Return what is wrong with the file: it was cut off, or holds else since then; "" if nothing is."""
        size = self._mapped.size()  # of the open file, wherever it lies now
        if size < self._size:
            self._was_cut = True
            return f"was cut off, from {self._size:,} bytes to {size:,}"
        if self._was_cut and self._sample() != self._content:
            return "was cut off, and holds other numbers now"
        self._was_cut = False
        return ""

    def _sample(self) -> bytes:
        """Return a digest of rows between the first and the last."""
        some = self._array[spread(0, len(self._array))]
        return hashlib.blake2b(np.ascontiguousarray(some).tobytes()).digest()
