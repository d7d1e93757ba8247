"""Compiled loops over features in half precision, which NumPy converts a hundred times more slowly.

Half precision comes as its bits, (n, d) uint16. Imported on first use only: numba takes its time to start.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_fast = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")


@intrinsic
def single(typing, x):  # type: ignore[no-untyped-def]
    """Return the single-precision number of the bits of half precision; eight per instruction."""
    if x != types.uint16:
        return None

    def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
        return builder.fpext(builder.bitcast(given[0], ir.HalfType()), ir.FloatType())

    return types.float32(x), write


@_fast
def widen(half, out):  # type: ignore[no-untyped-def]
    """Write half-precision numbers (n,) as single precision."""
    for i in range(len(half)):
        out[i] = single(half[i])  # type: ignore[call-arg]


@_fast
def product(half, v, bias, out, start, stop):  # type: ignore[no-untyped-def]
    """Write the products of the rows start .. stop with v (d,), plus bias; all numbers are finite."""
    for i in range(start, stop):
        row, total = half[i], np.float32(0.0)
        for j in range(len(v)):
            total += single(row[j]) * v[j]  # type: ignore[call-arg]
        out[i] = total + bias
