"""Algorithm 1 among a few candidates, seen through their kernel: the same picks, no d x d work.

C candidates, d features, k classes; H (C, d), F = H mean, G = H cov H' given the picks so far.
After a label at candidate i, with u = G[:, i] and s = u_i (Gaussian likelihood):
    F -= step/(1 + s) u (p_i - e_y)'        G -= u u'/(1 + s)                         (Eqs. 5-7)
G is not built: its column is H cov h_i minus what the picks before took from it, a partial Cholesky
decomposition. Slow twin: `select` on a Pool.
"""

from collections.abc import Callable

import numpy as np

from everylabel.core import Posterior
from everylabel.core.checks import with_bias
from everylabel.core.updates import default_step

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]  # probs (C, k), |h|^2 (C,) -> (C,)


def narrow_margin(probs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return p_second - p_first."""
    top = np.partition(probs, -2, axis=1)
    return top[:, -2] - top[:, -1]


def gradient_norm(probs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return |p - e_y*|^2 |h|^2: Badge with the update in place of k-means++ (App. F)."""
    top = np.max(probs, axis=1)
    return (np.einsum("ck,ck->c", probs, probs) - 2.0 * top + 1.0) * sizes


def pick_one_by_one(
    posterior: Posterior, x: np.ndarray, labels: np.ndarray, score: Score, n: int
) -> np.ndarray:
    """Return n positions in x; each one's label is learned by the paper's step before the next pick."""
    rows = with_bias(x)
    step = default_step("second_order", "gaussian")
    seen = rows @ np.asarray(posterior.cov).astype(rows.dtype)
    f = rows @ np.asarray(posterior.mean).astype(rows.dtype)
    sizes = np.einsum("cd,cd->c", rows, rows)
    taken = np.zeros((len(x), n), rows.dtype)  # columns u / sqrt(1 + s)
    free = np.zeros(len(x))  # -inf once picked
    picked: list[int] = []
    for t in range(n):
        probs = np.exp(f - f.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        i = int(np.argmax(score(probs, sizes) + free))
        u = seen @ rows[i] - taken[:, :t] @ taken[i, :t]
        residual = probs[i].copy()
        residual[labels[i]] -= 1.0
        f -= u[:, None] * (step / (1.0 + u[i]) * residual)
        taken[:, t] = u / np.sqrt(1.0 + u[i])
        free[i] = -np.inf
        picked.append(i)
    return np.asarray(picked)
