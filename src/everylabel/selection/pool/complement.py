"""All instances of a pool but for some, as an array of their numbers in order that nobody has written out.

Left out are gaps, from each `start` up to its `stop`, in order. With l_j the length of gap j, those before it
take C_j = l_0 + .. + l_(j-1), and
    instance = position + C_j         of the first j whose start_j - C_j is beyond the position
    position = instance - C_j         of the first j whose start_j is beyond the instance
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from everylabel.selection.pool.sparse import OnDemand


class Complement(OnDemand):
    """Instances in order, looked at some at a time, as those of an array are; made by `all_but`."""

    ndim, dtype = 1, np.dtype(np.int64)

    def __init__(self, n: int, starts: np.ndarray, stops: np.ndarray) -> None:
        """Take all of n instances but for those in gaps."""
        self._n, self._starts, self._stops = n, starts, stops
        self._before = np.concatenate([[0], np.cumsum(stops - starts)])  # C
        self.size = n - int(self._before[-1])
        self.shape = (self.size,)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        """Return the instance at one position, or an array of those at some."""
        if isinstance(at, int | np.integer):
            return self._instances(np.asarray([range(self.size)[at]]))[0]
        if isinstance(at, slice):
            return self._instances(np.arange(*at.indices(self.size)))
        at = np.asarray(at)
        if at.dtype == bool or (at.size and not 0 <= at.min() <= at.max() < self.size):
            return np.asarray(self)[at]
        return self._instances(at.astype(np.int64, copy=False))

    def __contains__(self, i: object) -> bool:
        return isinstance(i, int | np.integer) and bool(self.searchsorted(i, "right") > self.searchsorted(i))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._instances(np.arange(self.size)).astype(dtype or np.int64, copy=False)

    def searchsorted(self, instances: Any, side: str = "left", sorter: None = None) -> Any:
        """Return how many come before each of some instances: its position, if it is one of these."""
        upto = np.clip(np.asarray(instances, np.int64) + (side == "right"), 0, self._n)
        gaps = np.searchsorted(self._starts, upto, side="left")
        inside = np.maximum(np.r_[0, self._stops][gaps] - upto, 0)  # of a gap that is not over yet
        return upto - (self._before[gaps] - inside)

    def without(self, at: int) -> "Complement":
        """Return the same but for the one at a position."""
        i = int(self[at])
        after = int(np.searchsorted(self._starts, i))
        return Complement(self._n, np.insert(self._starts, after, i), np.insert(self._stops, after, i + 1))

    def same(self, other: "Complement") -> bool:
        """Return whether these are the instances of another."""
        return len(self) == len(other) and np.array_equal(self._edges(), other._edges())

    def tolist(self) -> list[int]:
        """Return all of them."""
        found: list[int] = np.asarray(self).tolist()
        return found

    def _instances(self, at: np.ndarray) -> np.ndarray:
        gaps = np.searchsorted(self._starts - self._before[:-1], at, side="right")
        return np.asarray(at + self._before[gaps])

    def _edges(self) -> np.ndarray:
        """Return where gaps begin and end, those that touch as one."""
        found, times = np.unique(np.r_[self._starts, self._stops], return_counts=True)
        return np.asarray(found[times == 1])


def all_but(n: int, gone: Any = (), away: Iterable[tuple[int, int]] = ()) -> Complement:
    """Return all of n instances but for `gone`, which are in order, and some stretches (start, stop)."""
    starts = np.asarray(gone, np.int64)
    stops = starts + 1
    for start, stop in away:
        a, b = np.searchsorted(starts, [start, stop])
        starts = np.concatenate([starts[:a], [start], starts[b:]])
        stops = np.concatenate([stops[:a], [stop], stops[b:]])
    return Complement(n, starts, stops)


def without(idx: Any, at: int) -> Any:
    """Return instances, an array of them or all but some, but for the one at a position."""
    return idx.without(at) if isinstance(idx, Complement) else np.delete(idx, at)
