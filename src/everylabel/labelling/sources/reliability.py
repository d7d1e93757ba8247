"""Reliability of a source: its confusion matrix, and its accuracy with an interval valid at any time.

k classes; N[y, s] counts items that people label y and the source labels s; pi[s] is the share of s among all
labels of the source. The source is useless, or it has a level r and a concentration a:
    useless        theta[y, s] = pi[s]
    informative    theta[y, :] ~ Dirichlet(a m_y),   m_y = r e_y + (1 - r) pi
Half of the prior is on useless, the rest is spread evenly over a grid of r and a. All marginal likelihoods
have closed forms, and theta is the posterior mean over the whole grid. With few labels and many classes the
grid is the only parameter (m_y); with many labels the rows are the counts. r = 0 with a small a is a source
that swaps the names of classes. Labels that a strategy chose are harder than the rest, so a source seems
worse on them than it is. They count CHOSEN in N: reliability errs on the safe side, and random checks, which
count 1, correct it.

x right of n random checks. By Ville's inequality the true accuracy p ever leaves the set
    { p : p^x (1 - p)^(n - x) > level B(x + 1, n - x + 1) }      B the Beta function, level = 1 - confidence
during a run with probability `level` at most (Robbins 1970), so people may look after each check.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import bisect
from scipy.special import betaln, gammaln, xlogy

from everylabel.labelling.quality.accuracy import Interval

LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.97)  # r
CONCENTRATIONS = (1.0, 4.0, 16.0, 64.0)  # a, in labels
USELESS = 0.5  # prior probability that a source is useless
CHOSEN = 0.5  # count of an item that was not drawn at random
CONFIDENCE = 0.95


class Confusion(NamedTuple):
    """A source's confusion matrix, and the probability that the source is useless."""

    theta: np.ndarray  # (k, k) P(source says s | class y)
    useless: float

    def likelihood(self, said: np.ndarray) -> np.ndarray:
        """Return P(said | class) (m, k) for labels (m,)."""
        return np.asarray(self.theta.T[said])

    def mixed(self, probs: np.ndarray) -> np.ndarray:
        """Return the likelihood (m, k) of classes, given the source's probabilities (m, j) of the first j."""
        return np.asarray(probs @ self.theta.T[: probs.shape[1]])


def count(truth: np.ndarray, said: np.ndarray, k: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Return N (k, k); truth is classes (m,) or class probabilities (m, k)."""
    shares = np.eye(k)[truth] if truth.ndim == 1 else truth
    counts = np.zeros((k, k))
    np.add.at(counts.T, said, shares if weights is None else weights[:, None] * shares)
    return counts


def label_shares(said: np.ndarray, k: int) -> np.ndarray:
    """Return pi (k,): the share of each class among all labels of a source; none is zero."""
    return np.asarray((np.bincount(said, minlength=k) + 0.5) / (len(said) + 0.5 * k))


def confusion(counts: np.ndarray, shares: np.ndarray, useless: float = USELESS) -> Confusion:
    """Return the posterior mean of the confusion matrix, given counts N (k, k) and label shares pi (k,)."""
    k, rows = len(shares), counts.sum(axis=1)
    y, s = np.nonzero(counts)
    seen, grid = counts[y, s], [(r, a) for r in LEVELS for a in CONCENTRATIONS]
    evidence = [np.log(useless) + float(seen @ np.log(shares[s]))]
    for r, a in grid:
        prior = a * (r * (y == s) + (1.0 - r) * shares[s])
        rising = np.sum(gammaln(prior + seen) - gammaln(prior)) - np.sum(gammaln(a + rows) - gammaln(a))
        evidence.append(np.log((1.0 - useless) / len(grid)) + float(rising))
    posterior = np.exp(np.array(evidence) - max(evidence))
    posterior /= posterior.sum()
    theta = np.tile(posterior[0] * shares, (k, 1))
    for (r, a), weight in zip(grid, posterior[1:], strict=True):
        scale = weight / (rows + a)
        theta += scale[:, None] * (counts + a * (1.0 - r) * shares)
        theta[np.diag_indices(k)] += scale * a * r
    return Confusion(theta, float(posterior[0]))


def accuracy(right: Sequence[bool] | np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """Return the share of random checks that a source got right, with an interval valid at any time."""
    n, x = len(right), int(np.sum(right))
    if n == 0:
        return Interval(0.5, 0.0, 1.0)
    bound = np.log(1.0 - confidence) + float(betaln(x + 1, n - x + 1))

    def height(p: float) -> float:
        return float(xlogy(x, p) + xlogy(n - x, 1.0 - p) - bound)

    low, high = (end if height(end) > 0.0 else float(bisect(height, x / n, end)) for end in (0.0, 1.0))
    return Interval(x / n, low, high)
