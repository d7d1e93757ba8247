"""Count the Python files of everylabel that code runs through."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import everylabel

PACKAGE = str(Path(everylabel.__file__).parent)
ASIDE = ("retrain", "arrivals", "compile")  # names of threads that nobody waits for


class Files:
    """The files that ran at least one function since `begin`; code at the top of a module does not count."""

    def __init__(self) -> None:
        self._found: set[str] = set()
        self._thread: threading.Thread | None = None
        self._on = False

    def begin(self, *, here: bool = False) -> None:
        """Count on all threads that people wait for, or only on this one (here)."""
        self._found, self._on = set(), True
        self._thread = threading.current_thread() if here else None

    def end(self) -> list[str]:
        """Stop, and return the files."""
        self._on = False
        return sorted(Path(path).relative_to(PACKAGE).as_posix() for path in self._found)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self._on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_name == "<module>" or code.co_filename in self._found:
            return
        thread = threading.current_thread()
        if thread is self._thread or (self._thread is None and not thread.name.startswith(ASIDE)):
            self._found.add(code.co_filename)


@contextmanager
def traced() -> Iterator[Files]:
    """Yield a counter of files for this thread and for threads started within the block."""
    files, before = Files(), sys.getprofile()
    threading.setprofile(files)
    sys.setprofile(files)
    try:
        yield files
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
