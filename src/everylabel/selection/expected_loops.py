"""The compiled twin of `expected._expected_risk`: instances innermost, no branches, single precision.

f (k, E) logits with each instance's largest at 0; a (C, E) shifts; p (C, k) candidates' probabilities.
"""

import numpy as np
from numba import njit

from everylabel.selection.loops import exp

BLOCK = 128  # evaluation instances whose k numbers stay in cache
_MOST = np.float32(60.0)  # e^60 is in range; whoever moves further has reached 0 or 1
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)

_fast = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")


@_fast
def expected_risk(f, a, p, risk, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the expected risk of the candidates start .. stop; risk 0 is error, 1 log, 2 brier."""
    k, n_eval = f.shape
    x, top = np.empty((k, BLOCK), np.float32), np.empty((6, BLOCK), np.float32)
    gain = np.empty(BLOCK, np.float32)
    for c in range(start, stop):
        total = 0.0
        for at in range(0, n_eval, BLOCK):
            n = min(BLOCK, n_eval - at)
            _shared_part(f, a[c], p[c], x, top, at, n)
            gain[:] = _ZERO
            if risk == 0:
                _error(p[c], x, top, gain, n)
            elif risk == 1:
                _log(f, p[c], x, top, gain, at, n)
            else:
                _brier(p[c], x, top, gain, n)
            for e in range(n):
                total += gain[e]
        out[c] = total / n_eval if risk == 1 else 1.0 - total / n_eval


@_fast
def _shared_part(f, a, p, x, top, at, n):  # type: ignore[no-untyped-def]
    """Set x = e^(B - max B), and top: a, e^a, max B, runner-up, how many are at 1, the sum of the others."""
    k = f.shape[0]
    for e in range(n):
        move = min(max(a[at + e], -_MOST), _MOST)
        small = exp(-abs(move))
        top[0, e], top[1, e] = move, (_ONE / small if move > _ZERO else small)
        top[2, e] = np.float32(-1e30)
        top[3, e], top[4, e], top[5, e] = _ZERO, _ZERO, _ZERO
    for j in range(k):
        share = p[j]
        for e in range(n):
            b = f[j, at + e] - top[0, e] * share
            x[j, e] = b
            top[2, e] = max(top[2, e], b)
    for j in range(k):
        for e in range(n):
            v = exp(x[j, e] - top[2, e])
            x[j, e] = v
            below = v < _ONE
            top[3, e] = max(top[3, e], v if below else _ZERO)
            top[4, e] += _ZERO if below else _ONE
            top[5, e] += v if below else _ZERO


@njit(cache=True, nogil=True, fastmath=False, inline="always")
def _others(old, n_ones, tail):  # type: ignore[no-untyped-def]
    """Return the sum without this one: of those at 1 and the tail below; exact where it is the largest."""
    below = old < _ONE
    return (n_ones if below else n_ones - _ONE) + (tail - old if below else tail)


@_fast
def _error(p, x, top, gain, n):  # type: ignore[no-untyped-def]
    """Add sum_y p_y max_j p_j."""
    for y in range(len(p)):
        share = p[y]
        for e in range(n):
            old = x[y, e]
            new = old * top[1, e]
            below = old < _ONE
            alone = (not below) and top[4, e] < np.float32(1.5)
            rest = top[3, e] if alone else _ONE
            gain[e] += share * max(new, rest) / (_others(old, top[4, e], top[5, e]) + new)


@_fast
def _brier(p, x, top, gain, n):  # type: ignore[no-untyped-def]
    """Add sum_y p_y sum_j p_j^2."""
    squares = np.zeros(BLOCK, np.float32)  # of those below 1, so that nothing cancels
    for y in range(len(p)):
        for e in range(n):
            squares[e] += x[y, e] * x[y, e] if x[y, e] < _ONE else _ZERO
    for y in range(len(p)):
        share = p[y]
        for e in range(n):
            old = x[y, e]
            new = old * top[1, e]
            below = old < _ONE
            total = _others(old, top[4, e], top[5, e]) + new
            rest = _others(old * old if below else _ONE, top[4, e], squares[e]) / total / total
            gain[e] += share * (rest + (new / total) * (new / total))


@_fast
def _log(f, p, x, top, gain, at, n):  # type: ignore[no-untyped-def]
    """Add sum_y p_y (log Z - sum_j x_j b_j / Z), b = log x."""
    inner = np.zeros(BLOCK, np.float32)
    for y in range(len(p)):
        for e in range(n):
            inner[e] += x[y, e] * (f[y, at + e] - top[0, e] * p[y] - top[2, e])
    for y in range(len(p)):
        share = p[y]
        for e in range(n):
            old = x[y, e]
            new = old * top[1, e]
            b = f[y, at + e] - top[0, e] * share - top[2, e]
            total = _others(old, top[4, e], top[5, e]) + new
            gain[e] += share * (np.log(total) - (inner[e] - old * b + new * (b + top[0, e])) / total)
