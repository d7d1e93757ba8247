"""The rules by which the logits and variances of a pool follow its posterior: the factors of each step.

n instances, d features (with the bias), k classes. A label at h moves the mean along v = cov h, and takes
taken v v' from the covariance: all that `Numbers`, or what stands for them elsewhere, have to be told.
"""

from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.selection.pool.numbers import Numbers
from everylabel.selection.pool.view import shares_cov

_ALONG = 1e-8  # a mean's change is along v when what is left of it is this small


class Cache:
    """Numbers that follow a posterior."""

    def __init__(self, numbers: Numbers, posterior: Posterior) -> None:
        self.numbers, self.features = numbers, numbers.features
        self.posterior = posterior

    def reset(self, posterior: Posterior) -> None:
        """Take another posterior and compute the logits from scratch."""
        width = self.features.array.shape[1]
        if posterior.n_features != width or posterior.bias != self.features.bias:
            raise EverylabelError(
                f"posterior has {posterior.n_features} features and bias={posterior.bias}; expected "
                f"{width} and bias={self.features.bias}, like the pool's first one"
            )
        self.numbers.reset(to_numpy(posterior.mean))
        self.posterior = posterior

    def extend(self, features: Any) -> None:
        """Take instances behind those there are; what is known of the others stays."""
        self.numbers.extend(features, self.posterior)

    def kept(self) -> dict[str, np.ndarray]:
        """Return copies of what is cached; no variances if none are."""
        numbers = self.numbers
        known = np.zeros(0, self.features.dtype) if numbers.known is None else numbers.known.copy()
        return {"logits": numbers.logits.copy(), "variances": known}

    def restore(self, posterior: Posterior, logits: np.ndarray, variances: np.ndarray) -> None:
        """Go on from what `kept` has returned."""
        self.posterior, self.numbers.logits = posterior, logits
        self.numbers.known = variances if len(variances) else None

    def variances_of(self, idx: Any = None) -> np.ndarray:
        """Return the variances (n,), computed when first asked for."""
        if not self.numbers.has_variances:
            self.numbers.find_variances(self.posterior)
        return self.numbers.variances(idx)

    def logits_of(self, idx: Any = None) -> np.ndarray:
        """Return logits (n, k); those of a binary posterior as the two of a softmax."""
        return self.numbers.logits_of(idx, self.posterior.likelihood == "binary")

    def move(self, posterior: Posterior, i: int) -> None:
        """Follow the posterior to where instance i has taken it, in one pass at most."""
        old, self.posterior = self.posterior, posterior
        if posterior.mean is old.mean and not self.numbers.has_variances:  # went out, or came back
            return
        change = to_numpy(posterior.mean) - to_numpy(old.mean)
        if not shares_cov(posterior) or (posterior.later is not None and not self.numbers.has_variances):
            self._recompute(change)  # a covariance that nobody has asked for is not made for this
            return
        v = to_numpy(old.cov) @ self.numbers.rows([i])[0]
        at = int(np.argmax(np.abs(v)))
        taken = 0.0  # of an instance of zeros
        if v[at]:
            taken = (float(old.cov[at, at]) - float(posterior.cov[at, at])) / v[at] ** 2  # c/(1 + c s), Eq. 7
        kept = self.numbers.has_variances and taken != 0.0
        residual = -(v @ change) / max(v @ v, 1e-300)  # change = -v residual', if it is along v
        along = np.abs(change + np.outer(v, residual)).max() <= _ALONG * max(np.abs(change).max(), 1e-300)
        if not along:
            self._recompute(change, v if kept else None, taken)
        elif kept or np.any(residual):
            self.numbers.move(v, residual, taken)

    def move_many(self, posterior: Posterior, idx: list[int]) -> None:
        """Follow the posterior to where several instances have taken it, in one pass.

        Each label moves the mean along S_i h_i, and S_i is S less directions S h_j of earlier ones: the
        whole change is V C with V = S [h_1 .. h_m], so that F += C' (H V)'.
        """
        old, self.posterior = self.posterior, posterior
        change = to_numpy(posterior.mean) - to_numpy(old.mean)
        shared = shares_cov(posterior)
        v = to_numpy(old.cov) @ self.numbers.rows(idx).T if shared else change[:, :0]
        factors = np.linalg.lstsq(v, change, rcond=None)[0]
        left = np.abs(change - v @ factors).max()
        if not shared or left > _ALONG * max(np.abs(change).max(), 1e-300):
            self.numbers.forget_variances()
            self._recompute(change)
        else:
            self.numbers.move_many(v, factors)

    def add_class(self, posterior: Posterior) -> None:
        """Follow a posterior that has new columns of zeros."""
        self.numbers.add_classes(int(posterior.mean.shape[1]))
        self.posterior = posterior
        if not shares_cov(posterior):
            self.numbers.forget_variances()

    def _recompute(self, change: np.ndarray, v: np.ndarray | None = None, taken: float = 0.0) -> None:
        """Compute the logits whose columns of the mean have changed, and H v by the same pass."""
        moved = np.flatnonzero(np.any(change != 0.0, axis=0))
        self.numbers.replace(moved, to_numpy(self.posterior.mean)[:, moved], v, taken)
        if not shares_cov(self.posterior):
            self.numbers.forget_variances()
