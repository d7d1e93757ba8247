"""The code of a Ray actor: the rows of some shards, and the logits of these rows for each pool.

One actor serves several pools, each under a key: the page's, and one that is retrained in the background.
Every call carries the number of steps that the pool has taken. A restarted actor has taken fewer, and raises
`Behind`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.scale.shards import load
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.cached_logits import LocalLogits
from everylabel.selection.pool.features import Features
from everylabel.selection.pool.view import TIE

SPARE = 64  # additional candidates of each part, to break ties between parts
Score = Callable[[PoolView, np.ndarray], np.ndarray]


class Behind(Exception):
    """The actor was restarted and has not taken all steps of the pool."""


class NoVariances(Exception):
    """Variances were requested before they were computed."""


class Candidates(NamedTuple):
    """The best instances of a part: their positions in it, their scores, and the largest absolute score."""

    idx: np.ndarray
    scores: np.ndarray
    size: float


def in_ties(scores: np.ndarray, tie: float) -> np.ndarray:
    """Return scores rounded to multiples of `tie`, so that tied scores are equal."""
    return np.where(np.isfinite(scores), np.round(scores / tie), scores) if tie else scores


class Part(PoolView):
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
            return lambda w: self.product(w, idx), self.norms(None, idx)
        return super().inner(idx)

    def product(self, w: np.ndarray, idx: Any) -> np.ndarray:
        """Return X[idx] w."""
        return self.numbers.features.product(w)[..., idx]

    def norms(self, form: np.ndarray | None, idx: Any) -> np.ndarray:
        """Return h' form h of some instances; |h|^2 without `form`."""
        features = self.numbers.features
        return (features.norms() if form is None else features.quadratic(form))[idx]

    def scores(self, score: Score, idx: np.ndarray) -> np.ndarray:
        """Return the scores of some instances."""
        return score(self, idx)

    def candidates(self, score: Score, n: int) -> Candidates:
        """Return the n free instances with the highest scores, and up to `SPARE` more."""
        idx = self.free_idx
        scores = score(self, idx) if len(idx) else np.zeros(0)
        scores = np.where(np.isnan(scores), -np.inf, scores)
        finite = np.abs(scores[np.isfinite(scores)])
        size, most = float(finite.max(initial=0.0)), min(n + SPARE, len(idx))
        near = np.arange(0)
        if most:
            near = np.flatnonzero(scores >= np.partition(scores, -most)[-most] - TIE * size)
        few = near[np.argsort(-in_ties(scores[near], TIE * size), kind="stable")[:most]]
        return Candidates(idx[few], scores[few], size)

    def guesses(self, present: int) -> np.ndarray:
        """Return the number of instances that are predicted as each of the first `present` columns."""
        return np.bincount(self.logits()[:, :present].argmax(axis=1), minlength=present)


def narrowness(part: PoolView, idx: np.ndarray) -> np.ndarray:
    """Return the scores of the strategy margin."""
    return -part.margins(idx)


class Worker:
    """The object behind a Ray actor."""

    def __init__(self, places: Sequence[str]) -> None:
        self.array = load(places)
        self.parts: dict[str, Part] = {}

    def stored_type(self) -> str:
        """Return the type of the stored rows."""
        return self.array.dtype.str

    def raw(self, idx: np.ndarray) -> np.ndarray:
        """Return rows as they are stored."""
        return np.asarray(self.array[idx])

    def begin(
        self,
        key: str,
        steps: int,
        start: int,
        bias: bool,
        mean: np.ndarray,
        binary: bool,
        taken: Any,
        known: Posterior | None,
    ) -> None:
        """Begin a pool with the logits of a mean, the variances of a posterior, and the places of instances.

        taken : positions in the whole pool, and the place of each
        known : the posterior; None if no variances are needed
        """
        part = Part(LocalLogits(Features.of(self.array, bias)), binary, start)
        part.numbers.reset(mean)
        if known is not None:
            part.numbers.find_variances(known)
        part.place(*taken)
        part.steps = steps
        self.parts[key] = part

    def end(self, key: str) -> None:
        """Drop a pool."""
        self.parts.pop(key, None)

    def step(self, key: str, steps: int, name: str, args: Sequence[Any]) -> None:
        """Call a method of `LocalLogits`, or `place`, that changes a pool."""
        part = self._part(key, steps)
        getattr(part if name == "place" else part.numbers, name)(*args)
        part.steps += 1

    def ask(self, key: str, steps: int, name: str, args: Sequence[Any]) -> Any:
        """Return the answer of a method of `Part`."""
        return getattr(self._part(key, steps), name)(*args)

    def _part(self, key: str, steps: int) -> Part:
        part = self.parts.get(key)
        if part is None or part.steps != steps:
            raise Behind
        return part
