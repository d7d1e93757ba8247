"""BEMPS (Tan et al., 2021) and EPIG (Bickford Smith et al., 2023), by Monte Carlo members.

m members, C candidates, E evaluation instances. If candidate c turns out to be y, members are
weighted by p_m(y | c), and the prediction at e becomes p(. | e, c = y) = sum_m w_m p_m(. | e).
    CoreMSE  sum_y p(y | c) mean_e |p(. | e, c = y) - p(. | e)|^2
    CoreLog  sum_y p(y | c) mean_e KL(p(. | e, c = y), p(. | e))
CoreLog is the mutual information of the labels of c and e, which is EPIG's score.
"""

from typing import Any

import numpy as np

from everylabel.core.arrays import CHUNK
from everylabel.core.checks import check_choice, check_count, check_positions
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.sparse import all_but
from everylabel.selection.pool.view import candidates
from everylabel.selection.sampling import Members


def bemps(
    pool: PoolView,
    idx: np.ndarray,
    rng: np.random.Generator,
    *,
    score: str = "mse",
    n_samples: int = 50,
    n_candidates: int = 200,
    n_eval: int = 100,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions tried, and CoreMSE (score="mse") or CoreLog ("log") of each."""
    check_choice(score, "score", ("mse", "log"))
    eval_idx = pool.sample(check_count(n_eval, "n_eval"), rng)
    return _scores(pool, idx, eval_idx, rng, score, n_samples, n_candidates)


def epig(
    pool: PoolView,
    idx: np.ndarray,
    rng: np.random.Generator,
    *,
    n_samples: int = 50,
    n_candidates: int = 200,
    n_targets: int = 100,
    target_idx: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions tried, and each one's EPIG score against `target_idx` or a sample of targets."""
    if target_idx is None:
        targets = pool.sample(check_count(n_targets, "n_targets"), rng, all_but(len(pool)))
    else:
        targets = check_positions(target_idx, len(pool), "target_idx")
    return _scores(pool, idx, targets, rng, "log", n_samples, n_candidates)


def _scores(
    pool: PoolView,
    idx: np.ndarray,
    eval_idx: np.ndarray,
    rng: np.random.Generator,
    score: str,
    n_samples: int,
    n_candidates: int,
) -> tuple[np.ndarray, np.ndarray]:
    members = Members(pool, check_count(n_samples, "n_samples"), rng)
    tried = candidates(pool, idx, check_count(n_candidates, "n_candidates"), rng)
    at_eval = members.probs(eval_idx)
    size = max(1, CHUNK // (at_eval[0].size * pool.n_classes))
    parts = [tried[start : start + size] for start in range(0, len(tried), size)]
    return tried, np.concatenate([core_scores(members.probs(idx[some]), at_eval, score) for some in parts])


def core_scores(probs: np.ndarray, at_eval: np.ndarray, score: str) -> np.ndarray:
    """Return CoreMSE or CoreLog (C,) from members' probs (m, C, k) and at_eval (m, E, k)."""
    m, n, k = probs.shape
    now = at_eval.mean(axis=0)  # p(. | e)
    likely = probs.mean(axis=0)  # p(y | c)
    weights = probs / np.maximum(likely, 1e-30) / m  # of the members, if c is y
    after = weights.reshape(m, n * k).T @ at_eval.reshape(m, -1)
    after = after.reshape(n, k, *now.shape)
    if score == "mse":
        change = np.sum((after - now) ** 2, axis=3)
    else:
        change = np.sum(after * np.log(np.maximum(after, 1e-30) / np.maximum(now, 1e-30)), axis=3)
    return np.asarray(np.sum(likely * change.mean(axis=2), axis=1), np.float64)
