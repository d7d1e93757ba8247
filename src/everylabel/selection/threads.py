"""Compiled loops on large arrays, in threads, where the work repays their start.

The loops are imported and compiled on first use and kept on disk. They let go of the interpreter's lock, so
plain threads share the work; numba's own thread pool, which must not be entered from two threads
of a server at once, is not used. Without numba (the extra `fast`) NumPy does all of it.
"""

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from everylabel.core.arrays import can_compile

SMALL = 2**19  # numbers that NumPy works through before a compiled loop has started


def worth_compiling(work: int) -> bool:
    """Return whether so many numbers are worth a compiled loop, and one can be had."""
    return work >= SMALL and can_compile()


@cache
def can_widen() -> bool:
    """Return whether this processor reads half precision; else a compiled loop that does so cannot be made.

    Every one of the last ten years does. Who has told numba of another one (NUMBA_CPU_NAME) goes without.
    """
    if not can_compile() or any(name in os.environ for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")):
        return False
    from llvmlite.binding import get_host_cpu_features

    return platform.machine().lower() in ("aarch64", "arm64") or get_host_cpu_features().get("f16c", False)


def workers() -> int:
    """Return how many threads share a loop: OMP_NUM_THREADS if set, else the cores we may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(int(asked), cores)) if asked.isdigit() else cores


def share(loop: Callable[[int, int], Any], n: int) -> list[Any]:
    """Return what loop(start, stop) returns on ranges that make up 0 .. n, one a thread."""
    parts = workers()
    bounds = [n * i // parts for i in range(parts + 1)]
    if parts == 1:
        return [loop(0, n)]
    with ThreadPoolExecutor(parts) as threads:
        try:
            found = threads.map(loop, bounds[:-1], bounds[1:])
        except RuntimeError:  # Python is ending, and begins no thread any more
            found = map(loop, bounds[:-1], bounds[1:])
        return list(found)
