"""Memory that trainings let go of goes back to the system: glibc keeps most of it, more with each of them.

Each thread has a stretch of memory of its own, whose end glibc keeps however much of it is free, up to a
threshold that it raises to 64 MB by itself; what lies before the end it gives back when it is asked to.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT, GIVEN = 64 * 2**20, 2**17  # free bytes at the end of a stretch that are kept: else, and by `give_back`
ALONE = 32 * 2**20  # bytes from which on memory is asked of the system alone; glibc raises it to this, too


def give_back() -> None:
    """Give back what is free in this thread's stretch of memory, and in all others but for their ends."""
    with _c_library() as c:
        _give_end_back(c)
        c.malloc_trim(0)


def give_end_back() -> None:
    """Give back the end of this thread's stretch of memory; a matter of microseconds."""
    with _c_library() as c:
        _give_end_back(c)


def find_memory(size: int) -> None:
    """Have the system find so many bytes now, so that who takes them next need not wait for it.

    A virtual machine gets what it has never used from its host: a copy of 80 MB took 240 ms, and 13 after it.
    """
    np.ones(size // 8)


def _give_end_back(c: ctypes.CDLL) -> None:
    c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    c.mallopt(M_MMAP_THRESHOLD, ALONE)  # it stays what it was on its own: to set one threshold fixes both
    c.mallopt(M_TRIM_THRESHOLD, GIVEN)
    c.free(c.malloc(GIVEN))  # the end is looked at when something large beside it is freed
    c.mallopt(M_TRIM_THRESHOLD, KEPT)


@contextmanager
def _c_library() -> Iterator[ctypes.CDLL]:
    """Yield glibc; with another C library nothing is done."""
    with suppress(OSError, AttributeError, TypeError):
        yield ctypes.CDLL(None)
