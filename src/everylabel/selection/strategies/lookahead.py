"""Look-ahead without an oracle: choose the candidate whose label leaves the least expected risk.

Roy & McCallum (2001) with the paper's update in place of retraining; risk "log" and "brier" are the
expected log loss and Brier score (the losses behind CoreLog and CoreMSE; Tan et al., 2021).
Candidates: half with the smallest margin, half random. Evaluation: a random sample of free instances.
"""

from typing import Any

import numpy as np

from everylabel.core.checks import check_choice, check_count, check_positive
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.shared import SharedCovariance
from everylabel.selection.lookahead.expected import RISKS, expected_risk
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.view import candidates


def lookahead(
    pool: PoolView,
    idx: np.ndarray,
    rng: np.random.Generator,
    *,
    risk: str = "error",
    n_candidates: int = 300,
    n_eval: int = 1000,
    step_size: float | str = "auto",
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions tried, and minus the expected risk of each."""
    check_choice(risk, "risk", RISKS)
    n_candidates, n_eval = check_count(n_candidates, "n_candidates"), check_count(n_eval, "n_eval")
    tried = candidates(pool, idx, n_candidates, rng)
    eval_idx = pool.sample(n_eval, rng)
    step = pool.auto_step if step_size == "auto" else check_positive(step_size, "step_size", zero=True)
    shift = label_shift(pool, idx[tried], eval_idx, step)
    return tried, -expected_risk(pool.logits(eval_idx), shift, pool.probs(idx[tried]), risk)


def label_shift(pool: PoolView, idx: np.ndarray, eval_idx: np.ndarray, step: float) -> np.ndarray:
    """Return a (C, E) of `lookahead/expected.py`: label y at c moves the logits of e by a_ce (e_y - p_c)."""
    seen = pool.cov_rows(idx, pool.dtype)
    own = np.sum(seen * pool.rows(idx, pool.dtype), axis=1)
    kind: Any = LIKELIHOODS[pool.posterior.likelihood]
    if isinstance(kind, SharedCovariance):  # c in 1 + c s (Eq. 7); 1 for the Gaussian likelihood
        own = own * kind.curvature(kind.link(pool.logits(idx)[:, -pool.posterior.mean.shape[1] :]))
    if pool.posterior.likelihood == "binary":
        step = step / 2.0  # the two logits (0, f) of a softmax both move, their difference twice as far
    factor = (step / (1.0 + own)).astype(pool.dtype)
    return (seen * factor[:, None]) @ pool.rows(eval_idx, pool.dtype).T
