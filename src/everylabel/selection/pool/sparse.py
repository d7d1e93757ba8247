"""Arrays over very many instances that hold only the exceptions.

`Sparse` holds a number for each instance, most of which are equal. The t exceptions are sorted by instance:
8 bytes each plus the number. New values are kept in a dictionary until more than one value is read.

`Complement` holds all instances except some, like a sorted array. With g_j the sorted exceptions,
    instance = position + j         for the first j with g_j - j beyond the position
    position = instance - j         for the first j with g_j beyond the instance
"""

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class OnDemand(NDArrayOperatorsMixin):
    """Base class of objects that become arrays when computed with, and take less memory until then."""

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **how: Any) -> Any:
        whole = (np.asarray(one) if isinstance(one, OnDemand) else one for one in given)
        return getattr(ufunc, method)(*whole, **how)


class Sparse(OnDemand):
    """n numbers, read and set by index like an array's."""

    ndim = 1

    def __init__(self, n: int, usual: float, dtype: Any) -> None:
        self.usual, self.dtype = usual, np.dtype(dtype)
        self._n, self.shape = n, (n,)
        self._idx, self._values = np.zeros(0, np.int64), np.zeros(0, self.dtype)
        self._new: dict[int, Any] = {}

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, idx: Any) -> Any:
        """Return the number of one instance, or an array of the numbers of several."""
        if isinstance(idx, int | np.integer):
            i = range(self._n)[idx]
            if i in self._new:
                return self._new[i]
            place = int(np.searchsorted(self._idx, i))
            here = place < len(self._idx) and self._idx[place] == i
            return self._values[place] if here else self.dtype.type(self.usual)
        if isinstance(idx, slice):
            return np.asarray(self)[idx]
        known, values = self.unusual()
        wanted = self._positions(idx)
        at = np.searchsorted(known, wanted)
        here = np.r_[known, -1][at] == wanted
        return np.where(here, np.r_[values, self.dtype.type(self.usual)][at], self.dtype.type(self.usual))

    def __setitem__(self, idx: Any, value: Any) -> None:
        if isinstance(idx, int | np.integer):
            self._new[range(self._n)[idx]] = self.dtype.type(value)
            return
        idx = self._positions(idx).reshape(-1)
        values = np.broadcast_to(np.asarray(value, self.dtype), idx.shape)
        self._new |= dict(zip(idx.tolist(), values, strict=True))

    def unusual(self, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the instances from `start` up to `stop` with an exceptional number, and these numbers."""
        if self._new:
            self._put_in_order()
        if start == 0 and stop is None:
            return self._idx, self._values
        some = slice(*np.searchsorted(self._idx, [start, self._n if stop is None else stop]))
        return self._idx[some], self._values[some]

    def max(self) -> Any:
        """Return the largest number."""
        values = self.unusual()[1]
        return values.max() if len(values) == self._n > 0 else values.max(initial=self.usual)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.full(self._n, self.usual, self.dtype if dtype is None else dtype)
        idx, values = self.unusual()
        whole[idx] = values
        return whole

    def _positions(self, idx: Any) -> np.ndarray:
        """Return instances from any NumPy index: a slice, a mask, integers (also negative)."""
        if isinstance(idx, slice):
            return np.arange(*idx.indices(self._n))
        idx = np.asarray(idx)
        if idx.dtype == bool:
            if idx.shape != self.shape:
                raise IndexError(f"a mask of shape {idx.shape} does not fit {self._n:,} instances")
            return np.flatnonzero(idx)
        idx = idx.astype(np.int64, copy=False)
        if idx.size and not -self._n <= idx.min() <= idx.max() < self._n:
            raise IndexError(f"an index is out of bounds for {self._n:,} instances")
        return np.asarray(np.where(idx < 0, idx + self._n, idx))

    def _put_in_order(self) -> None:
        """Merge new values into the sorted arrays; the old arrays, which others may hold, are not changed."""
        new = np.fromiter(self._new, np.int64, len(self._new))
        values = np.asarray(list(self._new.values()), self.dtype)
        idx, first = np.unique(np.concatenate([new, self._idx]), return_index=True)  # new values come first
        values = np.concatenate([values, self._values])[first]
        kept = values != self.usual
        self._idx, self._values, self._new = idx[kept], values[kept], {}


class Complement(OnDemand):
    """Sorted instances, read by index like an array's; made by `all_but`."""

    ndim, dtype = 1, np.dtype(np.int64)

    def __init__(self, n: int, gone: np.ndarray) -> None:
        """Hold all of n instances except those in `gone`, which is sorted."""
        self._n, self._gone = n, gone
        self.size = n - len(gone)
        self.shape = (self.size,)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        """Return the instance at one position, or an array of those at several."""
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
        """Return the number of elements before each given instance: its position, if it is an element."""
        upto = np.clip(np.asarray(instances, np.int64) + (side == "right"), 0, self._n)
        return upto - np.searchsorted(self._gone, upto)

    def without(self, at: int) -> "Complement":
        """Return a copy without the element at a position."""
        i = int(self[at])
        return Complement(self._n, np.insert(self._gone, int(np.searchsorted(self._gone, i)), i))

    def same(self, other: "Complement") -> bool:
        """Return whether both hold the same instances."""
        return self is other or (self._n == other._n and np.array_equal(self._gone, other._gone))

    def tolist(self) -> list[int]:
        """Return all elements as a list."""
        found: list[int] = np.asarray(self).tolist()
        return found

    def _instances(self, at: np.ndarray) -> np.ndarray:
        return np.asarray(at + np.searchsorted(self._gone - np.arange(len(self._gone)), at, side="right"))


def all_but(n: int, gone: Any = ()) -> Complement:
    """Return all of n instances except `gone`, which is sorted."""
    return Complement(n, np.asarray(gone, np.int64))


def without(idx: Any, at: int) -> Any:
    """Return instances (an array or a Complement) without the one at a position."""
    return idx.without(at) if isinstance(idx, Complement) else np.delete(idx, at)
