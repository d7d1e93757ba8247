"""The pool's features as they came (array, tensor or memory-mapped file), read in chunks, not copied.

Only a pool that grows makes its own copy, with spare capacity, so that appending m rows costs O(m).

n instances, d features (with the bias), k classes; X (n, d) the design, whose bias column is never stored:
X v = features v[:-1] + v[-1].

`LazyScaled` features are scaled for the model without a copy. x (n, d) are the stored features, in memory or
in a file of any precision; h = (x - center) matrix are the features that the model uses. The map is folded
into the weights and covariances they are multiplied by:
    h w + b = x (M w) + (b - center M w)          h' S h = (x - center)' (M S M') (x - center)
Single rows are scaled on request, in blocks of one shape (a product's rounding depends on its shape).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from everylabel.core.arrays import (
    CHUNK,
    Array,
    array_namespace,
    as_array,
    from_numpy,
    is_real,
    namespace,
    to_numpy,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.selection.threads import can_widen, share, worth_compiling

GROWTH = 2  # a pool copied in order to grow gets room for 1 / GROWTH more
FEW = 6  # columns up to which a product for each takes less time than one for all
BLOCK = 64  # rows scaled at a time


class Features:
    """A pool's features and products with its design matrix; results are NumPy arrays on the host."""

    def __init__(self, features: Any, posterior: Posterior) -> None:
        self._hold(_check(features, posterior), posterior.bias)

    @classmethod
    def of(cls, array: Array, bias: bool) -> "Features":
        """Return features without checking them."""
        made = cls.__new__(cls)
        made._hold(array, bias)
        return made

    def _hold(self, array: Array, bias: bool) -> None:
        self.array, self.bias = array, bias
        self.n = int(self.array.shape[0])
        double = str(self.array.dtype).endswith("float64")
        self.dtype: type = np.float64 if double else np.float32  # of the cache
        self._room: np.ndarray | None = None  # buffer of a pool that grows

    def like(self, more: Any, posterior: Posterior) -> "Features":
        """Return more instances as `Features` of this pool's array kind and precision."""
        array = _check(more, posterior)
        if isinstance(self.array, np.ndarray):
            return Features(np.asarray(to_numpy(array), self.array.dtype), posterior)
        xp = array_namespace(self.array)
        native = array if type(array) is type(self.array) else from_numpy(to_numpy(array), self.array)
        return Features(xp.astype(native, self.array.dtype, copy=False), posterior)

    def extend(self, more: "Features") -> None:
        """Append instances."""
        self.n += more.n
        if not isinstance(self.array, np.ndarray):
            self.array = array_namespace(self.array).concat([self.array, more.array])
            return
        self._room = with_room(self._room, self.array, more.array)
        self.array = self._room[: self.n]

    def take(self, idx: Any) -> Array:
        """Return the features (len(idx), d) of instances, without the bias."""
        return self.array[_like(np.asarray(idx), self.array)]

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return design rows (len(idx), d) with the bias column."""
        taken = to_numpy(self.take(idx))
        rows = np.ones((len(taken), taken.shape[1] + self.bias), dtype)
        rows[:, : taken.shape[1]] = taken
        return rows

    def native(self, i: int) -> Array:
        """Return the features (1, d) of one instance in their own array library, for the core."""
        return self.array[i : i + 1]

    def product(self, weights: np.ndarray) -> np.ndarray:
        """Return X w: (n,) for a vector, (m, n) for weights (d, m)."""
        out = np.empty((*weights.shape[1:], self.n), self.dtype)
        body = weights[:-1] if self.bias else weights
        if weights.ndim == 1 and self._is_half:
            _product(self.array, body, float(weights[-1]) if self.bias else 0.0, out)
            return out
        found = out.reshape(-1, self.n)  # a view (m, n)
        columns = _like(np.ascontiguousarray(np.atleast_2d(body.T), self.dtype), self.array)
        for rows, part in self.chunks():
            with np.errstate(invalid="ignore"):  # infinite features are reported by an error message
                if len(found) > FEW:
                    found[:, rows] = to_numpy(columns @ part.T)
                    continue
                for c in range(len(found)):
                    found[c, rows] = to_numpy(part @ columns[c, :])
        if self.bias:
            out += weights[-1].astype(self.dtype)[..., None]
        return out

    def norms(self) -> np.ndarray:
        """Return |h|^2 of every instance."""
        out: np.ndarray = np.empty(self.n, self.dtype)
        for rows, part in self.chunks():
            out[rows] = to_numpy(array_namespace(part).sum(part * part, axis=1))
        return out + self.dtype(self.bias)

    def quadratic(self, cov: np.ndarray) -> np.ndarray:
        """Return diag(X cov X')."""
        out: np.ndarray = np.empty(self.n, self.dtype)
        body, cross = (cov[:-1, :-1], 2.0 * cov[:-1, -1]) if self.bias else (cov, None)
        body = _like(np.ascontiguousarray(body, self.dtype), self.array)
        for rows, part in self.chunks():
            xp = array_namespace(part)
            out[rows] = to_numpy(xp.sum((part @ body) * part, axis=1))
        if cross is not None:
            out += self.product(np.append(cross, cov[-1, -1]))
        return out

    @property
    def _is_half(self) -> bool:
        """Return whether features are of half precision and numerous enough for compiled loops."""
        array = self.array
        half = isinstance(array, np.ndarray) and array.dtype == np.float16 and array.flags.c_contiguous
        return half and can_widen() and worth_compiling(array.size)

    def chunks(self) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and their features in the cache's precision."""
        size = max(1, CHUNK // max(1, int(self.array.shape[1])))
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            part = self.array[rows]
            if self._is_half:
                yield rows, _widened(part)
            elif isinstance(part, np.ndarray):
                yield rows, np.asarray(part, dtype=self.dtype)
            else:
                xp = array_namespace(part)
                yield (
                    rows,
                    xp.astype(part, xp.float64 if self.dtype is np.float64 else xp.float32, copy=False),
                )


def with_room(room: np.ndarray | None, rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Return a buffer that begins with `rows` and `more`: `room` if large enough, else a larger copy."""
    n, total = len(rows), len(rows) + len(more)
    if room is None or len(room) < total:
        room = np.empty((total + total // GROWTH, rows.shape[1]), rows.dtype)
        room[:n] = rows
    room[n:total] = more
    return room


def _product(array: np.ndarray, body: np.ndarray, bias: float, out: np.ndarray) -> None:
    from everylabel.selection.pool import loops

    rows, v = array.view(np.uint16), np.ascontiguousarray(body, np.float32)
    share(lambda start, stop: loops.product(rows, v, np.float32(bias), out, start, stop), len(array))


def _widened(part: np.ndarray) -> np.ndarray:
    from everylabel.selection.pool import loops

    out = np.empty(part.shape, np.float32)
    loops.widen(part.view(np.uint16).reshape(-1), out.reshape(-1))
    return out


def _like(array: np.ndarray, like: Array) -> Array:
    return array if isinstance(like, np.ndarray) else from_numpy(array, like)


def _check(features: Any, posterior: Posterior) -> Array:
    if hasattr(features, "toarray"):
        raise EverylabelError(
            f"features is a sparse {type(features).__name__}; pass features.toarray() "
            "(or reduce them first, for example by sklearn.decomposition.TruncatedSVD)"
        )
    if isinstance(getattr(features, "pool", None), str):
        raise EverylabelError(
            f"features is {features!r}, which lie elsewhere and would all be fetched; expected an array, or "
            f"{features.pool} in place of Pool"
        )
    array = features if is_array_api_obj(features) else as_array(features, "features", posterior.mean)
    if len(array.shape) != 2:
        raise EverylabelError(
            f"features has shape {tuple(array.shape)}; expected two axes (n, d): one row per instance"
        )
    namespace(features=array, posterior=posterior.mean)
    if not is_real(array):
        raise EverylabelError(f"features has dtype {array.dtype}; expected real numbers")
    if array.shape[0] == 0 or array.shape[1] != posterior.n_features:
        raise EverylabelError(
            f"features has shape {tuple(array.shape)}; expected (n, {posterior.n_features}) with at least "
            "one instance: as many columns as the posterior was made with, without a bias column"
        )
    return array


class LazyScaled:
    """Scaled features (n, d), computed only for the rows requested."""

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
        """Return scaled rows; for an integer one row (d,)."""
        if isinstance(idx, int | np.integer):
            return self._on_scale(self.raw[int(idx)][None])[0]
        return self._on_scale(self.raw[idx])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("scaled features are computed on request; expected copy=None or True")
        return np.asarray(self[:], dtype)

    def first(self, n: int) -> "LazyScaled":
        """Return the first n rows."""
        return self if n == len(self) else self.of(self.raw[:n])

    def of(self, raw: np.ndarray) -> "LazyScaled":
        """Return other rows with the same scaling."""
        return LazyScaled(raw, self.center, self.matrix)

    def product(self, weights: np.ndarray, bias: Any = 0.0) -> np.ndarray:
        """Return X w + b: (n,) for a vector, (m, n) for weights (d, m) and biases (m,)."""
        if not np.any(weights):  # an untrained model needs no pass
            one = np.asarray(bias, np.float32)
            return np.repeat(np.broadcast_to(one, weights.shape[1:])[..., None], len(self), axis=-1)
        body = self.matrix @ weights
        shift = np.asarray(bias - self.center @ body, np.float64)
        found = self._plain.product(np.concatenate([body, shift[None]]))
        return found.astype(np.float32, copy=False)

    def quadratic(self, body: np.ndarray) -> np.ndarray:
        """Return diag(X S X') (n,) for S (d, d); rows are centred first, which avoids cancellation."""
        out = np.empty(len(self), np.float32)
        folded = (self.matrix @ body @ self.matrix.T).astype(np.float32)
        center = self.center.astype(np.float32)
        for rows, part in self._plain.chunks():
            centred = np.subtract(part, center, dtype=np.float32)
            out[rows] = np.sum((centred @ folded) * centred, axis=1)
        return out

    def norms(self) -> np.ndarray:
        """Return |h|^2 (n,), computed at the first call."""
        if self._norms is None:
            self._norms = self.quadratic(np.eye(self.shape[1]))
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


class LazyFeatures(Features):
    """Features of a pool that are `LazyScaled`."""

    array: LazyScaled

    def __init__(self, seen: LazyScaled) -> None:
        self.array, self.bias, self.n = seen, True, len(seen)
        self.dtype, self._room = np.float32, None

    def like(self, more: Any, posterior: Posterior) -> "LazyFeatures":
        if not isinstance(more, LazyScaled):
            raise EverylabelError(
                f"features is a {type(more).__name__}; expected LazyScaled, like the pool's"
            )
        return LazyFeatures(more)

    def extend(self, more: Features) -> None:
        """Append instances, in a copy with spare capacity."""
        self.n += more.n
        self._room = with_room(self._room, self.array.raw, more.array.raw)
        self.array = self.array.of(self._room[: self.n])

    def take(self, idx: Any) -> np.ndarray:
        return self.array[np.asarray(idx)]

    def product(self, weights: np.ndarray) -> np.ndarray:
        return self.array.product(weights[:-1], weights[-1])

    def norms(self) -> np.ndarray:
        return self.array.norms() + np.float32(1.0)

    def quadratic(self, cov: np.ndarray) -> np.ndarray:
        """Return diag(X cov X')."""
        return self.array.quadratic(cov[:-1, :-1]) + self.array.product(2.0 * cov[:-1, -1], cov[-1, -1])

    def chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows, _ in self.array._plain.chunks():
            yield rows, self.array[rows]
