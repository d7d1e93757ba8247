"""The compiled twin of `expected._expected_risk`: instances innermost, no branches, single precision.

f (k, E) logits with each instance's largest at 0; a (C, E) shifts; p (C, k) candidates' probabilities.
Inner loops run from 0 over slices, so that the compiler knows no index is negative and vectorises.
"""

import numpy as np
from numba import njit

BLOCK = 256  # evaluation instances whose k numbers stay in cache
_MOST = np.float32(60.0)  # e^60 is in range; larger shifts give probabilities of 0 or 1 anyway
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)

_fast = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
_inline = njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")


@_inline
def exp(x):  # type: ignore[no-untyped-def]
    """Return e to the x for x <= 0 without branches or calls, so that loops vectorise.

    (Taylor's series of degree 7 at x/64)^64: the relative error is some 4e-6 for x > -20 and
    0.2 % at -60, to which smaller x are clipped.
    """
    z = (x if x > np.float32(-60.0) else np.float32(-60.0)) * np.float32(1.0 / 64.0)
    r = np.float32(1.0 / 720.0) + z * np.float32(1.0 / 5040.0)
    r = np.float32(1.0 / 24.0) + z * (np.float32(1.0 / 120.0) + z * r)
    r = np.float32(0.5) + z * (np.float32(1.0 / 6.0) + z * r)
    r = np.float32(1.0) + z * (np.float32(1.0) + z * r)
    r *= r
    r *= r
    r *= r
    r *= r
    r *= r
    r *= r
    return r


@_fast
def expected_risk(f, a, p, risk, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the expected risk of the candidates start .. stop; risk 0 is error, 1 log, 2 brier."""
    k, n_eval = f.shape
    x, b = np.empty((k, BLOCK), np.float32), np.empty((k, BLOCK), np.float32)
    for c in range(start, stop):
        total = 0.0
        for at in range(0, n_eval, BLOCK):
            end = min(at + BLOCK, n_eval)
            shift, grow = _shift(a[c], at, end)
            second, ones, tail = _shared_part(f, p[c], shift, x, b, at, end)
            if risk == 0:
                total += _error(p[c], x, grow, second, ones, tail)
            elif risk == 1:
                total += _log(p[c], x, b, shift, grow, ones, tail)
            else:
                total += _brier(p[c], x, grow, ones, tail)
        out[c] = total / n_eval if risk == 1 else 1.0 - total / n_eval


@_fast
def _shift(a, at, end):  # type: ignore[no-untyped-def]
    """Return a, kept in range, and the factor e^a by which x_y grows."""
    part = a[at:end]
    shift, grow = np.empty(len(part), np.float32), np.empty(len(part), np.float32)
    for e in range(len(part)):
        size = part[e] if part[e] > _ZERO else -part[e]
        size = size if size < _MOST else _MOST
        small = exp(-size)
        shift[e] = size if part[e] > _ZERO else -size
        grow[e] = _ONE / small if part[e] > _ZERO else small
    return shift, grow


@_fast
def _shared_part(f, p, shift, x, b, at, end):  # type: ignore[no-untyped-def]
    """Set b = B - max B and x = e^b; return the runner-up, how many are at 1, the sum of all below 1."""
    n, k = end - at, f.shape[0]
    top = np.full(n, np.float32(-1e30))
    second, ones, tail = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    for j in range(k):
        row, to, pj = f[j, at:end], b[j, :n], p[j]
        for e in range(n):
            v = row[e] - shift[e] * pj
            to[e] = v
            top[e] = v if v > top[e] else top[e]
    for j in range(k):
        row, to = b[j, :n], x[j, :n]
        for e in range(n):
            v = row[e] - top[e]
            row[e] = v
            v = exp(v)
            to[e] = v
            low = v if v < _ONE else _ZERO
            second[e] = low if low > second[e] else second[e]
            ones[e] += _ZERO if v < _ONE else _ONE
            tail[e] += low
    return second, ones, tail


@_inline
def _others(old, ones, tail):  # type: ignore[no-untyped-def]
    """Return the sum without `old`, exactly where it is the largest, at 1."""
    return (ones + (tail - old)) if old < _ONE else ((ones - _ONE) + tail)


@_fast
def _error(p, x, grow, second, ones, tail):  # type: ignore[no-untyped-def]
    """Return the sum over instances of sum_y p_y max_j p_j."""
    n = len(grow)
    gain = np.zeros(n, np.float32)
    for y in range(len(p)):
        row, py = x[y, :n], p[y]
        for e in range(n):
            old = row[e]
            new = old * grow[e]
            rest = second[e] if old + ones[e] >= np.float32(2.0) and ones[e] < np.float32(1.5) else _ONE
            largest = new if new > rest else rest
            gain[e] += py * largest / (_others(old, ones[e], tail[e]) + new)
    return gain.sum()


@_fast
def _brier(p, x, grow, ones, tail):  # type: ignore[no-untyped-def]
    """Return the sum over instances of sum_y p_y sum_j p_j^2."""
    n = len(grow)
    gain, squares = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for y in range(len(p)):
        row = x[y, :n]
        for e in range(n):
            squares[e] += row[e] * row[e] if row[e] < _ONE else _ZERO
    for y in range(len(p)):
        row, py = x[y, :n], p[y]
        for e in range(n):
            old = row[e]
            new = old * grow[e]
            part = _ONE / (_others(old, ones[e], tail[e]) + new)
            new *= part
            rest = _others(old * old if old < _ONE else _ONE, ones[e], squares[e])
            gain[e] += py * (rest * part * part + new * new)
    return gain.sum()


@_fast
def _log(p, x, b, shift, grow, ones, tail):  # type: ignore[no-untyped-def]
    """Return the sum over instances of sum_y p_y (log Z - sum_j x_j b_j / Z)."""
    n = len(grow)
    gain, inner = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for y in range(len(p)):
        row, at = x[y, :n], b[y, :n]
        for e in range(n):
            inner[e] += row[e] * at[e]
    for y in range(len(p)):
        row, at, py = x[y, :n], b[y, :n], p[y]
        for e in range(n):
            old = row[e]
            new = old * grow[e]
            total = _others(old, ones[e], tail[e]) + new
            moved = inner[e] - old * at[e] + new * (at[e] + shift[e])
            gain[e] += py * (np.log(total) - moved / total)
    return gain.sum()


@_fast
def log_likelihood(f, a, r, own, labels, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the mean log likelihood when logits f (k, M) move by -a r'; own (M,) are the labels' logits."""
    k, n_eval = f.shape
    b = np.empty((k, BLOCK), np.float32)
    for c in range(start, stop):
        total = 0.0
        for at in range(0, n_eval, BLOCK):
            end = min(at + BLOCK, n_eval)
            n, shift = end - at, a[c, at:end]
            top, z = np.full(n, np.float32(-1e30)), np.zeros(n, np.float32)
            for j in range(k):
                row, to, rj = f[j, at:end], b[j, :n], r[c, j]
                for e in range(n):
                    v = row[e] - shift[e] * rj
                    to[e] = v
                    top[e] = v if v > top[e] else top[e]
            for j in range(k):
                row = b[j, :n]
                for e in range(n):
                    z[e] += exp(row[e] - top[e])
            for e in range(n):
                total += own[at + e] - shift[e] * r[c, labels[at + e]] - top[e] - np.log(z[e])
        out[c] = total / n_eval
