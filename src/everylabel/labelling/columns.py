"""What is known of very many things, a few bytes each: numbers in columns, not objects.

An object of Python, with its place in a dictionary, takes a hundred bytes and more; an answer is on record in
some sixty, however long a project goes on.
"""

from array import array
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

UNKNOWN = -(2**31)  # no number of ours
FEW = 32  # items for each that has a number, from which on a dictionary takes less room than a column
ALWAYS = 1024  # numbers for which there is a column in any case


class Numbers(MutableMapping[int, int]):
    """A number for some of the items, in the order of the items.

    They lie in a column, four bytes for each item up to the last; of few among very many in a dictionary.
    """

    def __init__(self) -> None:
        self._values = array("i")
        self._n = 0
        self._few: dict[int, int] | None = None  # in place of the column
        self._end = 0  # behind the last of these

    def __getitem__(self, item: int) -> int:
        if self._few is not None:
            return self._few[item]
        if 0 <= item < len(self._values) and self._values[item] != UNKNOWN:
            return self._values[item]
        raise KeyError(item)

    def __contains__(self, item: object) -> bool:
        if self._few is not None:
            return item in self._few
        values = self._values
        return isinstance(item, int) and 0 <= item < len(values) and values[item] != UNKNOWN

    def __setitem__(self, item: int, value: int) -> None:
        more = item + 1 - len(self._values)
        if self._few is None and more > 0 and item > FEW * (self._n + ALWAYS):
            self._few, self._end, self._values = self.as_dict(), len(self._values), array("i")
        if self._few is not None:
            self._few[item] = value
            self._end = max(self._end, item + 1)
            if self._end < len(self._few) * FEW // 2:
                self._write_out(self._few)
            return
        if more > 0:
            self._values.extend([UNKNOWN] * more)
        self._n += self._values[item] == UNKNOWN
        self._values[item] = value

    def __delitem__(self, item: int) -> None:
        if item not in self:
            raise KeyError(item)
        if self._few is not None:
            del self._few[item]
            return
        self._values[item] = UNKNOWN
        self._n -= 1

    def __len__(self) -> int:
        return self._n if self._few is None else len(self._few)

    def __iter__(self) -> Iterator[int]:
        if self._few is not None:
            return iter(sorted(self._few))
        known: list[int] = np.flatnonzero(as_array(self._values) != UNKNOWN).tolist()
        return iter(known)

    def as_dict(self) -> dict[int, int]:
        """Return a copy; faster than by `dict`."""
        if self._few is not None:
            return dict(sorted(self._few.items()))
        values = as_array(self._values)
        known = np.flatnonzero(values != UNKNOWN)
        return dict(zip(known.tolist(), values[known].tolist(), strict=True))

    def packed(self) -> np.ndarray:
        """Return a copy as an array, UNKNOWN where there is none; of few, items and numbers (2, n)."""
        if self._few is None:
            return as_array(self._values)
        return np.array([list(self._few), list(self._few.values())], np.int64).reshape(2, -1)

    @classmethod
    def unpacked(cls, values: np.ndarray) -> "Numbers":
        """Return what `packed` was of."""
        made = cls()
        if values.ndim == 2:
            items, numbers = values.tolist()
            made._few, made._end = dict(zip(items, numbers, strict=True)), max(items, default=-1) + 1
            return made
        made._values = as_column("i", values)
        made._n = int(np.count_nonzero(values != UNKNOWN))
        return made

    def _write_out(self, few: dict[int, int]) -> None:
        """Have the numbers in a column."""
        values = np.full(self._end, UNKNOWN, np.int32)
        values[list(few)] = list(few.values())
        self._values, self._n, self._few = as_column("i", values), len(few), None


def as_array(column: "array[Any]") -> np.ndarray:
    """Return a copy of a column."""
    return np.array(column)  # typed by the column's buffer


def taken(column: "array[Any]", places: np.ndarray) -> np.ndarray:
    """Return what a column holds at some places, without a copy of all."""
    some: np.ndarray = np.asarray(column)[places]  # a column that is looked at cannot grow: let go at once
    return some


def as_column(typecode: str, values: np.ndarray) -> "array[Any]":
    """Return an array as a column that can grow; numbers of another kind are refused."""
    column: array[Any] = array(typecode)
    if values.ndim != 1 or values.dtype != np.dtype(typecode):
        raise ValueError(f"a column is of kind {values.dtype} {values.shape}; expected {np.dtype(typecode)}")
    column.frombytes(np.ascontiguousarray(values).data.cast("B"))
    return column
