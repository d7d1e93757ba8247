"""Ctrl-C from the first moment of a command to its last: no traceback, and none that is swallowed.

While a command is loaded nothing has begun, so it ends at once. Later Ctrl-C is Python's usual exception,
which unwinds what has begun. A library that loads a model may swallow that: it is remembered, and the next
one ends the process. So does one that comes when the command is done.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CODE = 130  # as shells have it
_came = False


def end_at_once() -> None:
    """Let Ctrl-C end the process, before anything has begun."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(CODE))


@contextmanager
def unwinding() -> Iterator[None]:
    """Let Ctrl-C unwind what is done in this block, and be remembered."""
    global _came
    _came = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def swallowed() -> bool:
    """Return whether Ctrl-C came though the command is still at work."""
    return _came


def _raise(*_: Any) -> None:
    global _came
    if _came:
        os._exit(CODE)
    _came = True
    raise KeyboardInterrupt
