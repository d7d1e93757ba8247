"""A cache of the logits and variances of a pool's instances, updated with its posterior.

n instances, d features (with the bias), k classes; X (n, d) the design.
    F = X mean (c, n), one row per column of the mean;  s = diag(X cov X') (n,), once requested
A label at h moves the mean along v = cov h and subtracts taken v v' from the covariance. `update_logits`
computes these few numbers from two posteriors and passes them to the cache, which needs no posterior: its
instances may be in parts on other machines, each of which updates its own.
"""

from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.predict import logit_variance
from everylabel.selection.pool.features import FEW, Features
from everylabel.selection.pool.view import shares_cov

ALONG = 1e-8  # relative residual below which a change counts as lying in a span


def update_logits(cached: Any, old: Posterior, new: Posterior, i: int, few: bool) -> None:
    """Update cached logits from posterior `old` to `new`, which differ by instance i, in one pass.

    few : as in `update_logits_many`; several labels are learned again if i was leased before them
    """
    if new.mean is old.mean and not cached.has_variances:  # only the covariance has changed
        return
    change = to_numpy(new.mean) - to_numpy(old.mean)
    if not shares_cov(new):
        _recompute(cached, new, change)
        return
    v = to_numpy(old.cov) @ cached.features.rows([i])[0]
    at = int(np.argmax(np.abs(v)))
    taken = 0.0  # for an instance of zeros
    if v[at]:
        taken = (float(old.cov[at, at]) - float(new.cov[at, at])) / v[at] ** 2  # q/(1 + q s_i), Eq. 7
    if cached.has_variances and new.likelihood != "gaussian":  # a replay changes other curvatures too
        left = to_numpy(old.cov) - to_numpy(new.cov) - taken * np.outer(v, v)
        if not _is_small(left, to_numpy(old.cov)):
            cached.forget_variances()
    narrows = cached.has_variances and taken != 0.0
    residual = -(v @ change) / max(v @ v, 1e-300)  # change = -v residual', if it is along v
    if _is_small(change + np.outer(v, residual), change):
        if narrows or np.any(residual):
            cached.move(v, residual, taken)
    elif narrows or not (few and _move_few(cached, change)):
        _recompute(cached, new, change, v if narrows else None, taken)


def update_logits_many(cached: Any, old: Posterior, new: Posterior, few: bool) -> None:
    """Update cached logits from posterior `old` to `new`, which differ by several instances.

    few : whether the mean may have changed along few directions
    """
    cached.forget_variances()
    change = to_numpy(new.mean) - to_numpy(old.mean)
    if not (few and _move_few(cached, change)):
        _recompute(cached, new, change)


def add_class_logits(cached: Any, new: Posterior) -> None:
    """Update cached logits to a posterior that has new columns of zeros."""
    cached.add_classes(int(new.mean.shape[1]))
    if not shares_cov(new):
        cached.forget_variances()


def _move_few(cached: Any, change: np.ndarray) -> bool:
    """Update the logits if the change of the mean is V A with at most FEW columns V: F += A' (X V)'."""
    directions, sizes, shares = np.linalg.svd(change, full_matrices=False)
    m = int(np.sum(sizes > ALONG * sizes[0]))
    if m <= FEW:
        cached.move(directions[:, :m], -(sizes[:m, None] * shares[:m]).T, 0.0)
    return m <= FEW


def _recompute(
    cached: Any, new: Posterior, change: np.ndarray, v: np.ndarray | None = None, taken: float = 0.0
) -> None:
    """Recompute the logits of classes whose column of the mean has changed, and X v in the same pass."""
    moved = np.flatnonzero(np.any(change != 0.0, axis=0))
    cached.replace(moved, to_numpy(new.mean)[:, moved], v, taken)
    if not shares_cov(new):
        cached.forget_variances()


def _is_small(left: np.ndarray, whole: np.ndarray) -> bool:
    return bool(np.abs(left).max() <= ALONG * max(np.abs(whole).max(), 1e-300))


class LocalLogits:
    """F and s of instances whose features are in this process, updated in place."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.known: np.ndarray | None = None  # variances, once requested
        self._room: np.ndarray | None = None  # buffer of the logits with room for more classes

    @property
    def n(self) -> int:
        return self.features.n

    @property
    def has_variances(self) -> bool:
        return self.known is not None

    def reset(self, mean: np.ndarray) -> None:
        """Compute all logits from `mean`."""
        self.logits, self.known = _logits(self.features, mean), None

    def extend(self, features: Any, posterior: Posterior) -> None:
        """Append instances; the logits and variances of the others stay."""
        more = self.features.like(features, posterior)
        logits = _logits(more, to_numpy(posterior.mean))
        if self.known is not None:
            new = _variances(more, posterior)
            self.known = np.concatenate([self.known, new])
        self.features.extend(more)
        self.logits = np.concatenate([self.logits, logits], axis=1)

    def find_variances(self, posterior: Posterior) -> None:
        """Compute the variances from scratch."""
        self.known = _variances(self.features, posterior)

    def forget_variances(self) -> None:
        """Discard the variances; they are computed again at the next request."""
        self.known = None

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return the cached variances."""
        assert self.known is not None
        return self.known if idx is None else self.known[idx]

    def move(self, v: np.ndarray, residual: np.ndarray, taken: float) -> None:
        """Update the cache after the mean changed by -v residual' and the covariance by -taken v v'.

        v (d,) and residual (k,) of one label; v (d, m) and residual (k, m) of several, without `taken`.
        """
        u = self.features.product(v)
        for row, factor in zip(self.logits, residual.astype(u.dtype), strict=True):
            if np.any(factor):  # classes that a label does not move cost nothing
                row -= np.dot(factor, u)
        self._narrow(u, taken)

    def replace(self, moved: np.ndarray, columns: np.ndarray, v: np.ndarray | None, taken: float) -> None:
        """Recompute the logits of some columns of the mean; with v, update the variances as in `move`."""
        seen = self.features.product(columns if v is None else np.c_[columns, v])
        self.logits[moved] = seen[: len(moved)]
        if v is not None:
            self._narrow(seen[len(moved)], taken)

    def add_classes(self, k: int) -> None:
        """Extend the logits to k classes, with zeros for the new ones."""
        before = len(self.logits)
        if self._room is None or self.logits.base is not self._room or len(self._room) < k:
            self._room = np.empty((k + k // 2, self.n), self.logits.dtype)
            self._room[:before] = self.logits
        self._room[before:k] = 0.0
        self.logits = self._room[:k]

    def logits_of(self, idx: Any, binary: bool) -> np.ndarray:
        """Return logits (n, k); for a binary posterior the two of a softmax."""
        f = (self.logits if idx is None else self.logits[:, idx]).T
        return np.c_[np.zeros_like(f), f] if binary else f

    def margins(self, idx: np.ndarray) -> np.ndarray | None:
        """Return p_first - p_second of idx; None if binary."""
        if len(self.logits) < 2:
            return None
        if 2 * len(idx) > self.n:  # a copy of most logits would take longer
            return margins(self.logits)[idx]
        return margins(self.logits[:, idx])

    def _narrow(self, u: np.ndarray, taken: float) -> None:
        if self.known is not None and taken:
            self.known -= u.dtype.type(taken) * u * u


def _logits(features: Features, mean: np.ndarray) -> np.ndarray:
    """Return X mean as (c, n); raise if the features hold NaN or infinity."""
    logits = features.product(mean)
    if not np.isfinite(logits.sum()) and not np.all(np.isfinite(logits)):
        bad = int(np.sum(~np.all(np.isfinite(logits), axis=0)))
        raise EverylabelError(
            f"features holds NaN or infinite values in {bad} instance(s); impute or drop those first"
        )
    return logits


def _variances(features: Features, posterior: Posterior) -> np.ndarray:
    """Return diag(X cov X'), averaged over classes if each has its own covariance."""
    if shares_cov(posterior):
        return features.quadratic(to_numpy(posterior.cov))
    parts = [to_numpy(logit_variance(posterior, part)).mean(axis=1) for _, part in features.chunks()]
    return np.concatenate(parts).astype(features.dtype)


def margins(logits: np.ndarray) -> np.ndarray:
    """Return p_first - p_second (n,) of logits (k, n), class by class.

    p_first - p_second = (1 - e^(second - first)) / Z,  Z = sum_j e^(f_j - first)
    """
    first, second = np.maximum(logits[0], logits[1]), np.minimum(logits[0], logits[1])
    total, part = np.zeros_like(first), np.empty_like(first)
    for row in logits[2:]:
        np.maximum(second, np.minimum(row, first, out=part), out=second)
        np.maximum(first, row, out=first)
    for row in logits:
        np.subtract(row, first, out=part)
        total += np.exp(part, out=part)
    return -np.expm1(second - first) / total
