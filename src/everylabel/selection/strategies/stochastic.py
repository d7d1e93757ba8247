"""Random sampling, and stochastic batches (Kirsch et al., 2023): top-b of a score plus noise.

    power    log(score) + Gumbel / beta         softmax    score + Gumbel / beta
The n largest of these are a draw of n without replacement, with chances score^beta or e^(beta score).
"""

import numpy as np

from everylabel.core.checks import check_choice, check_positive
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.view import best
from everylabel.selection.strategies.bald import bald
from everylabel.selection.strategies.uncertainty import entropy, least_confident, margin, variance

SCORES = {
    "entropy": entropy,
    "margin": lambda pool, idx, rng: 1.0 + margin(pool, idx, rng),  # at least 0
    "least_confident": least_confident,
    "variance": variance,
    "bald": bald,
}


def random(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions drawn uniformly at random."""
    return rng.choice(len(idx), n, replace=False)


def stochastic(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    score: str = "entropy",
    kind: str = "power",
    beta: float = 1.0,
) -> np.ndarray:
    """Return n positions drawn by their score."""
    check_choice(score, "score", list(SCORES))
    check_choice(kind, "kind", ("power", "softmax"))
    beta = check_positive(beta, "beta")
    scores = np.asarray(SCORES[score](pool, idx, rng), np.float64)
    if kind == "power":
        scores = np.log(np.maximum(scores, 1e-300))
    return best(scores + rng.gumbel(size=len(idx)) / beta, n)
