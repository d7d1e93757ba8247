"""Features that a model sees on another scale than they lie on, without a copy of them.

x (n, d) as they lie, in memory or in a file of any precision; h = (x - center) matrix as the model sees them.
The map is folded into what they are multiplied by:
    h w + b = x (M w) + (b - center M w)          h' S h = (x - center)' (M S M') (x - center)
Single rows are brought to scale when they are asked for, in blocks of one shape (a product's rounding depends
on its shape).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.selection.pool.features import Features, with_room

BLOCK = 64  # rows that are brought to scale at a time


class Scaled:
    """Features (n, d) on scale, of which only what is asked for is made."""

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, raw: np.ndarray, center: np.ndarray, matrix: np.ndarray) -> None:
        self.raw, self.center, self.matrix = raw, center, matrix
        self.shape = raw.shape
        self.size = raw.size
        self._plain = Features.of(raw, bias=True)
        self._norms: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, idx: Any) -> np.ndarray:
        """Return rows on scale; one (d,) for a number."""
        if isinstance(idx, int | np.integer):
            return self._on_scale(self.raw[int(idx)][None])[0]
        return self._on_scale(self.raw[idx])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("features are on scale in no array; expected copy=None or True")
        return np.asarray(self[:], dtype)

    def first(self, n: int) -> "Scaled":
        """Return the first n rows."""
        return self if n == len(self) else self.of(self.raw[:n])

    def of(self, raw: np.ndarray) -> "Scaled":
        """Return other rows, on the same scale."""
        return Scaled(raw, self.center, self.matrix)

    def times(self, weights: np.ndarray, bias: Any = 0.0) -> np.ndarray:
        """Return H w + b: (n,) for a vector, (m, n) for weights (d, m) and biases (m,)."""
        if not np.any(weights):  # a model that knows nothing: no pass
            one = np.asarray(bias, np.float32)
            return np.repeat(np.broadcast_to(one, weights.shape[1:])[..., None], len(self), axis=-1)
        body = self.matrix @ weights
        shift = np.asarray(bias - self.center @ body, np.float64)
        found = self._plain.product(np.concatenate([body, shift[None]]))
        return found.astype(np.float32, copy=False)

    def form(self, body: np.ndarray) -> np.ndarray:
        """Return diag(H S H') (n,) of S (d, d); centred before it is multiplied, so that nothing cancels."""
        out = np.empty(len(self), np.float32)
        folded = (self.matrix @ body @ self.matrix.T).astype(np.float32)
        center = self.center.astype(np.float32)
        for rows, part in self._plain.chunks(always=True):
            centred = np.subtract(part, center, dtype=np.float32)
            out[rows] = np.sum((centred @ folded) * centred, axis=1)
        return out

    def norms(self) -> np.ndarray:
        """Return |h|^2 (n,), computed when first asked for."""
        if self._norms is None:
            self._norms = self.form(np.eye(self.shape[1]))
        return self._norms

    def _on_scale(self, raw: np.ndarray) -> np.ndarray:
        center, matrix = self.center.astype(np.float32), self.matrix.astype(np.float32)
        out = np.empty(raw.shape, np.float32)
        block = np.zeros((BLOCK, raw.shape[1]), np.float32)
        for start in range(0, len(raw), BLOCK):
            part = raw[start : start + BLOCK]
            np.subtract(part, center, out=block[: len(part)], dtype=np.float32)
            out[start : start + BLOCK] = (block @ matrix)[: len(part)]
        return out


class Folded(Features):
    """Products with the design of features on scale: those of a pool that keeps no copy."""

    array: Scaled

    def __init__(self, seen: Scaled, posterior: Posterior) -> None:
        if not posterior.bias:
            raise EverylabelError("posterior has no bias; expected bias=True: a scale has a center")
        self.array, self.bias, self.n = seen, True, len(seen)
        self.dtype, self.in_memory, self._room = np.float32, False, None

    def like(self, more: Any, posterior: Posterior) -> "Folded":
        if not isinstance(more, Scaled):
            raise EverylabelError(f"features is a {type(more).__name__}; expected Scaled, like the pool's")
        return Folded(more, posterior)

    def extend(self, more: Features) -> None:
        """Take instances behind those there are, into a copy that has room for more."""
        self.n += more.n
        self._room = with_room(self._room, self.array.raw, more.array.raw)
        self.array = self.array.of(self._room[: self.n])

    def take(self, idx: Any) -> np.ndarray:
        return self.array[np.asarray(idx)]

    def product(self, weights: np.ndarray) -> np.ndarray:
        return self.array.times(weights[:-1], weights[-1])

    def norms(self) -> np.ndarray:
        return self.array.norms() + np.float32(1.0)

    def quadratic(self, cov: np.ndarray) -> np.ndarray:
        """Return diag(H cov H')."""
        return self.array.form(cov[:-1, :-1]) + self.array.times(2.0 * cov[:-1, -1], cov[-1, -1])

    def chunks(self, always: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        for rows, _ in self.array._plain.chunks(always=True):
            yield rows, self.array[rows]
