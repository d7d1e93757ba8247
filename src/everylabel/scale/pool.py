"""A pool whose features are in shards: the posterior is at the driver, logits and variances at the actors.

It is a `Pool` with another cache: a label updates the posterior at the driver, and the actors get the factors
of the step. Strategies run unchanged. The actors compute scores, and each returns its best candidates; a
strategy that needs an array of all free instances gets it.

Herding, look-ahead, Badge and Typiclust need the rows of a thousand instances per pick, 2 to 5 MB from the
actors. They choose among `SIZE` instances whose rows are at the driver. Each pick replaces `EXCHANGED` bytes
of them by instances drawn at random, so that in time the whole pool is seen.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.checks import check_posterior
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.scale.cached_logits import CachedLogits
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.worker import NoVariances, Score, in_ties, narrowness
from everylabel.selection.pool import Pool, PoolView, Where
from everylabel.selection.pool.features import Scaled
from everylabel.selection.pool.sparse import Complement, Sparse, all_but
from everylabel.selection.pool.view import TIE, best, shared_cov

SIZE = 8000  # instances in the driver's sample
FIXED = 1000  # instances of the sample that are never replaced: the mean confidence is computed on them
EXCHANGED = 2**15  # bytes of rows that each pick replaces


class DriverSample(PoolView):
    """A random sample of a pool, with its rows at the driver; strategies choose among its instances."""

    def __init__(self, pool: "ShardPool") -> None:
        self._pool, self._sharded = pool, pool.numbers.sharded
        if self._sharded.sample is None:
            n = len(pool)
            drawn: np.ndarray = np.random.default_rng(0).choice(n, min(n, SIZE), replace=False)
            self._sharded.sample = drawn, self._sharded.fetch(drawn)
        self._idx, self._raw = self._sharded.sample
        self._slot = {i: at for at, i in enumerate(self._idx.tolist())}
        self._rows = self._scaled(self._raw)
        self._exchanged = 0
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
        if not here.all():  # labelled instances, whose rows are cached at the driver
            out[~here] = self._pool.rows(idx[~here], dtype)
        return out

    def exchange(self, rng: np.random.Generator) -> None:
        """Replace some instances by free ones drawn at random."""
        size, fixed = len(self._idx), min(FIXED, len(self._idx))
        many = min(EXCHANGED // max(1, self._raw[0].nbytes), size - fixed)
        drawn, free = np.unique(rng.integers(len(self), size=many)), self._pool.free_idx
        usable = [i for i in drawn.tolist() if i not in self._slot and i in free]
        new = np.asarray(usable, np.int64)
        raw = self._sharded.fetch(new)
        slots = fixed + (self._exchanged + np.arange(len(new))) % max(1, size - fixed)
        self._exchanged += len(new)
        for i in self._idx[slots].tolist():
            del self._slot[i]
        self._idx[slots], self._raw[slots], self._rows[slots] = new, raw, self._scaled(raw)
        self._slot |= dict(zip(new.tolist(), slots.tolist(), strict=True))

    def _scaled(self, raw: np.ndarray) -> np.ndarray:
        """Return rows as the model sees them, with the bias column."""
        features, bias = self._pool.features, self._pool.numbers.features.bias
        seen = features.of(raw)[:] if isinstance(features, Scaled) else raw
        return np.c_[seen, np.ones((len(raw), int(bias)))].astype(self._pool.dtype)


class ShardPool(Pool):
    """A pool over `ShardedFeatures`, scaled or not; otherwise as `Pool`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from everylabel.scale import ShardedFeatures, ShardPool
    >>> Path("shards").mkdir()
    >>> for i in range(3):
    ...     np.save(f"shards/part-{i:06}.npy", x[500 * i : 500 * (i + 1)])
    >>> pool = ShardPool(ShardedFeatures("shards", ray="local", actors=2), post)
    >>> i = el.select(pool, "margin")[0]
    >>> pool.add(i, y[i])
    """

    can_scan = False  # the logits are at the actors

    def __init__(self, features: ShardedFeatures, posterior: Posterior, **options: Any) -> None:
        if check_posterior(posterior).multi_label:
            raise EverylabelError(
                "posterior is for several classes per item, which shards on Ray do not support; expected a "
                "Pool with features that fit on this machine (a memory-mapped file will do)"
            )
        self._free: Any = None
        self._sample: DriverSample | None = None
        super().__init__(features, posterior, **options)

    def placed(self, *places: Where) -> Any:
        """Return the instances in one of these places; free ones as the complement of the others."""
        idx, where = self.state.unusual()
        if Where.FREE in places:
            return all_but(len(self), idx[~np.isin(where, places)])
        return idx[np.isin(where, places)]

    @property
    def free_idx(self) -> Any:
        """Return the free instances, as the complement of the others."""
        if self._free is None:
            self._free = all_but(len(self), self.state.unusual()[0])
        return self._free

    @property
    def numbers(self) -> CachedLogits:
        return self._cached  # type: ignore[return-value]

    def put(self, idx: int, where: Where, label: int | None = None, weight: float = 1.0, **how: Any) -> None:
        super().put(idx, where, label, weight, **how)
        self.numbers.moves[int(idx)], self._free = int(where), None

    def close(self) -> None:
        """Drop this pool on all actors; the features stay."""
        self.numbers.end()

    def at_hand(self, rng: np.random.Generator | None = None) -> DriverSample:
        """Return a random sample with its rows at the driver; `rng` replaces a few of its instances."""
        if self._sample is None:
            self._sample = DriverSample(self)
        elif rng is not None:
            self._sample.exchange(rng)
        return self._sample

    def guessed(self, present: int) -> np.ndarray:
        """Return the number of instances that are predicted as each of the first `present` columns."""
        return sum((found for _, found in self.numbers.ask("guesses", present)), np.zeros(present, np.int64))

    def margins(self, idx: np.ndarray) -> np.ndarray:
        return self.numbers.collect(idx, "margins")

    def smallest_margins(self, idx: np.ndarray, n: int) -> np.ndarray:
        return self._top(narrowness, idx, n, 0.0) if n else np.zeros(0, np.int64)

    def top(self, score: Score, idx: np.ndarray, n: int) -> np.ndarray:
        try:
            return self._top(score, idx, n)
        except NoVariances:
            self.numbers.find_variances(self.posterior)
            return self._top(score, idx, n)

    def inner(self, idx: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        """Return w -> X[idx] w and |h|^2 of idx, both computed by the actors."""
        collect, fold, folds = self.numbers.collect, self.numbers.features.fold, self.numbers.features.folds

        def along(w: np.ndarray) -> np.ndarray:
            return collect(idx, "product", fold(w), axis=w.ndim - 1)

        form = None if folds is None else folds @ folds.T  # |h|^2 = [x 1] T T' [x 1]'
        return along, collect(idx, "norms", form)

    def _top(self, score: Score, idx: np.ndarray, n: int, size: float | None = None) -> np.ndarray:
        """Return the positions in idx of the n highest scores; of ties, the lowest positions.

        size : scores closer than TIE times this are a tie; by default the largest score
        """
        if not self._are_all_free(idx):
            return best(self.numbers.collect(idx, "scores", score), n)
        asked = self.numbers.ask("candidates", score, n)
        at = np.searchsorted(idx, np.concatenate([part.start + found.idx for part, found in asked]))
        scores = np.concatenate([found.scores for _, found in asked])
        tie = TIE * (max(found.size for _, found in asked) if size is None else size)
        if n > 1:
            return at[np.lexsort((at, -in_ties(scores, tie)))[:n]]
        return at[scores >= scores.max() - tie].min(keepdims=True)

    def _are_all_free(self, idx: np.ndarray) -> bool:
        """Return whether idx are all free instances."""
        if isinstance(idx, Complement):
            return idx.same(self.free_idx)
        return len(idx) == len(self.free_idx) and np.array_equal(idx, self.free_idx)

    def _make_cache(self, features: Any, posterior: Posterior) -> Any:
        if not isinstance(getattr(features, "raw", features), ShardedFeatures):
            raise EverylabelError(
                f"features is a {type(features).__name__}; expected ShardedFeatures(folder, ray=...)"
            )
        return CachedLogits(features, posterior, lambda: self.state, lambda: self._cached_at)

    def _trained_logits(self, idx: np.ndarray) -> np.ndarray:
        """Return the logits of labelled instances, computed at the driver."""
        if self.posterior.likelihood == "binary":
            return super()._trained_logits(idx)
        return np.asarray(self.rows(idx) @ to_numpy(self.posterior.mean))

    def _room(self, n: int) -> tuple[Any, Any, Any]:
        return Sparse(n, -1, np.int16), Sparse(n, 1.0, np.float64), Sparse(n, Where.FREE, np.int8)
