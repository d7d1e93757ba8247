"""Uncertainty herding (Bae et al., 2025) and MaxHerding: cover the (uncertain) regions without labels.

E is a random sample of the pool, L the known instances (labelled or leased). K is a Gaussian kernel between
directions (rows without the bias, centred, of norm 1), u the model's uncertainty about an instance.
    coverage(e) = max over l in L of K(e, l)
    gain(x) = sum over e in E of u(e) max(0, K(e, x) - coverage(e))
    u(e) = v(e) / s_y * (V / V_y)^r_y,    v = (1 - margin)^2
y is the predicted class of e, s_y = mean of p_y over E its share, r_y = max(0, 1 - k s_y) its rarity among k
classes. V is the mean of v over E, V_y that over the instances of E predicted as y. Half of the candidates x
have the smallest margins; the other half is random, evenly from the predicted classes. A batch is picked
greedily: after a pick x, coverage(e) is at least K(e, x).
With few labels u is similar everywhere, and a typical instance of a new region has the largest gain. Later an
uncertain instance with many uncertain neighbours has it. So one rule suits few and many labels.

Departures from the authors:
- Margins are of mean-field probabilities: the posterior's variance keeps them from being overconfident. The
  authors fit a temperature.
- Dividing by s_y makes predicted classes count equally, whatever their size.
- (V / V_y)^r_y returns to a rare class the weight that it loses when the model becomes sure of it.
- With two classes coverage(e) is multiplied by 1 - r_y^3: labels cover less of the rare class.
- With several classes per item u is the score `class_wise`, sum_c p_c (1 - p_c) / (1 + labels of c), so that
  rare classes get as much attention as common ones.
- The kernel's width is a low quantile of the distances between known instances and their nearest. The minimum
  would be determined by a single pair of nearly equal instances.
"""

import math
from collections.abc import Callable

import numpy as np

from everylabel.core.arrays import softmax
from everylabel.core.checks import check_count
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.pool.view import candidates, shared_cov
from everylabel.selection.strategies.multi_label import class_wise

QUANTILE = 0.25  # quantile of squared distances to the nearest known instance
NARROWEST = 0.05  # squared width, of directions whose squared distances go up to 4
LOOKED_AT = 60  # a larger pool is first sampled down to this many instances per candidate
MEASURED = 200  # known instances whose nearest neighbours set the width
REMEMBERED = 500  # known instances that count as covering; more are subsampled


def herding(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    n_candidates: int = 300,
    n_eval: int = 1000,
) -> np.ndarray:
    """Return n positions in idx, each with the largest gain after the previous picks are covered."""
    n_candidates = max(n, check_count(n_candidates, "n_candidates"))
    some = pool.sample(LOOKED_AT * n_candidates, rng, idx)
    several = pool.multi_label
    score = class_wise if several else None
    tried = some[candidates(pool, some, n_candidates, rng, score, by_class=not several)]
    return np.searchsorted(idx, _cover(pool, tried, n, rng, check_count(n_eval, "n_eval"), _uncertainty))


def maxherding(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    n_candidates: int = 1000,
    n_eval: int = 1000,
) -> np.ndarray:
    """Return n positions in idx by coverage alone: MaxHerding (Bae et al., 2024) is herding with u = 1."""
    tried = pool.sample(max(n, check_count(n_candidates, "n_candidates")), rng, idx)
    alike = _cover(pool, tried, n, rng, check_count(n_eval, "n_eval"), _all_alike)
    return np.searchsorted(idx, alike)


Uncertainty = Callable[[PoolView, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _cover(
    pool: PoolView,
    tried: np.ndarray,
    n: int,
    rng: np.random.Generator,
    n_eval: int,
    uncertainty: Uncertainty,
) -> np.ndarray:
    """Return n of the tried instances, each with the largest gain after the previous picks are covered."""
    eval_idx = pool.sample(n_eval, rng)
    known = pool.sample(REMEMBERED, rng, pool.placed(Where.LABELLED, Where.LEASED))
    rows = pool.rows(eval_idx, pool.dtype)
    center = rows[:, : pool.posterior.n_features].mean(axis=0)
    seen = directions(rows, center)
    covering, new = (directions(pool.rows(some, pool.dtype), center) for some in (known, tried))
    width = _width(covering)
    unsure, kept = uncertainty(pool, eval_idx, rows)
    covered = kept * _kernel((seen @ covering.T).max(axis=1, initial=-np.inf), width)
    similar = _kernel(new @ seen.T, width)
    picked: list[int] = []
    for _ in range(n):
        gain = np.maximum(similar - covered, 0.0) @ unsure
        gain[picked] = -1.0
        picked.append(int(np.argmax(gain)))
        covered = np.maximum(covered, similar[picked[-1]])
    return np.asarray(tried[picked])


def _all_alike(pool: PoolView, idx: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(len(idx)), np.ones(len(idx), pool.dtype)


def _uncertainty(pool: PoolView, idx: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return u by mean-field probabilities, and the factor on coverage.

    Variances are computed for idx only, not for the whole pool.
    """
    if pool.multi_label:
        return np.asarray(class_wise(pool, idx), pool.dtype), np.ones(len(idx), pool.dtype)
    variances = np.einsum("nd,nd->n", rows @ shared_cov(pool.posterior).astype(pool.dtype), rows)
    spread = np.sqrt(1.0 + math.pi / 8 * np.maximum(variances, 0.0))
    f = pool.logits(idx) / spread[:, None]
    top, probs = np.partition(softmax(f), -2, axis=1), pool.probs(idx)
    unsure = (1.0 - (top[:, -1] - top[:, -2])) ** 2
    guess, k = probs.argmax(axis=1), pool.n_classes
    share = probs.mean(axis=0)[guess]
    usual = (np.bincount(guess, unsure) / np.maximum(np.bincount(guess), 1))[guess]  # V_y
    rarity = np.maximum(1.0 - k * share, 0.0)
    weight = (unsure.mean() / np.maximum(usual, 1e-12)) ** rarity / share
    kept = 1.0 - rarity**3 if k == 2 else np.ones(len(idx))
    return np.asarray(unsure * weight, pool.dtype), np.asarray(kept, pool.dtype)


def directions(rows: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return rows without the bias, centred, of norm 1."""
    rows = rows[:, : len(center)] - center
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _kernel(inner: np.ndarray, width: float) -> np.ndarray:
    """Return exp(-|x - y|^2 / width) from the products x'y of rows of norm 1."""
    return np.asarray(np.exp((inner - 1.0) * (2.0 / width)))


def _width(known: np.ndarray) -> float:
    """Return the squared width of the kernel; 1 while fewer than two instances are known."""
    if len(known) < 2:
        return 1.0
    some = known[:: max(1, len(known) // MEASURED)]
    inner = some @ known.T
    inner[inner > 1.0 - 1e-6] = -1.0  # itself, and copies of it
    return max(float(np.quantile(2.0 - 2.0 * inner.max(axis=1), QUANTILE)), NARROWEST)
