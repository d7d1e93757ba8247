"""The optimal look-ahead, one by one: the instance whose true label lowers the validation log loss most.

Beyond the paper, whose random batches rarely hold many good instances at once when batches are large.
C candidates, M validation instances; G_CC and G_CV (H cov H') and the logits follow each pick i:
    F -= step/(1 + c g_ii) g_i (p_i - e_y)'        G -= c/(1 + c g_ii) g_i g_i'                (Eqs. 5-7)
so that no pick touches a d x d matrix. Slow twin: update and predict_proba for each candidate.
"""

from typing import Any

import numpy as np

from everylabel.core.arrays import log_softmax, to_numpy
from everylabel.core.kernel import condition_seen, shrinkage
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.selection.pool import PoolView
from everylabel.selection.threads import share, worth_compiling


def greedy_batch(
    pool: PoolView,
    idx: np.ndarray,
    labels: np.ndarray,
    val_rows: np.ndarray,
    val_labels: np.ndarray,
    n: int,
    step: float,
) -> np.ndarray:
    """Return n positions in idx; labels (len(idx),) are the true ones."""
    kind: Any = LIKELIHOODS[pool.posterior.likelihood]
    rows = pool.rows(idx)
    gram = pool.cov_rows(idx) @ np.r_[rows, val_rows].T  # G_CC and G_CV side by side
    f = np.r_[rows, val_rows] @ to_numpy(pool.posterior.mean)
    targets = kind.targets(labels, f.shape[1])
    size, picked = len(idx), list[int]()
    left = np.ones(size, bool)
    for _ in range(n):
        probs = kind.link(f[:size])
        own = gram[np.arange(size), np.arange(size)]
        shift = step / (1.0 + kind.curvature(probs) * own)
        tried = np.flatnonzero(left)
        scores = log_likelihood(
            f[size:], gram[tried, size:] * shift[tried, None], (probs - targets)[tried], val_labels
        )
        i = int(tried[np.argmax(scores)])
        picked.append(i)
        left[i] = False
        f -= shift[i] * np.outer(gram[i], probs[i] - targets[i])  # Eq. 5
        curvature = kind.curvature(kind.link(f[i]))  # Eq. 6, at the new mean
        gram = condition_seen(gram, i, gram[i], shrinkage(own[i], curvature))
    return np.asarray(picked)


def log_likelihood(f: np.ndarray, shift: np.ndarray, residual: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the mean log likelihood (C,) of labels (M,) when logits f (M, k) move by -shift residual'."""
    if f.shape[1] == 1:
        f, residual = np.c_[np.zeros_like(f), f], np.c_[np.zeros_like(residual), residual]
    if worth_compiling(shift.size * f.shape[1]):
        from everylabel.selection.lookahead.expected_loops import log_likelihood as run

        out = np.empty(len(shift))
        low = f - f.max(axis=1, keepdims=True)
        a, r, g = (np.ascontiguousarray(x, np.float32) for x in (shift, residual, low.T))
        own = low[np.arange(len(f)), labels].astype(np.float32)
        share(lambda start, stop: run(g, a, r, own, labels, out, start, stop), len(out))
        return out
    scores = []
    for a, r in zip(shift, residual, strict=True):
        scores.append(np.mean(log_softmax(f - np.outer(a, r))[np.arange(len(f)), labels]))
    return np.asarray(scores)
