"""The interface of a pool for strategies: everything a strategy may read, independent of how it is stored.

n instances, d features (with the bias), k classes; X (n, d) the design. Everything is a NumPy array on the
host. The local pool is one implementation. Another one (sharded over machines, say) derives from PoolView,
implements the abstract methods, and overrides those that it can answer faster in parts.
"""

from abc import abstractmethod
from collections.abc import Callable
from enum import IntEnum
from inspect import get_annotations
from typing import Any, Protocol

import numpy as np

from everylabel.core.arrays import softmax, to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.shared import SharedCovariance
from everylabel.core.posterior import Posterior

TIE = 1e-6  # scores closer than this share of the largest are a tie; the lowest position wins


def best(scores: np.ndarray, n: int, size: float | None = None) -> np.ndarray:
    """Return the positions of the n highest scores; of ties, the lowest positions.

    size : scores closer than TIE times this are a tie; by default the largest score
    """
    usable = np.where(np.isnan(scores), -np.inf, scores)
    if size is None:
        finite = usable[np.isfinite(usable)]
        size = max(-float(finite.min()), float(finite.max())) if finite.size else 0.0
    if n == 1:
        return np.asarray([np.argmax(usable >= usable.max() - TIE * size)])
    if size > 0.0:
        usable = np.where(np.isfinite(usable), np.round(usable / (TIE * size)), usable)
    return np.argsort(-usable, kind="stable")[:n]


def smallest(values: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n smallest values, in order; of equals, the lowest positions."""
    if n == 0:
        return np.empty(0, dtype=np.int64)
    least = np.flatnonzero(values <= np.partition(values, n - 1)[n - 1])  # n, and any equal to the last
    return least[np.argsort(values[least], kind="stable")][:n]


class Where(IntEnum):
    """The state of an instance: free to be chosen, labelled, leased to an annotator, or excluded."""

    FREE = 0
    LABELLED = 1
    LEASED = 2
    EXCLUDED = 3


class PoolView(Protocol):
    """A pool as strategies see it; idx are positions in it."""

    state: np.ndarray  # (n,) a `Where` for each instance
    labels: np.ndarray  # (n,) -1 where there is none; (n, k) of 1, 0 and NaN where items have several classes
    auto_step: float  # step size with which a label moves its logits about as far as training would
    dtype: type  # the precision of logits and variances

    @property
    @abstractmethod
    def posterior(self) -> Posterior:
        """The posterior, which includes every label of the pool."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of instances, in any state."""

    @abstractmethod
    def logits(self, idx: Any = None) -> np.ndarray:
        """Return the logits (n, k) of the instances, or of all, at the mean; (0, f) if it is binary."""

    @abstractmethod
    def variances(self, idx: Any = None) -> np.ndarray:
        """Return the variance of the logits (n,), averaged over classes."""

    @abstractmethod
    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return the design rows (n, d) of the instances, with the bias column."""

    @property
    def n_classes(self) -> int:
        return self.posterior.n_classes

    @property
    def multi_label(self) -> bool:
        """Whether an item may have several classes."""
        return self.posterior.multi_label

    def placed(self, *places: Where) -> np.ndarray:
        """Return the sorted instances that are in one of these states."""
        wanted = self.state == places[0]
        for other in places[1:]:
            wanted |= self.state == other
        return np.flatnonzero(wanted)

    @property
    def free_idx(self) -> np.ndarray:
        return self.placed(Where.FREE)

    @property
    def labelled_idx(self) -> np.ndarray:
        return self.placed(Where.LABELLED)

    @property
    def leased_idx(self) -> np.ndarray:
        return self.placed(Where.LEASED)

    def probs(self, idx: Any = None) -> np.ndarray:
        """Return the class probabilities (n, k) at the mean; for a multi-label posterior by sigmoids."""
        f = self.logits(idx)
        return np.asarray(LIKELIHOODS[self.posterior.likelihood].link(f) if self.multi_label else softmax(f))

    def margins(self, idx: np.ndarray) -> np.ndarray:
        """Return p_first - p_second (n,); with several classes per item the least |p_c - (1 - p_c)|."""
        if self.multi_label:
            return np.tanh(0.5 * np.abs(self.logits(idx)).min(axis=1))
        probs = np.partition(self.probs(idx), -2, axis=1)
        return probs[:, -1] - probs[:, -2]

    def smallest_margins(self, idx: np.ndarray, n: int) -> np.ndarray:
        """Return the positions in idx of the n smallest margins, in order."""
        return smallest(self.margins(idx), n)

    def top(
        self, score: Callable[["PoolView", np.ndarray], np.ndarray], idx: np.ndarray, n: int
    ) -> np.ndarray:
        """Return the positions in idx of the n highest scores.

        score(pool, idx) scores each instance independently, so a pool in parts may call it part by part.
        """
        return best(score(self, idx), n)

    def sample(self, n: int, rng: np.random.Generator, among: Any = None) -> np.ndarray:
        """Return n free instances (or n of `among`) drawn at random, or all if there are fewer."""
        idx = self.free_idx if among is None else among
        return idx if len(idx) <= n else np.sort(idx[rng.choice(len(idx), n, replace=False)])

    def inner(self, idx: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        """Return the function w -> X[idx] w, (n,) for w (d,) and (m, n) for w (d, m), and |h|^2 of idx."""
        rows = self.rows(idx, self.dtype)
        return lambda w: (rows @ w.astype(rows.dtype)).T, np.einsum("nd,nd->n", rows, rows)

    def at_hand(self, rng: np.random.Generator | None = None) -> "PoolView":
        """Return the pool for strategies that read many rows: itself, or the local part of a larger pool.

        rng : with it, a part of the local instances may be exchanged for others
        """
        return self

    def cov_rows(self, idx: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """Return X[idx] cov (n, d), with the covariance that classes share or the mean of theirs."""
        return self.rows(idx, dtype) @ shared_cov(self.posterior).astype(dtype)


class LearningPool(PoolView, Protocol):
    """A pool that also learns labels, for Algorithm 1."""

    method: str | None
    step_size: float | str | None

    @abstractmethod
    def learns_by(self, method: str | None = None, step_size: float | str | None = None) -> Any:
        """Raise if `add` would reject this method and step size."""

    @abstractmethod
    def add(self, idx: int, label: Any, *, step_size: float | str | None = None) -> None:
        """Learn the label of one instance."""


def check_view(pool: Any, kind: Any = PoolView) -> Any:
    """Return `pool` if it has all members of this protocol; otherwise raise."""
    if kind in type(pool).__mro__:  # derived from it; for other classes each name is checked
        return pool
    parts = [part for part in kind.__mro__ if part not in (object, Protocol)]
    names = {name for part in parts for name in (*vars(part), *get_annotations(part))}
    missing = sorted(name for name in names if not name.startswith("_") and not hasattr(pool, name))
    if missing:
        raise EverylabelError(
            f"pool is a {type(pool).__name__}, which has no {', '.join(missing)}; "
            f"expected a Pool(features, posterior), or another {kind.__name__}"
        )
    return pool


def shares_cov(posterior: Posterior) -> bool:
    """Return whether all classes share one covariance of the features."""
    return isinstance(LIKELIHOODS[posterior.likelihood], SharedCovariance)


def shared_cov(posterior: Posterior) -> np.ndarray:
    """Return the covariance (d, d) that all classes share, or the mean of theirs."""
    cov, k = to_numpy(posterior.cov), int(posterior.mean.shape[1])
    if posterior.likelihood in ("per_class", "bernoulli_per_class"):
        return cov.mean(axis=0)
    if posterior.likelihood == "matrix_normal":
        return cov * np.trace(to_numpy(posterior.class_cov)) / k
    if posterior.likelihood == "full":
        return np.einsum("cicj->ij", cov.reshape(k, len(cov) // k, k, len(cov) // k)) / k
    return cov


def candidates(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    score: Callable[[PoolView, np.ndarray], np.ndarray] | None = None,
    *,
    by_class: bool = False,
) -> np.ndarray:
    """Return positions in idx of instances to try: all, or n, half by smallest margin and half at random.

    score : the half with the highest scores instead of the smallest margins
    by_class : draw the random half evenly from the predicted classes
    """
    if len(idx) <= n:
        return np.arange(len(idx))
    narrow = pool.smallest_margins(idx, n // 2) if score is None else best(score(pool, idx), n // 2)
    others, chances = np.delete(np.arange(len(idx)), narrow), None
    if by_class:
        guess = pool.logits(idx[others]).argmax(axis=1)
        chances = 1.0 / np.bincount(guess)[guess]
        chances /= chances.sum()
    return np.r_[narrow, rng.choice(others, n - n // 2, replace=False, p=chances)]
