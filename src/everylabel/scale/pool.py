"""A pool whose features lie in shards: the posterior is here, logits and variances with the actors.

It is a `Pool` with other numbers: a label updates the posterior here, and the actors get the factors of the
step. Strategies run on it unchanged. Scores are computed by the actors, and each returns its best candidates;
strategies that need an array of all free instances get it. While an actor is away, its instances are not
free.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.scale.cached_logits import CachedLogits
from everylabel.scale.driver_sample import DriverSample
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.worker import Score, Unknown, in_ties, narrowness
from everylabel.selection.pool import Pool, PoolView, Where
from everylabel.selection.pool.complement import Complement, all_but
from everylabel.selection.pool.sparse import Sparse
from everylabel.selection.ranking import TIE, best
from everylabel.selection.threads import worth_compiling


class ShardPool(Pool):
    """A pool over `ShardedFeatures`, or those on scale (`Scaled`); all else is as in `Pool`.

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

    can_scan = False  # its logits are with the actors

    def __init__(self, features: ShardedFeatures, posterior: Posterior, **options: Any) -> None:
        self._free: Any = None
        self._sample: DriverSample | None = None
        super().__init__(features, posterior, **options)

    def placed(self, *places: Where) -> Any:
        """Return the instances that are in one of these places; free ones as all but the others."""
        idx, where = self.state.unusual()
        if Where.FREE in places:
            return all_but(len(self), idx[~np.isin(where, places)])
        return idx[np.isin(where, places)]

    @property
    def free_idx(self) -> Any:
        """Return the free instances of the parts that are here, as all but the others."""
        if self._free is None:
            away = [(part.start, part.stop) for part in self.numbers.away()]
            self._free = all_but(len(self), self.state.unusual()[0], away)
        return self._free

    @property
    def numbers(self) -> CachedLogits:
        return self._cached  # type: ignore[return-value]

    def put(self, idx: int, where: Where, label: int | None = None, weight: float = 1.0, **how: Any) -> None:
        i = self._check_one(idx)
        before = dict(self.numbers.moves)
        self.numbers.moves[i] = int(where) if where in list(Where) else int(self.state[i])
        self._free = None
        if self._sample is not None:
            self._sample.keep(i)  # its row stays here, whatever becomes of its shard
        try:
            super().put(idx, where, label, weight, **how)
        except BaseException:
            self.numbers.moves = before
            raise

    def refit(self, posterior: Posterior) -> None:
        self._free = None
        super().refit(posterior)

    def close(self) -> None:
        """Have the actors drop this pool; the features stay."""
        self.numbers.end()

    def at_hand(self, rng: np.random.Generator | None = None) -> DriverSample:
        """Return a random sample whose rows are here; with `rng`, a few instances are replaced by others."""
        if self._sample is None:
            self._sample = DriverSample(self)
        elif rng is not None:
            self._sample.exchange(rng)
        return self._sample

    def guessed(self, present: int) -> np.ndarray:
        """Return how many instances each column is the likeliest of, in the parts that are here."""
        return sum((found for _, found in self.numbers.ask("guesses", present)), np.zeros(present, np.int64))

    def margins(self, idx: np.ndarray) -> np.ndarray:
        return self.numbers.gather(idx, _margins)

    def narrowest(self, idx: np.ndarray) -> int:
        """Return the position in idx of the smallest margin."""
        size = 1.0 if worth_compiling(len(self) * self.n_classes) else None  # as the local pool has ties
        return int(self._top(narrowness, idx, 1, size, ("narrow_candidates",))[0])

    def smallest_margins(self, idx: np.ndarray, n: int) -> np.ndarray:
        return self._top(narrowness, idx, n, 0.0) if n else np.zeros(0, np.int64)

    def top(self, score: Score, idx: np.ndarray, n: int) -> np.ndarray:
        try:
            return self._top(score, idx, n)
        except Unknown:
            self.numbers.find_variances(self.posterior)
            return self._top(score, idx, n)

    def inner(self, idx: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        """Return w -> H[idx] w and |h|^2 of idx, both computed where the instances are."""
        collect, dtype = self.numbers.collect, self.dtype
        fold, folds = self.numbers.features.fold, self.numbers.features.folds

        def along(w: np.ndarray) -> np.ndarray:
            return collect(idx, "product", np.asarray(fold(w), dtype), axis=w.ndim - 1)

        form = None if folds is None else folds @ folds.T  # |h|^2 = [x 1] T T' [x 1]'
        return along, collect(idx, "norms", form)

    def _top(
        self, score: Score, idx: np.ndarray, n: int, size: float | None = None, ask: tuple[Any, ...] = ()
    ) -> np.ndarray:
        """Return the positions in idx of the n highest scores; of ties, the lowest positions.

        size : scores closer than TIE times this are a tie; the largest score of all unless given
        ask : a method of the parts that returns candidates sooner, and its arguments
        """
        if not self._is_free(idx):
            return best(self.numbers.gather(idx, score), n)
        asked = self.numbers.ask(*(ask or ("candidates", score, n)))
        some = np.concatenate([part.start + found.idx for part, found in asked])
        scores = np.concatenate([found.scores for _, found in asked])
        at = np.searchsorted(idx, some)
        usable = np.asarray(idx[np.minimum(at, len(idx) - 1)] == some)  # else its part came back meanwhile
        at, scores = at[usable], scores[usable]
        if len(at) < n:
            return best(self.numbers.gather(idx, score), n)
        tie = TIE * (max(found.size for _, found in asked) if size is None else size)
        if n > 1:
            return at[np.lexsort((at, -in_ties(scores, tie)))[:n]]
        chosen = at[scores >= scores.max() - tie].min()
        rows = self.numbers.sharded.fetch(np.asarray([idx[chosen]]), wait=False)
        self.numbers.sharded.cache(*rows)  # its label can then be learned without its actor
        return np.asarray([chosen])

    def _is_free(self, idx: np.ndarray) -> bool:
        """Return whether these are all free instances that can be asked."""
        if idx is self._free:
            return True
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
        """Return the logits of labelled instances, computed here: the same to the bit at every start."""
        if self.posterior.likelihood == "binary":
            return super()._trained_logits(idx)
        return np.asarray(self.rows(idx) @ to_numpy(self.posterior.mean))

    def _room(self, n: int) -> tuple[Any, Any, Any]:
        return Sparse(n, -1, np.int16), Sparse(n, 1.0, np.float64), Sparse(n, Where.FREE, np.int8)


def _margins(part: PoolView, idx: np.ndarray) -> np.ndarray:
    return part.margins(idx)
