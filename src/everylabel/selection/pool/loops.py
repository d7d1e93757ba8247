"""The pool's compiled loops: update all logits after a label, and find the smallest margin.

logits (k, n), classes first, so that each inner loop runs over instances and vectorises for
every k. Imported on first use only: numba takes its time to start.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

TIE = np.float32(2e-6)  # twice the tie of `ranking`
FAR = np.float32(1e30)  # beyond all logits; fast maths knows no infinity
BLOCK = 2048  # instances whose numbers stay in the cache
RECORDS = 4096  # most successive minima that a result holds

_fast = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")
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


@intrinsic
def single(typing, x):  # type: ignore[no-untyped-def]
    """Return a number in single precision; half precision is read from its bits, eight per instruction."""
    if x not in (types.uint16, types.float32):
        return None

    def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
        if x == types.float32:
            return given[0]
        return builder.fpext(builder.bitcast(given[0], ir.HalfType()), ir.FloatType())

    return types.float32(x), write


@_fast
def widen(half, out):  # type: ignore[no-untyped-def]
    """Write half-precision numbers (their bits, n) as single precision; NumPy takes ten times as long."""
    for i in range(len(half)):
        out[i] = single(half[i])  # type: ignore[call-arg]


@_fast
def product(rows, v, bias, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the products (m, n) of the instances start .. stop with the vectors v (m, d), plus bias (m,).

    rows (n, d) in single precision, or bits of half. All numbers are finite: computing the logits of all
    columns has checked that before.
    """
    for i in range(start, stop):
        row = rows[i]
        for c in range(len(v)):
            weights, total = v[c], np.float32(0.0)
            for j in range(len(weights)):
                total += single(row[j]) * weights[j]  # type: ignore[call-arg]
            out[c, i] = total + bias[c]


@_fast
def move(logits, shift, residual, gaps, start, stop):  # type: ignore[no-untyped-def]
    """Subtract residual shift' from the logits of instances start .. stop in place; write f_first - f_second.

    It works in blocks, whose logits are compared while they are in the cache. Loops run from 0 over slices,
    so that the compiler knows that no index is negative.
    """
    for at in range(start, stop, BLOCK):
        end = min(at + BLOCK, stop)
        u, gap = shift[at:end], gaps[at:end]
        for j in range(logits.shape[0]):
            f, r = logits[j, at:end], residual[j]
            if r != 0.0:  # classes that a label does not move cost nothing
                for i in range(len(u)):
                    f[i] -= r * u[i]
        first, second = _two_largest(logits, at, end)
        for i in range(len(gap)):
            gap[i] = first[i] - second[i]


@_fast
def narrowest(logits, gaps, usable, start, stop):  # type: ignore[no-untyped-def]
    """Return usable instances whose margin is below all before them (the last RECORDS), and the margins.

    With x = f_first - f_second, Z <= k and 1 - e^-x >= x/(1 + x) bound a margin from below by x/(1 + x)/k:
    it is computed only where that is not above the smallest so far, x <= c/(1 - c), c = k (smallest + TIE).
    """
    where, found, n = np.empty(RECORDS, np.int64), np.empty(RECORDS, logits.dtype), 0
    k, least, widest = logits.shape[0], FAR, FAR
    gap, free = gaps[start:stop], usable[start:stop]
    for i in range(len(gap)):
        if gap[i] <= widest and free[i]:
            margin = _margin(logits[:, start + i], gap[i])
            if margin < least:
                where[n % RECORDS], found[n % RECORDS] = start + i, margin
                n, least = n + 1, margin
                c = k * (least + TIE)
                widest = c / (1.0 - c) if c < 1.0 else FAR
    return where[:n], found[:n]


@_fast
def _margin(f, gap):  # type: ignore[no-untyped-def]
    first, total = f.max(), 0.0
    for j in range(len(f)):
        total += np.exp(f[j] - first)
    return -np.expm1(-gap) / total


@_fast
def margins(logits, out, start, stop):  # type: ignore[no-untyped-def]
    """Write p_first - p_second = (1 - e^(f_second - f_first)) / Z, Z = sum_j e^(f_j - f_first)."""
    for at in range(start, stop, BLOCK):
        end = min(at + BLOCK, stop)
        first, second = _two_largest(logits, at, end)
        _all_margins(logits, first, second, out[at:end], at, end)


@_fast
def _two_largest(logits, at, end):  # type: ignore[no-untyped-def]
    """Return the largest and the second largest; two classes at a time, which the compiler vectorises."""
    first, second = np.full(end - at, -FAR, logits.dtype), np.full(end - at, -FAR, logits.dtype)
    odd = logits.shape[0] % 2
    if odd:
        first[:] = logits[0, at:end]
    for j in range(odd, logits.shape[0], 2):
        one, two = logits[j, at:end], logits[j + 1, at:end]
        for i in range(len(first)):
            high, low = max(one[i], two[i]), min(one[i], two[i])
            second[i] = max(max(second[i], low), min(first[i], high))
            first[i] = max(first[i], high)
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
