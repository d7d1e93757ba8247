"""Monte Carlo updates of several posteriors by one stream of samples that are never held.

m members, d features, k classes, n test points; L the Cholesky factor of a posterior's covariance.
    logits of member j at x      x' mean + (x' L) noise_j                   noise_j (d, k) standard normal
    weight of member j           exp(step log p(labels | member j))         Eq. 13, all alike before
A chunk of noise is drawn, seen through every posterior, weighed, mixed and thrown away: the largest
log weight so far is carried along, so that nothing underflows. Slow twin: sample, update, predict_proba.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from everylabel.core import Posterior
from everylabel.core.checks import with_bias

CHUNK = 2**20  # noise and logits that are in the processor's cache together
ROWS = 256  # test points at once


class Taught(NamedTuple):
    """A posterior of the Gaussian likelihood, new labels, and how they are to be weighed."""

    posterior: Posterior
    x: np.ndarray
    y: np.ndarray
    weightings: Sequence[tuple[int, float]]  # after the first `size` labels, with step `step`


class _Through:
    """Noise seen through one posterior: logits at some points."""

    def __init__(self, posterior: Posterior, x: np.ndarray) -> None:
        rows, cov = with_bias(x), np.asarray(posterior.cov)
        self.offset = (rows @ np.asarray(posterior.mean)).astype(np.float32)[:, :, None]
        self.spread = (rows @ np.linalg.cholesky(cov)).astype(np.float32)

    def logits(self, noise: np.ndarray, rows: slice) -> np.ndarray:
        """Return logits (n, k, m), members last: sums over classes run along rows of members."""
        d, m, k = noise.shape
        logits = (self.spread[rows] @ noise.reshape(d, m * k)).reshape(-1, m, k)
        return np.ascontiguousarray(logits.transpose(0, 2, 1)) + self.offset[rows]


def reweighted(
    taught: Sequence[Taught], at: np.ndarray, m: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return for each posterior its samples' predictions (w, n, k), one for each weighting."""
    d, k = taught[0].posterior.mean.shape
    mixtures = [_Mixture(one, at) for one in taught]
    for noise in _noise(d, m, k, rng):
        for mixture in mixtures:
            mixture.add(noise)
    return [mixture.probs() for mixture in mixtures]


def _noise(d: int, m: int, k: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    size = max(1, CHUNK // (max(d, ROWS) * k))
    for start in range(0, m, size):
        yield rng.standard_normal((d, min(size, m - start), k), dtype=np.float32)


class _Mixture:
    """Weighted sums of predictions over the members so far."""

    def __init__(self, taught: Taught, at: np.ndarray) -> None:
        self.taught, self.n = taught, len(at)
        self.new, self.test = _Through(taught.posterior, taught.x), _Through(taught.posterior, at)
        n_weightings, k = len(taught.weightings), taught.posterior.n_classes
        self.sums = np.zeros((self.n, k, n_weightings))
        self.top = np.full(n_weightings, -np.inf)  # the largest log weight so far

    def add(self, noise: np.ndarray) -> None:
        log_weights = self._log_weights(noise)  # (w, m)
        top = np.maximum(self.top, log_weights.max(axis=1))
        self.sums *= np.exp(self.top - top)
        self.top = top
        weights = np.exp(log_weights - top[:, None]).astype(np.float32).T
        for start in range(0, self.n, ROWS):
            rows = slice(start, min(start + ROWS, self.n))
            probs = self.test.logits(noise, rows)
            probs -= probs.max(axis=1, keepdims=True)
            np.exp(probs, out=probs)
            probs /= probs.sum(axis=1, keepdims=True)
            b, k, m = probs.shape
            self.sums[rows] += (probs.reshape(b * k, m) @ weights).reshape(b, k, -1)

    def _log_weights(self, noise: np.ndarray) -> np.ndarray:
        logits = self.new.logits(noise, slice(None)).astype(np.float64)
        top = logits.max(axis=1)
        normaliser = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        explained = logits[np.arange(len(logits)), self.taught.y] - normaliser  # (labels, m)
        return np.stack([step * explained[:size].sum(axis=0) for size, step in self.taught.weightings])

    def probs(self) -> np.ndarray:
        """Return the mixtures (w, n, k)."""
        found = self.sums / self.sums.sum(axis=1, keepdims=True)  # every member's add up to its weight
        return np.moveaxis(found, 2, 0)
