"""Expected risk after one more label, averaged over its possible classes, in O(C E k).

C candidates, E evaluation instances, k classes; F (E, k) logits, p_c (C, k), a (C, E).
If candidate c turns out to be y, the logits of e move by a_ce (e_y - p_c), with
    a_ce = step g_ce / (1 + q_c g_cc),   g = X cov X',   q_c the curvature of c             (Eqs. 5, 7)
B = F - a p_c is shared by all k labels: with x = e^B only column y differs, x_y -> x_y e^a, so the
normaliser, the maximum and the squared norm after every label follow in O(1) from B's own.
    error  1 - max_j p_j        log  -sum_j p_j log p_j        brier  1 - sum_j p_j^2
Result: mean_e sum_y p_c[y] risk(p_e after c is y). Tests compare it with an update per candidate and label.
"""

import numpy as np

from everylabel.core.arrays import CHUNK
from everylabel.selection.threads import share, worth_compiling

RISKS = ("error", "log", "brier")
_MOST = 300.0  # keeps e^a and its square in range


def expected_risk(logits: np.ndarray, shift: np.ndarray, probs: np.ndarray, risk: str) -> np.ndarray:
    """Return the expected risk (C,) from logits F (E, k), shift a (C, E) and candidates' probs (C, k)."""
    logits = logits - logits.max(axis=1, keepdims=True)
    if worth_compiling(shift.size * probs.shape[1]):
        from everylabel.selection.lookahead import expected_loops as loops

        out = np.empty(len(probs))
        f, a, p = (np.ascontiguousarray(x, np.float32) for x in (logits.T, shift, probs))
        code = RISKS.index(risk)
        share(lambda start, stop: loops.expected_risk(f, a, p, code, out, start, stop), len(out))
        return out
    size = max(1, CHUNK // (8 * logits.size))
    parts = [
        _expected_risk(logits, shift[at : at + size], probs[at : at + size], risk)
        for at in range(0, len(probs), size)
    ]
    return np.concatenate(parts)


def _expected_risk(logits: np.ndarray, shift: np.ndarray, probs: np.ndarray, risk: str) -> np.ndarray:
    """Compute `expected_risk` with NumPy; the arrays are (C, E, k)."""
    a = np.clip(shift, -_MOST, _MOST)[:, :, None].astype(np.float64)
    b = logits - a * probs[:, None, :]
    b -= b.max(axis=2, keepdims=True)
    x = np.exp(b)
    moved = x * np.exp(a)  # column y, if the label is y
    total = _without(x) + moved
    if risk == "error":
        second = np.sort(x, axis=2)[:, :, -2:-1]
        rest = np.where(x >= 1.0, second, 1.0)  # the largest of the others
        after = 1.0 - np.maximum(moved, rest) / total
    elif risk == "brier":
        after = 1.0 - (_without(x**2) + moved**2) / total**2
    else:  # entropy: log Z - sum_j x_j b_j / Z
        inner = np.sum(x * b, axis=2, keepdims=True) - x * b + moved * (b + a)  # the largest has b = 0
        after = np.log(total) - inner / total
    return np.einsum("cek,ck->c", after, probs) / logits.shape[0]


def _without(x: np.ndarray) -> np.ndarray:
    """Return sum_j x_j - x_y for each y, without cancellation where x_y = 1 is the largest."""
    largest = np.arange(x.shape[2]) == x.argmax(axis=2)[:, :, None]
    tail = np.sum(np.where(largest, 0.0, x), axis=2, keepdims=True)
    return np.where(largest, tail, tail + 1.0 - x)
