"""Run compiled loops over large arrays in threads, if there is enough work to repay their start.

The loops are compiled on first use and cached on disk. They release the interpreter's lock, so plain threads
share the work; numba's own thread pool is not used, since two threads of a server must not enter it at once.
Without numba (the extra `fast`) NumPy does all the work.
"""

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any

SMALL = 2**19  # numbers that NumPy processes before a compiled loop has started


@cache
def can_compile() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


def worth_compiling(work: int) -> bool:
    """Return whether numba is installed and `work` numbers are worth a compiled loop."""
    return work >= SMALL and can_compile()


@cache
def can_widen() -> bool:
    """Return whether this processor reads half precision, which a compiled loop needs.

    Every processor of the last ten years does, unless NUMBA_CPU_NAME names another one.
    """
    if not can_compile() or any(name in os.environ for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")):
        return False
    from llvmlite.binding import get_host_cpu_features

    return platform.machine().lower() in ("aarch64", "arm64") or get_host_cpu_features().get("f16c", False)


def workers() -> int:
    """Return the number of threads that share a loop: OMP_NUM_THREADS if set, else the cores available."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(int(asked), cores)) if asked.isdigit() else cores


def share(loop: Callable[[int, int], Any], n: int) -> list[Any]:
    """Run loop(start, stop) in threads on ranges that cover 0 .. n and return their results in order."""
    parts = workers()
    bounds = [n * i // parts for i in range(parts + 1)]
    if parts == 1:
        return [loop(0, n)]
    with ThreadPoolExecutor(parts) as threads:
        return list(threads.map(loop, bounds[:-1], bounds[1:]))
