"""BAIT (Ash et al., 2021): the batch that leaves the least Fisher-weighted variance over the pool.

Minimises tr(A F) with A = (cov^-1 + sum_picked q_x h h')^-1 and F = sum_pool q_x h h', greedily forward
to `oversample` times the batch and backward to the batch, as its authors do.
Departure: one matrix for all classes, where the original has (d k)^2 entries. q_x is the trace of the
expected curvature over the classes, by `expectation`:
    "all"     1 - sum_y p_y^2 = sum_y p_y |e_y - p|^2
    "top2"    the same sum over the two likeliest classes, their probabilities scaled to a sum of 1
    "binary"  p (1 - p) with p = max_y p_y: no departure, as in later work of Huseljic et al.
One pick at a time with updates between picks (`ask`, oversample=1) is pseudo_bait of the latter.
"""

import numpy as np

from everylabel.core.checks import check_choice, check_positive
from everylabel.core.errors import EverylabelError
from everylabel.core.kernel import condition_seen, shrinkage
from everylabel.selection.pool import PoolView

EXPECTATIONS = ("all", "top2", "binary")
POOL_SAMPLE = 5000  # instances that stand for the pool in F


def bait(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    expectation: str = "all",
    oversample: float = 2.0,
) -> np.ndarray:
    """Return n positions, in the order of picking."""
    check_choice(expectation, "expectation", EXPECTATIONS)
    if check_positive(oversample, "oversample") < 1.0:
        raise EverylabelError(f"oversample is {oversample!r}; expected a number of at least 1")
    everywhere = pool.sample(POOL_SAMPLE, rng)
    fisher = pool.rows(everywhere)
    fisher = (fisher.T * _curvature(pool.probs(everywhere), expectation)) @ fisher / len(everywhere)
    fisher += (1e-12 * np.trace(fisher) + 1e-30) * np.eye(len(fisher))  # makes it full rank
    root = np.linalg.cholesky(fisher)
    rows, c = pool.rows(idx), _curvature(pool.probs(idx), expectation)
    seen = np.ascontiguousarray(pool.cov_rows(idx).T)  # A X'
    spread = root.T @ seen  # F^(1/2) A X'
    own = np.sum(rows * seen.T, axis=1)  # h'A h
    picked: list[int] = []
    while len(picked) < min(int(oversample * n), len(idx)):
        gain = shrinkage(own, c) * np.sum(spread**2, axis=0)  # decrease of tr(A F)
        gain[picked] = -np.inf
        i = int(np.argmax(gain))
        picked.append(i)
        seen, spread, own = _condition(rows, seen, spread, own, i, shrinkage(own[i], c[i]))
    keep = np.asarray(picked)
    seen, spread, own, rows, c = seen[:, keep], spread[:, keep], own[keep], rows[keep], c[keep]
    left = np.ones(len(keep), bool)
    while left.sum() > n:
        loss = -shrinkage(own, c, -1) * np.sum(spread**2, axis=0)
        loss[~left] = np.inf
        i = int(np.argmin(loss))
        left[i] = False
        seen, spread, own = _condition(rows, seen, spread, own, i, shrinkage(own[i], c[i], -1))
    return keep[left]


def _condition(
    rows: np.ndarray, seen: np.ndarray, spread: np.ndarray, own: np.ndarray, i: int, taken: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A X', F^(1/2) A X' and h'A h after instance i is added to A or removed from it."""
    column = rows @ seen[:, i]
    seen, spread = (condition_seen(x, i, column, taken) for x in (seen, spread))
    return seen, spread, own - taken * column**2


def _curvature(probs: np.ndarray, expectation: str) -> np.ndarray:
    """Return c (n,) from probabilities (n, k)."""
    probs = np.asarray(probs, np.float64)
    squares = np.sum(probs**2, axis=1)
    if expectation == "all":
        return 1.0 - squares
    top = np.partition(probs, -2, axis=1)[:, -2:]
    if expectation == "binary":
        return top[:, 1] * (1.0 - top[:, 1])
    away = 1.0 - 2.0 * top + squares[:, None]  # |e_y - p|^2
    return np.sum(top * away, axis=1) / top.sum(axis=1)
