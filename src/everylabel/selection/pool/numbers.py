"""Logits and variances of instances as arrays: what follows a posterior by the factors of its steps.

n instances, d features (with the bias), k classes; H (n, d).
    logits (c, n), one row a column of the mean; variances (n,), once they are asked for
No posterior is needed here: `cache.py` reads the factors of a step off it, and they are a few numbers. So the
instances may lie elsewhere, in parts, and each part moves its own.
"""

from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.predict import logit_variance
from everylabel.selection.pool.features import Features
from everylabel.selection.pool.margins import margins, narrowest
from everylabel.selection.pool.view import shares_cov
from everylabel.selection.ranking import TIE
from everylabel.selection.threads import share, worth_compiling


class Numbers:
    """F = H mean and q = diag(H cov H') of the instances, moved in place."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.known: np.ndarray | None = None  # variances, if they are asked for
        self._room: np.ndarray | None = None  # where the logits lie once classes have come, for more of them
        self._gaps: np.ndarray | None = None  # f_first - f_second of the logits as they are, if known

    @property
    def n(self) -> int:
        return self.features.n

    @property
    def has_variances(self) -> bool:
        return self.known is not None

    @property
    def logits(self) -> np.ndarray:
        return self._logits

    @logits.setter
    def logits(self, logits: np.ndarray) -> None:
        self._logits, self._gaps = logits, None

    def rows(self, idx: Any) -> np.ndarray:
        """Return design rows (n, d) with the bias column."""
        return self.features.rows(idx)

    def reset(self, mean: np.ndarray) -> None:
        """Compute the logits of another mean from scratch."""
        self.logits, self.known = _logits(self.features, mean), None

    def extend(self, features: Any, posterior: Posterior) -> None:
        """Take instances behind those there are; what is known of the others stays."""
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
        """Have the variances computed when they are asked for next."""
        self.known = None

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return variances that were computed."""
        assert self.known is not None
        return self.known if idx is None else self.known[idx]

    def move(self, v: np.ndarray, residual: np.ndarray, taken: float) -> None:
        """Follow a mean that has moved by -v residual', and a covariance that has lost taken v v'."""
        u = self.features.product(v)
        if np.any(residual):
            self._subtract_outer(residual.astype(u.dtype), u)
        self._narrow(u, taken)

    def move_many(self, v: np.ndarray, factors: np.ndarray) -> None:
        """Follow a mean that has moved by V C."""
        self.known = None
        self.logits += factors.T.astype(self.logits.dtype) @ self.features.product(v)

    def replace(self, moved: np.ndarray, columns: np.ndarray, v: np.ndarray | None, taken: float) -> None:
        """Compute the logits of some columns of the mean anew; with v, the variances follow as in `move`."""
        seen = self.features.product(columns if v is None else np.c_[columns, v])
        self.logits[moved], self._gaps = seen[: len(moved)], None
        if v is not None:
            self._narrow(seen[len(moved)], taken)

    def add_classes(self, k: int) -> None:
        """Have logits of k classes, those that come of zeros."""
        before = len(self.logits)
        if self._room is None or self.logits.base is not self._room or len(self._room) < k:
            self._room = np.empty((k + k // 2, self.n), self.logits.dtype)
            self._room[:before] = self.logits
        self._room[before:k] = 0.0
        self.logits = self._room[:k]

    def logits_of(self, idx: Any, binary: bool) -> np.ndarray:
        """Return logits (n, k); those of a binary posterior as the two of a softmax."""
        f = (self.logits if idx is None else self.logits[:, idx]).T
        return np.c_[np.zeros_like(f), f] if binary else f

    def margins(self, idx: np.ndarray) -> np.ndarray | None:
        """Return p_first - p_second of idx, by a compiled loop over all where that pays; None if binary."""
        if not self._loop_pays(idx):
            return margins(self.logits[:, idx]) if len(self.logits) > 1 else None
        from everylabel.selection.pool import loops

        logits, out = self.logits, np.empty(self.n, self.logits.dtype)
        share(lambda start, stop: loops.margins(logits, out, start, stop), len(out))
        return out[idx]

    def narrowest(self, idx: np.ndarray) -> int | None:
        """Return the position in idx of the smallest margin, normalised only where it can win."""
        if not self._loop_pays(idx):
            return narrowest(self.logits, idx) if len(self.logits) > 1 else None
        usable = np.zeros(self.n, bool)
        usable[idx] = True
        found = self.narrow(usable)
        return None if found is None or not len(found[0]) else int(np.searchsorted(idx, found[0][0]))

    def narrow(self, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the usable instances whose margin is below all before them, and it; None if too few to pay.

        Those within a tie of the smallest: the first of them wins, here or beside those of other parts.
        """
        if len(self.logits) < 2 or not worth_compiling(self.logits.size):
            return None
        from everylabel.selection.pool import loops

        if self._gaps is None:
            self._subtract_outer(np.zeros(len(self.logits), self.logits.dtype), self.logits[0])
        logits, gaps = self.logits, self._gaps
        parts = share(lambda start, stop: loops.narrowest(logits, gaps, usable, start, stop), self.n)
        where, found = (np.concatenate(some) for some in zip(*parts, strict=True))
        near = np.flatnonzero(found <= found.min(initial=2.0) + TIE)
        near = near[np.argsort(where[near])]
        return where[near], found[near]

    def _narrow(self, u: np.ndarray, taken: float) -> None:
        if self.known is not None and taken:
            self.known -= u.dtype.type(taken) * u * u

    def _loop_pays(self, idx: np.ndarray) -> bool:
        return 2 * len(idx) > self.n and len(self.logits) > 1 and worth_compiling(self.logits.size)

    def _subtract_outer(self, residual: np.ndarray, shift: np.ndarray) -> None:
        """Take logits -= residual shift' in place."""
        logits = self.logits
        if worth_compiling(logits.size):
            from everylabel.selection.pool import loops

            gaps = np.empty(self.n, logits.dtype) if self._gaps is None else self._gaps
            share(lambda start, stop: loops.move(logits, shift, residual, gaps, start, stop), self.n)
            self._gaps = gaps
            return
        for row, factor in zip(logits, residual, strict=True):
            if factor:  # a class that a label leaves alone costs nothing
                row -= factor * shift


def _logits(features: Features, mean: np.ndarray) -> np.ndarray:
    """Return H mean as (c, n), or say that features hold what is no number."""
    logits = features.product(mean)
    if not np.isfinite(logits.sum()) and not np.all(np.isfinite(logits)):
        bad = int(np.sum(~np.all(np.isfinite(logits), axis=0)))
        raise EverylabelError(
            f"features holds NaN or infinite values in {bad} instance(s); impute or drop those first"
        )
    return logits


def _variances(features: Features, posterior: Posterior) -> np.ndarray:
    """Return diag(H cov H'), over classes its mean."""
    if shares_cov(posterior):
        return features.quadratic(to_numpy(posterior.cov))
    parts = [
        to_numpy(logit_variance(posterior, part)).mean(axis=1) for _, part in features.chunks(always=True)
    ]
    return np.concatenate(parts).astype(features.dtype)
