"""A number for each of very many instances, of which most are the same: only the others take room.

t instances whose number is another one, in order: 8 bytes each and those of the number. What has been said
since they were last put in order is in a dictionary, until somebody asks for more than one.
"""

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class OnDemand(NDArrayOperatorsMixin):
    """What is an array to those who calculate with it, and takes less room until they do."""

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **how: Any) -> Any:
        whole = (np.asarray(one) if isinstance(one, OnDemand) else one for one in given)
        return getattr(ufunc, method)(*whole, **how)


class Sparse(OnDemand):
    """n numbers, looked at and set one by one or some at a time, as those of an array are."""

    ndim = 1

    def __init__(self, n: int, usual: float, dtype: Any) -> None:
        self.usual, self.dtype = usual, np.dtype(dtype)
        self._n, self.shape = n, (n,)
        self._idx, self._values = np.zeros(0, np.int64), np.zeros(0, self.dtype)
        self._new: dict[int, Any] = {}

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, idx: Any) -> Any:
        """Return the number of one instance, or those of some."""
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
        """Return the instances from `start` up to `stop` that have another number than most, and those."""
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
        """Return the instances that an array would take: a stretch, a mask, numbers, also from the end."""
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
        """Take what is new among what is in order, whose arrays others may have: they stay as they are."""
        new = np.fromiter(sorted(self._new), np.int64, len(self._new))
        values = np.asarray([self._new[i] for i in new.tolist()], self.dtype)
        at = np.searchsorted(self._idx, new)
        stays = np.ones(len(self._idx) + 1, bool)
        stays[at[np.r_[self._idx, -1][at] == new]] = False
        idx, known = self._idx[stays[:-1]], self._values[stays[:-1]]
        new, values = new[values != self.usual], values[values != self.usual]
        at = np.searchsorted(idx, new)
        self._idx, self._values, self._new = np.insert(idx, at, new), np.insert(known, at, values), {}
