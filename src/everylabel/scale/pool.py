"""A pool whose features lie in shards: the posterior here, logits and variances with the actors.

It is `Pool`, with other numbers: what a label does to the posterior is done here, and the actors get the
factors of the step. Strategies run on it unchanged. What looks at each instance by itself is looked at where
the instances are, and a few of each part come back; those that need an array of all free instances get it.
While an actor is away, its instances are not free.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.held import Held
from everylabel.scale.numbers import Part, ShardedNumbers
from everylabel.scale.worker import Few, Unknown
from everylabel.selection.pool import Pool, PoolView, Where
from everylabel.selection.pool.rest import Rest, all_but
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

    is_here = False  # its logits are with the actors, which compute them anew

    def __init__(self, features: ShardedFeatures, posterior: Posterior, **options: Any) -> None:
        self._free: Any = None
        self._held: Held | None = None
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
    def numbers(self) -> ShardedNumbers:
        return self._cache.numbers  # type: ignore[return-value]

    def put(self, idx: int, where: Where, label: int | None = None, weight: float = 1.0, **how: Any) -> None:
        i = self._check_one(idx)
        before = dict(self.numbers.moves)
        self.numbers.moves[i] = int(where) if where in list(Where) else int(self.state[i])
        self._free = None
        if self._held is not None:
            self._held.keep(i)  # its row stays here, whatever becomes of its shard
        try:
            super().put(idx, where, label, weight, **how)
        except BaseException:
            self.numbers.moves = before
            raise

    def refit(self, posterior: Posterior) -> None:
        self._free = None
        super().refit(posterior)

    def close(self) -> None:
        """Have the actors let go of this pool; the features stay."""
        self.numbers.end()

    def at_hand(self, rng: np.random.Generator | None = None) -> "Held":
        """Return a random sample whose rows are here; with `rng`, a few of it are exchanged for others."""
        if self._held is None:
            self._held = Held(self)
        elif rng is not None:
            self._held.exchange(rng)
        return self._held

    def guessed(self, present: int) -> np.ndarray:
        """Return how many instances each column is the likeliest of, in the parts that are here."""
        return sum((found for _, found in self.numbers.ask("guesses", present)), np.zeros(present, np.int64))

    def kept(self) -> dict[str, np.ndarray]:
        raise EverylabelError("a pool in shards is not kept; its log is replayed")

    def margins(self, idx: np.ndarray) -> np.ndarray:
        return self.numbers.gather(idx, _margins)

    def narrowest(self, idx: np.ndarray) -> int:
        """Return the position in idx of the smallest margin: if idx is all, by what the last step brought."""
        if not self._is_free(idx):
            return int(best(-self.margins(idx), 1)[0])
        numbers = self.numbers
        if numbers.few is None or numbers.moves:
            numbers.want_few = True
            numbers.few = numbers.ask("narrowest_few")
        found = _within(numbers.few, idx)
        if not found:
            return int(best(-self.margins(idx), 1)[0])
        size = 1.0 if worth_compiling(len(self) * self.n_classes) else max(f.size for _, f in found)
        return self._at(idx, found, size)

    def smallest_margins(self, idx: np.ndarray, n: int) -> np.ndarray:
        if not self._is_free(idx):
            return super().smallest_margins(idx, n)
        positions, scores = _joined(_within(self.numbers.ask("narrow_few", n), idx))
        if len(positions) < n:
            return super().smallest_margins(idx, n)
        order = np.lexsort((positions, -scores))[:n]
        return np.searchsorted(idx, positions[order])

    def top(self, score: Callable[[PoolView, np.ndarray], np.ndarray], idx: np.ndarray, n: int) -> np.ndarray:
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
        self, score: Callable[[PoolView, np.ndarray], np.ndarray], idx: np.ndarray, n: int
    ) -> np.ndarray:
        if not self._is_free(idx):
            return best(self.numbers.gather(idx, score), n)
        found = _within(self.numbers.ask("top_few", score, n), idx)
        if sum(len(few.idx) for _, few in found) < n:
            return best(self.numbers.gather(idx, score), n)
        size = max((few.size for _, few in found), default=0.0)
        if n == 1:
            return np.asarray([self._at(idx, found, size)])
        positions, chosen, last = _best(found, size, n)
        if last <= max(
            (_rounded(few.left, size) for _, few in found), default=-np.inf
        ):  # a tie may be left off
            found = _within(self.numbers.ask("top_exactly", score, n, TIE * size), idx)
            positions, chosen, _ = _best(found, size, n)
            if len(chosen) < n:
                return best(self.numbers.gather(idx, score), n)
        return np.searchsorted(idx, positions[chosen])

    def _is_free(self, idx: np.ndarray) -> bool:
        """Return whether these are all free instances that can be asked."""
        if idx is self._free:
            return True
        if isinstance(idx, Rest):
            return idx.same(self.free_idx)
        return len(idx) == len(self.free_idx) and np.array_equal(idx, self.free_idx)

    def _at(self, idx: np.ndarray, found: list[tuple[Part, Few]], size: float) -> int:
        """Return where in idx the best is, and have its row here: it is about to be shown."""
        features, position = self.numbers.sharded, _first(found, size)
        for part, few in found:
            if few.rows is not None and part.start <= position < part.stop:
                features.keep(part.start + few.idx[-len(few.rows) :], few.rows)
        return int(np.searchsorted(idx, position))

    def _numbers(self, features: Any, posterior: Posterior) -> Any:
        if not isinstance(getattr(features, "raw", features), ShardedFeatures):
            raise EverylabelError(
                f"features is a {type(features).__name__}; expected ShardedFeatures(folder, ray=...)"
            )
        return ShardedNumbers(features, posterior, lambda: self.state, lambda: self._cache.posterior)

    def _trained_logits(self, idx: np.ndarray) -> np.ndarray:
        """Return the logits of labelled instances, computed here: the same to the bit at every start."""
        if self.posterior.likelihood == "binary":
            return super()._trained_logits(idx)
        return np.asarray(self.rows(idx) @ to_numpy(self.posterior.mean))

    def _room(self, n: int) -> tuple[Any, Any, Any]:
        return Sparse(n, -1, np.int16), Sparse(n, 1.0, np.float64), Sparse(n, Where.FREE, np.int8)


def _margins(part: PoolView, idx: np.ndarray) -> np.ndarray:
    return part.margins(idx)


def _first(found: list[tuple[Part, Few]], size: float) -> int:
    """Return the first instance whose score is the highest but for a tie."""
    positions, scores = _joined(found)
    order = np.argsort(positions)
    near = scores[order] >= scores.max() - TIE * size
    return int(positions[order][np.argmax(near)])


def _within(found: list[tuple[Part, Few]], idx: np.ndarray) -> list[tuple[Part, Few]]:
    """Return what is said of idx: a part that was away when that was made may be back meanwhile."""
    kept = []
    for part, few in found:
        positions = part.start + few.idx
        at = np.minimum(np.searchsorted(idx, positions), max(len(idx) - 1, 0))
        here = idx[at] == positions if len(idx) else np.zeros(len(positions), bool)
        if here.all() and len(here):
            kept.append((part, few))
        elif here.any():
            kept.append((part, few._replace(idx=few.idx[here], scores=few.scores[here], rows=None)))
    return kept


def _joined(found: list[tuple[Part, Few]]) -> tuple[np.ndarray, np.ndarray]:
    none = np.zeros(0, np.int64)
    positions = np.concatenate([none, *(part.start + few.idx for part, few in found)])
    return positions, np.concatenate([np.zeros(0), *(few.scores for _, few in found)])


def _rounded(scores: Any, size: float) -> Any:
    return np.where(np.isfinite(scores), np.round(scores / (TIE * size)), scores) if size > 0.0 else scores


def _best(found: list[tuple[Part, Few]], size: float, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return all positions, which of them are the n best, and the (rounded) score of the last of these."""
    positions, scores = _joined(found)
    rounded = _rounded(scores, size)
    chosen = np.lexsort((positions, -rounded))[:n]
    return positions, chosen, float(rounded[chosen[-1]]) if len(chosen) else -np.inf
