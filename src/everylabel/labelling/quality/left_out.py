"""What the model says of each label without it, in columns: each training makes one for every label."""

from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping
from typing import NamedTuple

import numpy as np


class LeftOut(NamedTuple):
    """What the model says of a labelled instance without its own label."""

    label: int
    own: float  # probability of that label
    guess: int
    sure: float  # probability of the guess


class LeftOuts(Mapping[int, LeftOut]):
    """Verdicts by item, in the order of the items.

    Parameters
    ----------
    items : (n,), ascending
    label, own, guess, sure : (n,) each, see `LeftOut`
    """

    def __init__(self, items: np.ndarray, *columns: np.ndarray) -> None:
        self._items = np.asarray(items, np.int64).data  # one by one these are faster than arrays
        kinds = np.int32, np.float64, np.int32, np.float64
        self._columns = [np.array(one, kind).data for one, kind in zip(columns, kinds, strict=True)]

    def __getitem__(self, item: int) -> LeftOut:
        at = bisect_left(self._items, item)
        if at == len(self._items) or self._items[at] != item:
            raise KeyError(item)
        return LeftOut(*(column[at] for column in self._columns))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[int]:
        return iter(self._items.tolist())

    def items(self) -> ItemsView[int, LeftOut]:
        """Return all, without a search for each."""
        return _All(self)

    def rows(self) -> Iterator[LeftOut]:
        """Return the verdicts in order."""
        return map(LeftOut, *(column.tolist() for column in self._columns))


class _All(ItemsView[int, LeftOut]):
    _mapping: LeftOuts

    def __iter__(self) -> Iterator[tuple[int, LeftOut]]:
        return zip(self._mapping, self._mapping.rows(), strict=True)
