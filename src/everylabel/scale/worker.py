"""What runs in an actor: the rows of some shards, and for each pool over them logits that follow.

One actor serves several pools (the page's, and the one that is trained beside it), each by a key. A call says
how many steps a pool has seen: an actor that has seen others was started anew meanwhile, and is `Behind`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.scale.shards import load
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.pool.features import Features
from everylabel.selection.pool.numbers import Numbers
from everylabel.selection.ranking import TIE, smallest

SPARE = 64  # answers beyond those asked for, so that ties of other parts can be told
ROWS = 4  # rows that come with the best of a part
MOST = 4096  # best so far, from left to right, that an answer holds


class Behind(Exception):
    """The actor has not seen all that the pool has: it was started anew."""


class Unknown(Exception):
    """Variances are asked for, and none have been computed yet."""


class Few(NamedTuple):
    """The best of a part: their positions in it and scores, what the largest score is, what was left off."""

    idx: np.ndarray
    scores: np.ndarray
    size: float
    left: float  # the best score that is not here
    rows: np.ndarray | None = None  # of the last of them as they came: the best, if there are few


class Part(PoolView):
    """The instances of some shards as a pool that strategies may score."""

    def __init__(self, numbers: Numbers, binary: bool) -> None:
        self.numbers, self.binary = numbers, binary
        self.state = np.zeros(numbers.n, np.int8)
        self.labels, self.auto_step = np.zeros(0, np.int8), 0.0  # only the driver knows
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
            raise Unknown
        return self.numbers.variances(idx)

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        return self.numbers.features.rows(idx, dtype)

    def margins(self, idx: np.ndarray) -> np.ndarray:
        found = self.numbers.margins(idx)
        return super().margins(idx) if found is None else found

    def inner(self, idx: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        features = self.numbers.features
        if 2 * len(idx) > len(self):
            return lambda w: features.product(w)[..., idx], features.norms()[idx]
        return super().inner(idx)

    def narrowest_few(self) -> Few:
        """Return the free instances of which one has the smallest margin, whatever other parts hold."""
        usable = self.state == Where.FREE
        if not usable.any():
            return _none()
        found = self.numbers.narrow(usable)
        if found is None:
            idx = np.flatnonzero(usable)
            return self._with_rows(_first(idx, -super().margins(idx), TIE))
        where, margins = found
        return self._with_rows(Few(where, -margins, 1.0, -np.inf))

    def top_few(self, score: Callable[[PoolView, np.ndarray], np.ndarray], n: int) -> Few:
        """Return the free instances of which n have the highest scores, whatever other parts hold."""
        idx = self.free_idx
        if not len(idx):
            return _none()
        scores = score(self, idx)
        if n == 1:
            return self._with_rows(_first(idx, scores, np.inf))
        scores = np.where(np.isnan(scores), -np.inf, scores)
        order = np.argsort(-scores, kind="stable")
        few, rest = order[: 2 * n + SPARE], order[2 * n + SPARE :]
        left = float(scores[rest[0]]) if len(rest) else -np.inf
        return Few(idx[few], scores[few], _size(scores), left)

    def top_exactly(self, score: Callable[[PoolView, np.ndarray], np.ndarray], n: int, tie: float) -> Few:
        """Return the n free instances with the highest scores, those less than a tie apart in their order."""
        idx = self.free_idx
        scores = np.where(np.isnan(given := score(self, idx)), -np.inf, given)
        rounded = np.where(np.isfinite(scores), np.round(scores / tie), scores)
        few = np.argsort(-rounded, kind="stable")[:n]
        return Few(idx[few], scores[few], _size(scores), -np.inf)

    def guesses(self, present: int) -> np.ndarray:
        """Return how many instances each of the first columns is the likeliest of."""
        found = self.logits()[:, :present].argmax(axis=1)
        return np.bincount(found, minlength=present)

    def narrow_few(self, n: int) -> Few:
        """Return the n free instances with the smallest margins."""
        idx = self.free_idx
        margins = self.margins(idx)
        few = smallest(margins, min(n, len(idx)))
        return Few(idx[few], -margins[few], 1.0, -np.inf)

    def _with_rows(self, few: Few) -> Few:
        return few._replace(rows=np.asarray(self.numbers.features.array[few.idx[-ROWS:]]))


class Worker:
    """An actor's object."""

    def __init__(self, places: Sequence[str]) -> None:
        self.array = load(places)
        self.parts: dict[str, Part] = {}

    def about(self) -> tuple[int, int, str]:
        """Return how many rows of how many numbers there are, and their kind."""
        return (*self.array.shape, self.array.dtype.str)

    def raw(self, idx: np.ndarray) -> np.ndarray:
        """Return rows as they came."""
        return np.asarray(self.array[idx])

    def begin(
        self,
        key: str,
        steps: int,
        bias: bool,
        mean: np.ndarray,
        binary: bool,
        taken: Any,
        known: Posterior | None,
    ) -> None:
        """Begin a pool, or begin it anew: logits of this mean, variances by a posterior, who is not free."""
        part = Part(Numbers(Features.of(self.array, bias)), binary)
        part.numbers.reset(mean)
        if known is not None:
            part.numbers.find_variances(known)
        idx, where = taken
        part.state[idx] = where
        part.steps = steps
        self.parts[key] = part

    def end(self, key: str) -> None:
        """Let go of a pool."""
        self.parts.pop(key, None)

    def step(self, key: str, steps: int, taken: Any, name: str, args: Sequence[Any], few: bool) -> Few | None:
        """Make a step of `Numbers`, and take up who is where; with `few`, answer what is best next."""
        part = self._part(key, steps)
        if name:
            getattr(part.numbers, name)(*args)
        idx, where = taken
        part.state[idx] = where
        part.steps += 1
        return part.narrowest_few() if few else None

    def ask(self, key: str, steps: int, name: str, args: Sequence[Any]) -> Any:
        """Return what a part answers."""
        return getattr(self._part(key, steps), name)(*args)

    def score(
        self, key: str, steps: int, score: Callable[[PoolView, np.ndarray], np.ndarray], idx: Any
    ) -> Any:
        """Return the scores of some instances."""
        return score(self._part(key, steps), idx)

    def product(self, key: str, steps: int, w: np.ndarray, idx: Any) -> np.ndarray:
        """Return H[idx] w."""
        return self._part(key, steps).numbers.features.product(w)[..., idx]

    def norms(self, key: str, steps: int, form: np.ndarray | None, idx: Any) -> np.ndarray:
        """Return |h|^2 of some instances, or h' form h."""
        features = self._part(key, steps).numbers.features
        return (features.norms() if form is None else features.quadratic(form))[idx]

    def _part(self, key: str, steps: int) -> Part:
        part = self.parts.get(key)
        if part is None or part.steps != steps:
            raise Behind
        return part


def _none() -> Few:
    return Few(np.zeros(0, np.int64), np.zeros(0), 0.0, -np.inf)


def _size(scores: np.ndarray) -> float:
    finite = scores[np.isfinite(scores)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def _first(idx: np.ndarray, scores: np.ndarray, within: float) -> Few:
    """Return the instances whose score is above all before them: the first above any bound is one of them."""
    usable = np.where(np.isnan(scores), -np.inf, scores)
    near = np.flatnonzero(usable >= usable.max() - within) if np.isfinite(within) else np.arange(len(usable))
    before = np.maximum.accumulate(np.r_[-np.inf, usable[near]])[:-1]
    rising = usable[near] > before
    rising[0] = True
    at = near[rising][-MOST:]
    return Few(idx[at], usable[at], _size(usable), -np.inf)
