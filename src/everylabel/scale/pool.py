"""A pool whose features are in shards: the posterior is at the driver, logits and variances at the actors.

It is a `Pool` with another cache: a label updates the posterior at the driver, and the actors get the factors
of the step, a few KB. Strategies run unchanged. The actors compute scores, and each returns its best
candidates; a strategy that needs an array of all free instances gets it. An actor that was restarted has
missed steps; it begins again from the driver's posterior.

Herding, look-ahead, Badge and Typiclust need the rows of a thousand instances per pick, 2 to 5 MB from the
actors. They choose among `SIZE` instances whose rows are at the driver. Each pick replaces `EXCHANGED` bytes
of them by instances drawn at random, so that in time the whole pool is seen.
"""

import itertools
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.checks import check_posterior
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.scale.features import BACKGROUND, ShardedFeatures
from everylabel.scale.worker import NoVariances, Score, narrowness
from everylabel.selection.pool import Pool, PoolView, Where
from everylabel.selection.pool.features import Features, LazyFeatures, LazyScaled
from everylabel.selection.pool.sparse import Complement, Sparse, all_but
from everylabel.selection.pool.view import best, shared_cov

SIZE = 8000  # instances in the driver's sample
FIXED = 1000  # instances of the sample that are never replaced: the mean confidence is computed on them
EXCHANGED = 2**15  # bytes of rows that each pick replaces
TRIES = 10  # times that an actor may be restarted while it computes one answer

_count = itertools.count()
logger = logging.getLogger(__name__)


@dataclass
class ActorPart:
    """One actor's part of a pool, as the driver sees it."""

    actor: Any
    start: int
    stop: int
    live: bool = False  # it has taken all steps


class Fetched(Features):
    """Features of which single rows are fetched from the actors."""

    def take(self, idx: Any) -> np.ndarray:
        return np.asarray(self.array[np.asarray(idx, np.int64)])


class CachedLogits:
    """Logits and variances that the actors cache.

    features : `ShardedFeatures`, or these as `LazyScaled`
    state, now : return the places of all instances, and the posterior that the logits belong to
    """

    def __init__(
        self, features: Any, bias: bool, state: Callable[[], Sparse], now: Callable[[], Posterior]
    ) -> None:
        lazy = isinstance(features, LazyScaled)
        self.features = LazyFeatures(features) if lazy else Fetched.of(features, bias)
        self.sharded: ShardedFeatures = features.raw if lazy else features
        self.scaling = (features.center, features.matrix) if lazy else None
        self.key = f"{os.getpid()}-{next(_count)}"
        bounds = itertools.pairwise(self.sharded.starts.tolist())
        self.parts = [
            ActorPart(actor, *bound) for actor, bound in zip(self.sharded.actors, bounds, strict=True)
        ]
        self._state, self._posterior = state, now
        self.moves: dict[int, int] = {}  # new places of instances that the actors do not know yet
        self.steps = 0
        self.has_variances = False

    def reset(self, mean: np.ndarray) -> None:
        """Compute the logits of another mean, on all actors."""
        self.steps += 1
        self.has_variances = False
        for part in self.parts:
            part.live = False
        self._begin(mean)

    def move(self, v: np.ndarray, residual: np.ndarray, taken: float) -> None:
        """Follow a step along one direction."""
        self.step("move", self._short(v), self._short(residual), taken)

    def replace(self, moved: np.ndarray, columns: np.ndarray, v: np.ndarray | None, taken: float) -> None:
        """Recompute the logits of some columns."""
        self.step("replace", moved, self._short(columns), None if v is None else self._short(v), taken)

    def add_classes(self, k: int) -> None:
        """Extend the logits to k classes."""
        self.step("add_classes", k)

    def forget_variances(self) -> None:
        """Drop the variances; the next request computes them again."""
        if self.has_variances:
            self.has_variances = False
            self.step("forget_variances")

    def find_variances(self, posterior: Posterior) -> None:
        """Compute the variances from scratch."""
        self.has_variances = True
        self.step("find_variances", posterior.replace(data=None))

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return variances that were computed."""
        return self.collect(idx, "variances")

    def logits_of(self, idx: Any, binary: bool) -> np.ndarray:
        """Return logits (n, k)."""
        return self.collect(idx, "logits")

    def extend(self, features: Any, posterior: Posterior) -> None:
        """Refuse new instances: shards do not grow."""
        raise EverylabelError(
            "features cannot be added to a pool in shards; put another shard into the folder and start again"
        )

    def step(self, name: str, *args: Any) -> None:
        """Take a step on all actors."""
        live = [part for part in self.parts if part.live]
        calls = [part.actor.step.remote(self.key, self.steps, name, args) for part in live]
        self.steps += 1
        self._mark(live, self.sharded.answers(calls))

    def ask(self, name: str, *args: Any) -> list[tuple[ActorPart, Any]]:
        """Return each part with its answer."""
        return list(zip(self.parts, self._ask(name, [(part, args) for part in self.parts]), strict=True))

    def collect(self, idx: Any, name: str, *args: Any, axis: int = 0) -> np.ndarray:
        """Call a method of the parts on instances; return the answers in the order of `idx` along `axis`."""
        idx = np.arange(self.features.n) if idx is None else np.asarray(idx, np.int64).reshape(-1)
        asked = [
            (part, at)
            for part, at in zip(self.parts, self.sharded.parts(idx), strict=True)
            if len(at) or (not len(idx) and part is self.parts[0])
        ]
        answers = self._ask(name, [(part, (*args, idx[at] - part.start)) for part, at in asked])
        order = np.argsort(np.concatenate([at for _, at in asked]), kind="stable")
        return np.take(np.concatenate(answers, axis=axis), order, axis=axis)

    def send_moves(self) -> None:
        """Send new places of instances to the actors."""
        if self.moves:
            moves, self.moves = self.moves, {}
            idx, where = list(moves), list(moves.values())
            self.step("place", np.asarray(idx, np.int64), np.asarray(where, np.int8))

    def end(self) -> None:
        """Drop this pool on all actors."""
        for part in self.parts:
            part.actor.end.remote(self.key)

    def _ask(self, name: str, calls: list[tuple[ActorPart, tuple[Any, ...]]]) -> list[Any]:
        """Return the answers of some parts to a question each; ask again if an actor was restarted."""
        self.send_moves()
        for _ in range(TRIES):
            self._begin(to_numpy(self._posterior().mean))
            refs = [part.actor.ask.remote(self.key, self.steps, name, args) for part, args in calls]
            answers = self.sharded.answers(refs)
            self._mark([part for part, _ in calls], [answer is not None for answer in answers])
            if all(part.live for part, _ in calls):
                return answers
        raise EverylabelError(
            f"actors died {TRIES} times while they computed {name!r}; expected nodes with enough memory for "
            "their shards"
        )

    def _mark(self, parts: list[ActorPart], up_to_date: list[bool]) -> None:
        """Note which parts have taken all steps; the others begin again before the next answer."""
        for part, live in zip(parts, up_to_date, strict=True):
            part.live = live
            if not live:
                logger.warning("an actor with shards died and was restarted; its logits are computed again")

    def _begin(self, mean: np.ndarray) -> None:
        """Begin this pool again on actors that have missed a step, from the current posterior and places."""
        lost = [part for part in self.parts if not part.live]
        how = self.scaling, self._short(mean)
        known = self._posterior().replace(data=None) if self.has_variances else None
        calls = []
        for part in lost:
            begin = part.actor.begin.options(concurrency_group=BACKGROUND)
            taken = self._state().unusual(part.start, part.stop)
            calls.append(begin.remote(self.key, self.steps, part.start, *how, taken, known))
        self.sharded.answers(calls)
        for part in lost:
            part.live = True

    def _short(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers in the precision of the actors."""
        return np.asarray(numbers, self.features.dtype)


class DriverSample(PoolView):
    """A random sample of a pool, with its rows at the driver; strategies choose among its instances."""

    def __init__(self, pool: "ShardPool") -> None:
        self._pool, self._sharded = pool, pool.numbers.sharded
        if self._sharded.sample is None:
            n = len(pool)
            drawn: np.ndarray = np.random.default_rng(0).choice(n, min(n, SIZE), replace=False)
            self._sharded.sample = drawn, self._sharded.fetch(drawn)
        self._idx, self._raw = self._sharded.sample
        self._rows = self._scaled(self._raw)
        self._exchanged = 0
        self.state, self.labels, self.dtype = pool.state, pool.labels, pool.dtype

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def posterior(self) -> Posterior:
        return self._pool.posterior

    def placed(self, *places: Where) -> Any:
        return self._pool.placed(*places)

    @property
    def free_idx(self) -> np.ndarray:
        return np.sort(self._idx[self.state[self._idx] == Where.FREE])

    @property
    def auto_step(self) -> float:  # type: ignore[override]
        return self._pool.auto_step

    def logits(self, idx: Any = None) -> np.ndarray:
        mean: np.ndarray = to_numpy(self.posterior.mean).astype(self.dtype)
        found = self.rows(idx, self.dtype) @ mean
        return np.c_[np.zeros_like(found), found] if self.posterior.likelihood == "binary" else found

    def variances(self, idx: Any = None) -> np.ndarray:
        rows = self.rows(idx, self.dtype)
        return np.einsum("nd,nd->n", rows @ shared_cov(self.posterior).astype(self.dtype), rows)

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        idx = np.arange(len(self)) if idx is None else np.asarray(idx, np.int64).reshape(-1)
        order = np.argsort(self._idx)
        slots = order[np.searchsorted(self._idx, idx, sorter=order) % len(order)]
        here = self._idx[slots] == idx
        out = np.empty((len(idx), self._rows.shape[1]), dtype)
        out[here] = self._rows[slots[here]]
        if not here.all():  # labelled instances, whose rows are cached at the driver
            out[~here] = self._pool.rows(idx[~here], dtype)
        return out

    def exchange(self, rng: np.random.Generator) -> None:
        """Replace some instances by free ones drawn at random."""
        size, fixed = len(self._idx), min(FIXED, len(self._idx))
        many = min(EXCHANGED // max(1, self._raw[0].nbytes), size - fixed)
        drawn = np.setdiff1d(rng.integers(len(self), size=many), self._idx)
        new = drawn[self.state[drawn] == Where.FREE]
        raw = self._sharded.fetch(new)
        slots = fixed + (self._exchanged + np.arange(len(new))) % max(1, size - fixed)
        self._exchanged += len(new)
        self._idx[slots], self._raw[slots], self._rows[slots] = new, raw, self._scaled(raw)

    def _scaled(self, raw: np.ndarray) -> np.ndarray:
        """Return rows as the model sees them, with the bias column."""
        features, bias = self._pool.features, self._pool.numbers.features.bias
        seen = features.of(raw)[:] if isinstance(features, LazyScaled) else raw
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
        collect = self.numbers.collect
        return lambda w: collect(idx, "product", w, axis=w.ndim - 1), collect(idx, "norms")

    def _top(self, score: Score, idx: np.ndarray, n: int, size: float | None = None) -> np.ndarray:
        """Return the positions in idx of the n highest scores; of ties, the lowest positions.

        size : scores closer than TIE times this are a tie; by default the largest score
        """
        if not self._are_all_free(idx):
            return best(self.numbers.collect(idx, "scores", score), n)
        asked = self.numbers.ask("candidates", score, n)
        at = np.searchsorted(idx, np.concatenate([part.start + own for part, (own, _, _) in asked]))
        scores = np.concatenate([own for _, (_, own, _) in asked])
        order = np.argsort(at)
        size = max(own for _, (_, _, own) in asked) if size is None else size
        return at[order[best(scores[order], n, size)]]

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
        return CachedLogits(features, posterior.bias, lambda: self.state, lambda: self._cached_at)

    def _blank(self, n: int) -> tuple[Any, Any, Any]:
        return Sparse(n, -1, np.int16), Sparse(n, 1.0, np.float64), Sparse(n, Where.FREE, np.int8)
