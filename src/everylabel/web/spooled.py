"""Files to download: made into a file without a name, a piece at a time, and sent from there.

What is made holds the state of a project in memory, and a client may take an hour; a file on the disk holds
nothing else. It lies in the project's folder, or where the system keeps such files, goes when it is closed,
and leaves room for the log.
"""

import io
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, NamedTuple

from everylabel.labelling.refused import Refused

IN_MEMORY = 4_000_000  # bytes of a file that lies there: labels can be had though the disk is full
ROOM = 2**26  # bytes that stay free where a file is put


class File(NamedTuple):
    """A file in pieces, what it is called, and where it may lie."""

    pieces: Iterator[bytes]
    media: str
    name: str
    folders: Sequence[Path] = ()


def spool(pieces: Iterator[bytes], folders: Sequence[Path], stop: threading.Event) -> IO[bytes]:
    """Return all pieces as one file, at its end; an empty one if nobody wants it any more."""
    file: IO[bytes] = io.BytesIO()
    try:
        for piece in pieces:
            if stop.is_set():
                file.close()
                return io.BytesIO()
            if isinstance(file, io.BytesIO) and file.tell() + len(piece) > IN_MEMORY:
                begun, file = file, _on_disk((*folders, Path(gettempdir())))
                _put(file, begun.getvalue())
            _put(file, piece)
    except BaseException:
        with suppress(OSError):  # it is told already that nothing more can be written
            file.close()
        raise
    return file


def _put(file: IO[bytes], piece: bytes) -> None:
    """Write a piece, and leave room: others, such as the log, write there as well."""
    try:
        file.write(piece)
        if not isinstance(file, io.BytesIO) and hasattr(os, "fstatvfs"):
            file.flush()
            about = os.fstatvfs(file.fileno())
            if about.f_bavail * about.f_frsize < ROOM:
                raise _no_room(f"{ROOM:,} bytes are kept free for the log")
    except OSError as error:
        raise _no_room(error.strerror or str(error)) from error


def _on_disk(folders: Sequence[Path]) -> IO[bytes]:
    """Return a file on the disk, in the first folder that has room."""
    found = next(filter(None, map(_made_in, folders)), None)
    if found is None:
        raise _no_room("no room in " + " or ".join(repr(str(folder)) for folder in folders))
    return found


def _made_in(folder: Path) -> IO[bytes] | None:
    try:
        roomy = shutil.disk_usage(folder).free > ROOM
        return TemporaryFile(dir=folder) if roomy else None
    except OSError:
        return None


def _no_room(why: str) -> Refused:
    told = f"there is no room on the server's disk for this file ({why}): make some there, and try again"
    return Refused(507, "no_room", f"{told}; all answers are kept")
