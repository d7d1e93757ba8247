"""The pool's compiled loops: one label moves all logits, and the margin of every instance.

logits (k, n), classes first, so that each inner loop runs over instances and vectorises for
every k. Imported on first use only: numba takes its time to start.
"""

import numpy as np
from numba import njit

TIE = np.float32(2e-6)  # twice the tie of `ranking`
BLOCK = 2048  # instances whose numbers stay in the first-level cache

_fast = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
def exp(x):  # type: ignore[no-untyped-def]
    """Return e to the x for x <= 0 without branches or calls, so that loops vectorise.

    (Taylor's series of degree 7 at x/64)^64: the relative error is some 4e-6 for x > -20 and
    0.2 % at -60, which stands in for all that is less.
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
def widen(half, out):  # type: ignore[no-untyped-def]
    """Write half-precision numbers (their bits, n) as single precision; NumPy takes ten times as long.

    The 15 bits of exponent and fraction, put where single precision has them, are the number times 2^-112.
    """
    bits, scale, limit = out.view(np.uint32), np.float32(2.0**112), np.float32(65536.0)
    for i in range(len(half)):
        x = np.uint32(half[i])
        bits[i] = ((x & np.uint32(0x7FFF)) << np.uint32(13)) | ((x & np.uint32(0x8000)) << np.uint32(16))
    for i in range(len(out)):
        out[i] *= scale
        if abs(out[i]) >= limit:  # infinite, or no number
            out[i] = np.nan


@_fast
def half_product(half, v, bias, out, start, stop):  # type: ignore[no-untyped-def]
    """Write H v + bias of the instances start .. stop, features (n, d) in the bits of half precision.

    All are finite (`widen` has seen them); v (d,) in single precision times 2^112.
    """
    bits = np.empty(half.shape[1], np.uint32)
    values = bits.view(np.float32)
    for i in range(start, stop):
        row, total = half[i], np.float32(0.0)
        for j in range(len(bits)):
            x = np.uint32(row[j])
            bits[j] = ((x & np.uint32(0x7FFF)) << np.uint32(13)) | ((x & np.uint32(0x8000)) << np.uint32(16))
        for j in range(len(bits)):
            total += values[j] * v[j]
        out[i] = total + bias


@_fast
def move(logits, shift, residual, start, stop):  # type: ignore[no-untyped-def]
    """Take logits -= residual shift' in place for the instances start .. stop.

    Loops run from 0 over slices: only then does the compiler know that no index is negative.
    """
    u = shift[start:stop]
    for j in range(logits.shape[0]):
        f, r = logits[j, start:stop], residual[j]
        if r != 0.0:  # a class that a label leaves alone costs nothing
            for i in range(len(u)):
                f[i] -= r * u[i]


@_fast
def margins(logits, usable, one, out, start, stop):  # type: ignore[no-untyped-def]
    """Write p_first - p_second = (1 - e^(f_second - f_first)) / Z, Z = sum_j e^(f_j - f_first).

    With `one`, only the smallest of all is wanted: with x = f_first - f_second, Z <= k and
    1 - e^-x >= x/(1 + x) bound a margin from below by x/(1 + x)/k, and where that is above the
    smallest so far it is written in its place.
    """
    k, narrow = logits.shape[0], np.float32(2.0)
    one_more = np.float32(1.0)
    for at in range(start, stop, BLOCK):
        end = min(at + BLOCK, stop)
        margin, free = out[at:end], usable[at:end]
        first, second = _two_largest(logits, at, end)
        if not one:
            _all_margins(logits, first, second, margin, at, end)
            continue
        for i in range(len(margin)):
            x = first[i] - second[i]
            margin[i] = x / ((one_more + x) * k) if free[i] else one_more
        for i in range(len(margin)):
            if margin[i] <= narrow + TIE and free[i]:
                total = 0.0
                for j in range(k):
                    total += np.exp(logits[j, at + i] - first[i])
                margin[i] = -np.expm1(second[i] - first[i]) / total
                narrow = min(narrow, margin[i])


@_fast
def _two_largest(logits, at, end):  # type: ignore[no-untyped-def]
    first = np.maximum(logits[0, at:end], logits[1, at:end])
    second = np.minimum(logits[0, at:end], logits[1, at:end])
    for j in range(2, logits.shape[0]):
        row = logits[j, at:end]
        for i in range(len(first)):
            low = row[i] if row[i] < first[i] else first[i]
            second[i] = low if low > second[i] else second[i]
            first[i] = row[i] if row[i] > first[i] else first[i]
    return first, second


@_fast
def _all_margins(logits, first, second, out, at, end):  # type: ignore[no-untyped-def]
    total = np.zeros(len(out), np.float32)
    for j in range(logits.shape[0]):
        row = logits[j, at:end]
        for i in range(len(total)):
            total[i] += exp(np.float32(row[i] - first[i]))
    for i in range(len(out)):
        out[i] = -np.expm1(second[i] - first[i]) / total[i]
