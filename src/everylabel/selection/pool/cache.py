"""Logits and variances of the whole pool, kept current as its posterior moves.

logits (c, n), one row a column of the mean; variances (n,), computed when first asked for.
"""

from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.predict import logit_variance
from everylabel.selection.pool.features import Features
from everylabel.selection.pool.view import shares_cov
from everylabel.selection.ranking import TIE
from everylabel.selection.threads import share, worth_compiling

_ALONG = 1e-8  # a mean's change is along v when what is left of it is this small


class Cache:
    """F = H mean and q = diag(H cov H'), and the rules by which they follow the posterior."""

    def __init__(self, features: Any, posterior: Posterior) -> None:
        self.features = Features(features, posterior)
        self.posterior = posterior
        self._variances: np.ndarray | None = None
        self._room: np.ndarray | None = None  # where the logits lie once classes have come, for more of them

    def reset(self, posterior: Posterior) -> None:
        """Take another posterior and compute the logits from scratch."""
        if posterior.n_features != self.features.array.shape[1] or posterior.bias != self.features.bias:
            raise EverylabelError(
                f"posterior has {posterior.n_features} features and bias={posterior.bias}; expected "
                f"{self.features.array.shape[1]} and bias={self.features.bias}, like the pool's first one"
            )
        self.logits, self.posterior, self._variances = _logits(self.features, posterior), posterior, None

    def extend(self, features: Any) -> None:
        """Take instances behind those there are; what is known of the others stays."""
        more = self.features.like(features, self.posterior)
        logits = _logits(more, self.posterior)
        if self._variances is not None:
            new = _variances(more, self.posterior)
            self._variances = np.concatenate([self._variances, new])
        self.features.extend(more)
        self.logits = np.concatenate([self.logits, logits], axis=1)

    def kept(self) -> dict[str, np.ndarray]:
        """Return copies of what is cached; no variances if none are."""
        known = np.zeros(0, self.features.dtype) if self._variances is None else self._variances.copy()
        return {"logits": self.logits.copy(), "variances": known}

    def restore(self, posterior: Posterior, logits: np.ndarray, variances: np.ndarray) -> None:
        """Go on from what `kept` has returned."""
        self.posterior, self.logits = posterior, logits
        self._variances = variances if len(variances) else None

    @property
    def variances(self) -> np.ndarray:
        if self._variances is None:
            self._variances = _variances(self.features, self.posterior)
        return self._variances

    def logits_of(self, idx: Any = None) -> np.ndarray:
        """Return logits (n, k); those of a binary posterior as the two of a softmax."""
        f = (self.logits if idx is None else self.logits[:, idx]).T
        return np.c_[np.zeros_like(f), f] if self.posterior.likelihood == "binary" else f

    def margins(self, idx: np.ndarray) -> np.ndarray | None:
        """Return p_first - p_second of idx by a compiled loop over all; None where that does not pay."""
        return self._margins(np.ones(self.features.n, bool), False)[idx] if self._loop_pays(idx) else None

    def narrowest(self, idx: np.ndarray) -> int | None:
        """Return the position in idx of the smallest margin, normalised only where it can win."""
        if not self._loop_pays(idx):
            return None
        usable = np.zeros(self.features.n, bool)
        usable[idx] = True
        margins = self._margins(usable, True)
        return int(np.searchsorted(idx, np.argmax(margins <= margins.min() + TIE)))

    def _loop_pays(self, idx: np.ndarray) -> bool:
        return 2 * len(idx) > self.features.n and len(self.logits) > 1 and worth_compiling(self.logits.size)

    def _margins(self, usable: np.ndarray, one: bool) -> np.ndarray:
        from everylabel.selection.pool import loops

        logits, out = self.logits, np.empty(self.features.n, self.logits.dtype)
        share(lambda start, stop: loops.margins(logits, usable, one, out, start, stop), len(out))
        return out

    def move(self, posterior: Posterior, i: int) -> None:
        """Follow the posterior to where instance i has taken it, in one pass at most."""
        old, self.posterior = self.posterior, posterior
        change = to_numpy(posterior.mean) - to_numpy(old.mean)
        if not shares_cov(posterior):
            self._recompute(change)
            return
        v = to_numpy(old.cov) @ self.features.rows([i])[0]
        at = int(np.argmax(np.abs(v)))
        taken = 0.0  # of an instance of zeros
        if v[at]:
            taken = (float(old.cov[at, at]) - float(posterior.cov[at, at])) / v[at] ** 2  # c/(1 + c s), Eq. 7
        kept = self._variances is not None and taken != 0.0
        residual = -(v @ change) / max(v @ v, 1e-300)  # change = -v residual', if it is along v
        along = np.abs(change + np.outer(v, residual)).max() <= _ALONG * max(np.abs(change).max(), 1e-300)
        if not along:
            u = self._recompute(change, v if kept else None)
        elif kept or np.any(residual):
            u = self.features.product(v)
            _subtract_outer(self.logits, residual.astype(u.dtype), u)
        if self._variances is not None and kept:
            self._variances -= u.dtype.type(taken) * u * u

    def move_many(self, posterior: Posterior, idx: list[int]) -> None:
        """Follow the posterior to where several instances have taken it, in one pass.

        Each label moves the mean along S_i h_i, and S_i is S less directions S h_j of earlier ones: the
        whole change is V C with V = S [h_1 .. h_m], so that F += C' (H V)'.
        """
        old, self.posterior, self._variances = self.posterior, posterior, None
        change = to_numpy(posterior.mean) - to_numpy(old.mean)
        shared = shares_cov(posterior)
        v = to_numpy(old.cov) @ self.features.rows(idx).T if shared else change[:, :0]
        factors = np.linalg.lstsq(v, change, rcond=None)[0]
        left = np.abs(change - v @ factors).max()
        if not shared or left > _ALONG * max(np.abs(change).max(), 1e-300):
            self._recompute(change)
            return
        self.logits += factors.T.astype(self.logits.dtype) @ self.features.product(v)

    def add_class(self, posterior: Posterior) -> None:
        """Follow a posterior that has new columns of zeros."""
        before, k = len(self.logits), int(posterior.mean.shape[1])
        if self._room is None or self.logits.base is not self._room or len(self._room) < k:
            self._room = np.empty((k + k // 2, self.features.n), self.logits.dtype)
            self._room[:before] = self.logits
        self._room[before:k] = 0.0
        self.logits, self.posterior = self._room[:k], posterior
        if not shares_cov(self.posterior):
            self._variances = None

    def _recompute(self, change: np.ndarray, v: np.ndarray | None = None) -> np.ndarray:
        """Compute the logits whose columns of the mean have changed; return H v (n,) by the same pass."""
        moved = np.flatnonzero(np.any(change != 0.0, axis=0))
        columns = to_numpy(self.posterior.mean)[:, moved]
        seen = self.features.product(columns if v is None else np.c_[columns, v])
        self.logits[moved] = seen[: len(moved)]
        if not shares_cov(self.posterior):
            self._variances = None
        return seen[len(moved) :].reshape(-1)  # nothing without v


def _logits(features: Features, posterior: Posterior) -> np.ndarray:
    """Return H mean as (c, n), or say that features hold what is no number."""
    logits = features.product(to_numpy(posterior.mean))
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


def _subtract_outer(logits: np.ndarray, residual: np.ndarray, shift: np.ndarray) -> None:
    """Take logits -= residual shift' in place."""
    if worth_compiling(logits.size):
        from everylabel.selection.pool import loops

        share(lambda start, stop: loops.move(logits, shift, residual, start, stop), len(shift))
        return
    for row, factor in zip(logits, residual, strict=True):
        if factor:  # a class that a label leaves alone costs nothing
            row -= factor * shift
