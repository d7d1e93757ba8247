"""The pool's compiled loops: one label moves all logits, and the margin of every instance.

logits (k, n), classes first, so that each inner loop runs over instances and vectorises for
every k. Imported through `threads.compiled` only, where numba is installed.
"""

import numpy as np
from numba import njit

BLOCK = 512  # instances whose logits stay in the first-level cache

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
def move(logits, shift, residual, start, stop):  # type: ignore[no-untyped-def]
    """Take logits -= residual shift' in place for the instances start .. stop."""
    for at in range(start, stop, 4 * BLOCK):
        end = min(at + 4 * BLOCK, stop)
        for j in range(logits.shape[0]):
            r = residual[j]
            for i in range(at, end):
                logits[j, i] -= r * shift[i]


@_fast
def margins(logits, out, start, stop):  # type: ignore[no-untyped-def]
    """Write p_first - p_second = (1 - e^(f_second - f_first)) / sum_j e^(f_j - f_first)."""
    k = logits.shape[0]
    first, second = np.empty(BLOCK, logits.dtype), np.empty(BLOCK, logits.dtype)
    total = np.empty(BLOCK, np.float32)
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        for i in range(n):
            first[i] = max(logits[0, at + i], logits[1, at + i])
            second[i] = min(logits[0, at + i], logits[1, at + i])
            total[i] = np.float32(0.0)
        for j in range(2, k):
            for i in range(n):
                f = logits[j, at + i]
                second[i] = max(second[i], min(f, first[i]))
                first[i] = max(first[i], f)
        for j in range(k):
            for i in range(n):
                total[i] += exp(np.float32(logits[j, at + i] - first[i]))
        for i in range(n):
            out[at + i] = -np.expm1(second[i] - first[i]) / total[i]
