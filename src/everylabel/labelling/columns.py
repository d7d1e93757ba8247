"""What is known of very many things, a few bytes each: numbers in columns, not objects.

An object of Python, with its place in a dictionary, takes a hundred bytes and more; an answer is on record in
some sixty, however long a project goes on.
"""

from array import array
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

UNKNOWN = -(2**31)  # no number of ours


class Numbers(MutableMapping[int, int]):
    """A number for some of the items, in the order of the items."""

    def __init__(self) -> None:
        self._values = array("i")
        self._n = 0

    def __getitem__(self, item: int) -> int:
        if 0 <= item < len(self._values) and self._values[item] != UNKNOWN:
            return self._values[item]
        raise KeyError(item)

    def __contains__(self, item: object) -> bool:
        values = self._values
        return isinstance(item, int) and 0 <= item < len(values) and values[item] != UNKNOWN

    def __setitem__(self, item: int, value: int) -> None:
        more = item + 1 - len(self._values)
        if more > 0:
            self._values.extend([UNKNOWN] * more)
        self._n += self._values[item] == UNKNOWN
        self._values[item] = value

    def __delitem__(self, item: int) -> None:
        if item not in self:
            raise KeyError(item)
        self._values[item] = UNKNOWN
        self._n -= 1

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[int]:
        known: list[int] = np.flatnonzero(self.packed() != UNKNOWN).tolist()
        return iter(known)

    def as_dict(self) -> dict[int, int]:
        """Return a copy; faster than by `dict`."""
        values = self.packed()
        known = np.flatnonzero(values != UNKNOWN)
        return dict(zip(known.tolist(), values[known].tolist(), strict=True))

    def packed(self) -> np.ndarray:
        """Return a copy as an array, UNKNOWN where there is none."""
        return as_array(self._values)

    @classmethod
    def unpacked(cls, values: np.ndarray) -> "Numbers":
        """Return what `packed` was of."""
        made = cls()
        made._values = as_column("i", values)
        made._n = int(np.count_nonzero(values != UNKNOWN))
        return made


def as_array(column: "array[Any]") -> np.ndarray:
    """Return a copy of a column."""
    return np.array(column)  # typed by the column's buffer


def as_column(typecode: str, values: np.ndarray) -> "array[Any]":
    """Return an array as a column that can grow; numbers of another kind are refused."""
    column: array[Any] = array(typecode)
    if values.ndim != 1 or values.dtype != np.dtype(typecode):
        raise ValueError(f"a column is of kind {values.dtype} {values.shape}; expected {np.dtype(typecode)}")
    column.frombytes(np.ascontiguousarray(values).tobytes())
    return column
