"""Features of shards that stay in their files: rows are read when they are asked for."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from everylabel.scale.shards import Shard, load

OPEN = 64  # files that stay open


class FiledFeatures:
    """Rows (n, d) of some shards; those of this machine are mapped."""

    ndim = 2

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = list(shards)
        self._starts = np.cumsum([0, *(shard.rows for shard in shards)])
        self.shape = int(self._starts[-1]), shards[0].width
        self.size = self.shape[0] * self.shape[1]
        self._load = lru_cache(OPEN)(lambda number: load([self._shards[number].place]))
        stored = self._load(0).dtype
        self.dtype = np.dtype(np.float64 if stored == np.float64 else np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __getitem__(self, key: Any) -> np.ndarray:
        """Return rows; one (d,) for a number."""
        if isinstance(key, int | np.integer):
            return self[[int(key)]][0]
        idx = np.arange(*key.indices(len(self))) if isinstance(key, slice) else np.asarray(key, np.int64)
        out = np.empty((len(idx), self.shape[1]), self.dtype)
        owner = np.searchsorted(self._starts, idx, side="right") - 1
        for number in np.unique(owner).tolist():
            at = owner == number
            out[at] = self._load(number)[idx[at] - self._starts[number]]
        return out
