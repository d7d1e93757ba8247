"""Ctrl-C handling during the whole command: no traceback, and no Ctrl-C that is lost.

While a command is being imported, Ctrl-C ends the process at once: no work has started. Later it raises
Python's KeyboardInterrupt, which unwinds the work. A library that loads a model may swallow that exception,
so it is remembered, and the next Ctrl-C ends the process. So does Ctrl-C after the command is done.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CODE = 130  # the shells' exit code for Ctrl-C
_came = False


def end_at_once() -> None:
    """Let Ctrl-C end the process at once, before any work has started."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(CODE))


@contextmanager
def unwinding() -> Iterator[None]:
    """Let Ctrl-C unwind the work in this block, and remember it."""
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
    """Return whether Ctrl-C came although the command is still running."""
    return _came


def _raise(*_: Any) -> None:
    global _came
    if _came:
        os._exit(CODE)
    _came = True
    raise KeyboardInterrupt
