"""A log's files watched while a server has them open: SQLite would go on writing into one that is gone.

What is noted after each write of our own must be there before the next: the same files, of the same size,
last changed when we changed them. Looking costs a few questions to the file system.
"""

import os
from pathlib import Path
from typing import NamedTuple

ROOM = 2**20  # bytes that must be free where the log lies


class _Seen(NamedTuple):
    device: int
    number: int
    size: int
    changed: int


class FileGuard:
    """The files of one log: the database, what is written ahead of it, and the memory they share."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._files = [self._path, *(Path(f"{self._path}-{ending}") for ending in ("wal", "shm"))]
        self._noted: list[_Seen | None] = []
        self.note()

    def note(self) -> None:
        """Note the files as they are: we have just written to them, or read all."""
        self._noted = [_seen(file) for file in self._files]

    def moved(self) -> str | None:
        """Return which file is not the one that is open."""
        for file, noted in zip(self._files, self._noted, strict=True):
            now = _seen(file)
            if noted is not None and now is None:
                return f"{str(file)!r} is gone: it was deleted or moved while the server has it open"
            if noted is not None and now is not None and noted[:2] != now[:2]:
                return f"{str(file)!r} is another file than the server has open: it was replaced"
        return None

    def touched(self) -> bool:
        """Return whether somebody else has written to the log."""
        return [_seen(file) for file in self._files[:2]] != self._noted[:2]

    def full(self) -> bool:
        """Return whether there is hardly room left, as far as the file system tells."""
        try:
            about = os.statvfs(self._path.parent)
        except (OSError, AttributeError):  # not every system tells
            return False
        return about.f_blocks > 0 and about.f_bavail * about.f_frsize < ROOM


def _seen(file: Path) -> _Seen | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return _Seen(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
