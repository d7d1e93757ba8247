"""REFINE (Huseljic et al., 2025): many strategies filter the pool in rounds, then uncertainty herding picks.

P_0 the candidates, S the proposing strategies in turn, R rounds:
    P_r = union of `n_batches` batches, each picked by one of S from a random `share` of P_(r-1)
Herding picks the batch from P_R. Instances that no strategy proposes are dropped. The model stays the same:
nothing is retrained.
Departure: 45 batches per round, five by each strategy, where the authors have 100.
"""

import numpy as np

from everylabel.core.checks import check_count, check_fraction
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.view import best
from everylabel.selection.strategies import badge, bait, flips, herding, stochastic, typiclust, uncertainty


def _margin(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return best(uncertainty.margin(pool, idx, rng), n)


PROPOSING = (
    stochastic.random,
    _margin,
    badge.badge,
    bait.bait,
    typiclust.typiclust,
    flips.alfamix,
    flips.dropquery,
    herding.maxherding,
    herding.herding,
)


def refine(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    n_batches: int = 45,
    n_rounds: int = 5,
    share: float = 0.4,
) -> np.ndarray:
    """Return n positions, in the order in which herding picks them."""
    n_batches, n_rounds = check_count(n_batches, "n_batches"), check_count(n_rounds, "n_rounds")
    left, share = np.arange(len(idx)), check_fraction(share, "share")
    for _ in range(n_rounds):
        left = np.unique([left[batch] for batch in proposals(pool, idx[left], n, n_batches, share, rng)])
    return left[herding.herding(pool, idx[left], n, rng, n_candidates=len(left))]


def proposals(
    pool: PoolView, idx: np.ndarray, n: int, n_batches: int, share: float, rng: np.random.Generator
) -> np.ndarray:
    """Return batches (n_batches, n) of positions in idx, each by the next strategy from a random share."""
    size = min(len(idx), max(n, round(share * len(idx))))
    batches = []
    for i in range(n_batches):
        some = np.sort(rng.choice(len(idx), size, replace=False))
        batches.append(some[PROPOSING[i % len(PROPOSING)](pool, idx[some], n, rng)])
    return np.stack(batches)
