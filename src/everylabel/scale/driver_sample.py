"""A random sample of a pool in shards with its rows at the driver, for strategies that look at many rows.

Herding, look-ahead, Badge and Typiclust need the rows of a thousand instances a pick, which would be 2 to 5
MB from the actors. They choose among SIZE instances that lie here. Each pick replaces some of them, EXCHANGED
bytes, by others drawn at random, so that the whole pool is looked at in time.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.posterior import Posterior
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.pool.scaled import Scaled
from everylabel.selection.pool.view import shared_cov

if TYPE_CHECKING:
    from everylabel.scale.pool import ShardPool

SIZE = 8000
FIXED = 1000  # of them that stay: the model's mean confidence is computed on these
EXCHANGED = 2**15  # bytes of rows, with each pick


class DriverSample(PoolView):
    """A pool of which only the instances of the sample can be chosen."""

    def __init__(self, pool: "ShardPool") -> None:
        self._pool, self._sharded = pool, pool.numbers.sharded
        if self._sharded.sample is None:
            n = len(pool)
            drawn = np.random.default_rng(0).choice(n, min(n, SIZE), replace=False)
            self._sharded.sample = self._sharded.fetch(drawn)
        sample: tuple[np.ndarray, np.ndarray] = self._sharded.sample
        self._idx, self._raw = sample
        self._slot = {i: at for at, i in enumerate(self._idx.tolist())}
        self._rows = self._seen(self._raw)
        self._next = min(FIXED, len(self._idx))  # the slot whose turn it is
        self.dtype = pool.dtype

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def posterior(self) -> Posterior:
        return self._pool.posterior

    def placed(self, *places: Where) -> Any:
        return self._pool.placed(*places)

    @property
    def free_idx(self) -> np.ndarray:
        return np.sort(self._idx[self._pool.state[self._idx] == Where.FREE])

    @property
    def state(self) -> np.ndarray:  # type: ignore[override]
        return self._pool.state

    @property
    def labels(self) -> np.ndarray:  # type: ignore[override]
        return self._pool.labels

    @property
    def auto_step(self) -> float:  # type: ignore[override]
        return self._pool.auto_step

    def logits(self, idx: Any = None) -> np.ndarray:
        mean: np.ndarray = to_numpy(self.posterior.mean).astype(self.dtype)
        found = self.rows(np.arange(len(self)) if idx is None else idx, self.dtype) @ mean
        return np.c_[np.zeros_like(found), found] if self.posterior.likelihood == "binary" else found

    def variances(self, idx: Any = None) -> np.ndarray:
        rows = self.rows(np.arange(len(self)) if idx is None else idx, self.dtype)
        return np.einsum("nd,nd->n", rows @ shared_cov(self.posterior).astype(self.dtype), rows)

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        idx = np.asarray(idx, np.int64).reshape(-1)
        slots = np.asarray([self._slot.get(i, -1) for i in idx.tolist()], np.int64)
        out = np.empty((len(idx), self._rows.shape[1]), dtype)
        here = slots >= 0
        out[here] = self._rows[slots[here]]
        if not here.all():  # labelled ones, whose rows are here too
            out[~here] = self._pool.rows(idx[~here], dtype)
        return out

    def keep(self, i: int) -> None:
        """Cache the row of an instance of the sample at the driver."""
        if i in self._slot:
            self._sharded.cache(np.asarray([i]), self._raw[[self._slot[i]]])

    def exchange(self, rng: np.random.Generator) -> None:
        """Replace some instances by others drawn at random; actors that are away are not waited for."""
        n, fixed, size = len(self._pool), min(FIXED, len(self._idx)), len(self._idx)
        many = min(EXCHANGED // max(1, self._raw[0].nbytes), size - fixed)
        drawn = np.unique(rng.integers(n, size=many))
        away = self._pool.numbers.away()
        usable = [
            i
            for i in drawn.tolist()
            if i not in self._slot
            and self._pool.state[i] == Where.FREE
            and not any(part.start <= i < part.stop for part in away)
        ]
        new, raw = self._sharded.fetch(np.asarray(usable, np.int64), wait=False)
        slots = fixed + (self._next - fixed + np.arange(len(new))) % max(1, size - fixed)
        self._next = fixed + (self._next - fixed + len(new)) % max(1, size - fixed)
        for i in self._idx[slots].tolist():
            del self._slot[i]
        self._idx[slots], self._raw[slots] = new, raw
        self._rows[slots] = self._seen(raw)
        self._slot |= dict(zip(new.tolist(), slots.tolist(), strict=True))

    def _seen(self, raw: np.ndarray) -> np.ndarray:
        """Return rows as the model sees them, with the bias column."""
        features, bias = self._pool.features, self._pool.numbers.features.bias
        seen = features.of(raw)[:] if isinstance(features, Scaled) else raw
        return np.c_[seen, np.ones((len(raw), int(bias)))].astype(self._pool.dtype)
