"""The code of a Ray actor: the rows of some shards, and the logits of these rows for each pool.

One actor serves several pools, each under a key: the page's, and one that is retrained in the background.
Every call carries the number of steps that the pool has taken. A restarted actor has taken fewer, and answers
False or None.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.scale.shards import Shard, load
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.cached_logits import LocalLogits
from everylabel.selection.pool.features import Features, LazyFeatures, LazyScaled
from everylabel.selection.pool.view import TIE, best

SPARE = 64  # additional candidates of each part, to break ties between parts
Score = Callable[[PoolView, np.ndarray], np.ndarray]
Candidates = tuple[np.ndarray, np.ndarray, float]  # positions in the part, scores, the largest absolute score


class NoVariances(Exception):
    """Variances were requested before they were computed."""


class PartPool(PoolView):
    """The instances of some shards as a pool that strategies can score."""

    multi_label = False  # refused for pools in shards

    def __init__(self, numbers: LocalLogits, binary: bool, start: int) -> None:
        self.numbers, self.binary, self.start = numbers, binary, start
        self.state = np.zeros(numbers.n, np.int8)
        self.labels, self.auto_step = np.zeros(0, np.int8), 0.0  # only the driver has them
        self.dtype = numbers.features.dtype
        self.steps = 0

    def __len__(self) -> int:
        return self.numbers.n

    @property
    def posterior(self) -> Posterior:
        raise NotImplementedError("a part has no posterior: the score of an instance cannot depend on it")

    def logits(self, idx: Any = None) -> np.ndarray:
        return self.numbers.logits_of(idx, self.binary)

    def variances(self, idx: Any = None) -> np.ndarray:
        if not self.numbers.has_variances:
            raise NoVariances
        return self.numbers.variances(idx)

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        return self.numbers.features.rows(idx, dtype)

    def place(self, idx: np.ndarray, where: np.ndarray) -> None:
        """Set the places of instances, given by their positions in the whole pool."""
        own = (idx >= self.start) & (idx < self.start + len(self))
        self.state[idx[own] - self.start] = where[own]

    def margins(self, idx: np.ndarray) -> np.ndarray:
        found = self.numbers.margins(idx)
        return super().margins(idx) if found is None else found

    def inner(self, idx: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        if 2 * len(idx) > len(self):
            return lambda w: self.product(w, idx), self.norms(idx)
        return super().inner(idx)

    def product(self, w: np.ndarray, idx: Any) -> np.ndarray:
        """Return X[idx] w."""
        return self.numbers.features.product(w)[..., idx]

    def norms(self, idx: Any) -> np.ndarray:
        """Return |h|^2 of some instances."""
        return self.numbers.features.norms()[idx]

    def scores(self, score: Score, idx: np.ndarray) -> np.ndarray:
        """Return the scores of some instances."""
        return score(self, idx)

    def candidates(self, score: Score, n: int) -> Candidates:
        """Return the n free instances with the highest scores, and up to `SPARE` more."""
        idx = self.free_idx
        if not len(idx):
            return idx, np.zeros(0), 0.0
        scores = score(self, idx)
        scores = np.where(np.isnan(scores), -np.inf, scores)
        finite = np.abs(scores[np.isfinite(scores)])
        size, most = float(finite.max(initial=0.0)), min(n + SPARE, len(idx))
        near = np.flatnonzero(scores >= np.partition(scores, -most)[-most] - TIE * size)
        few = near[best(scores[near], most, size)]
        return idx[few], scores[few], size

    def guesses(self, present: int) -> np.ndarray:
        """Return the number of instances that are predicted as each of the first `present` columns."""
        return np.bincount(self.logits()[:, :present].argmax(axis=1), minlength=present)


def narrowness(part: PoolView, idx: np.ndarray) -> np.ndarray:
    """Return the scores of the strategy margin."""
    return -part.margins(idx)


class Worker:
    """The object behind a Ray actor."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.array = load(shards)
        self.parts: dict[str, PartPool] = {}

    def raw(self, idx: np.ndarray) -> np.ndarray:
        """Return rows as they are stored."""
        return np.asarray(self.array[idx])

    def begin(
        self,
        key: str,
        steps: int,
        start: int,
        scaling: tuple[np.ndarray, np.ndarray] | None,
        mean: np.ndarray,
        taken: Any,
        known: Posterior | None,
    ) -> None:
        """Begin a pool with the logits of a mean, the variances of a posterior, and the places of instances.

        scaling : center and matrix; None if the features are not scaled
        taken : positions in the whole pool, and the place of each
        known : the posterior; None if no variances are needed
        """
        bias, binary = len(mean) > self.array.shape[1], mean.shape[1] == 1
        features = (
            Features.of(self.array, bias)
            if scaling is None
            else LazyFeatures(LazyScaled(self.array, *scaling))
        )
        part = PartPool(LocalLogits(features), binary, start)
        part.numbers.reset(mean)
        if known is not None:
            part.numbers.find_variances(known)
        part.place(*taken)
        part.steps = steps
        self.parts[key] = part

    def end(self, key: str) -> None:
        """Drop a pool."""
        self.parts.pop(key, None)

    def step(self, key: str, steps: int, name: str, args: Sequence[Any]) -> bool:
        """Change a pool by a method of `LocalLogits`, or `place`; return whether it was up to date."""
        part = self._part(key, steps)
        if part is not None:
            getattr(part if name == "place" else part.numbers, name)(*args)
            part.steps += 1
        return part is not None

    def ask(self, key: str, steps: int, name: str, args: Sequence[Any]) -> Any:
        """Return the answer of a method of `PartPool`; None if the pool is not up to date."""
        part = self._part(key, steps)
        return None if part is None else getattr(part, name)(*args)

    def _part(self, key: str, steps: int) -> PartPool | None:
        part = self.parts.get(key)
        return part if part is not None and part.steps == steps else None
