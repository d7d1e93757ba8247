"""Features that were embedded beside the server, one record an item, appended before it joins the pool.

A record is the hash of the item's content, a check sum, and the row. What a crash left half-written at the
end is not whole, or not right by its check sum, and counts as not there. At the next start the rows are found
here, to the bit, and go where all features are (`features.py`).
"""

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

JOURNAL = "joined.rows"
VERSION = 1
DIGEST = 16  # characters of a content's hash


class Kept(NamedTuple):
    """Features of items of before, and which row is of which content."""

    rows: np.ndarray
    at: dict[str, int]


NOTHING = Kept(np.zeros((0, 0), np.float32), {})


class Journal:
    """The file of a project's folder, for features that one model made of one kind of items."""

    def __init__(self, folder: Path, kind: str, model: str | None) -> None:
        self.path, self.made_by = folder / JOURNAL, {"version": VERSION, "kind": kind, "model": model}

    def read(self) -> Kept:
        """Return all rows that are whole."""
        try:
            with self.path.open("rb") as file:
                header = json.loads(file.readline())
                record = _record(header.pop("width"))
                if header != self.made_by:
                    return NOTHING
                data = file.read()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return NOTHING
        found = np.frombuffer(data[: len(data) - len(data) % record.itemsize], record)
        sums = np.array([zlib.crc32(row.tobytes()) for row in found["row"]], np.uint32)
        found = found[sums == found["check"]]
        return Kept(found["row"], {name.decode(): i for i, name in enumerate(found["digest"].tolist())})

    def add(self, digests: Sequence[str], rows: np.ndarray) -> None:
        """Append rows of items; they are on disk when this returns."""
        record = _record(rows.shape[1])
        new = np.zeros(len(rows), record)
        new["digest"], new["row"] = [name.encode() for name in digests], rows
        new["check"] = [zlib.crc32(row.tobytes()) for row in new["row"]]
        with self._opened(rows.shape[1]) as file:
            file.write(new.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _opened(self, width: int) -> Any:
        """Return the file, at the end of its last whole record; begun anew if it is of something else."""
        header = json.dumps({**self.made_by, "width": width}).encode() + b"\n"
        try:
            file = self.path.open("r+b")
        except FileNotFoundError:
            file = os.fdopen(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b")
        if file.readline() != header:
            file.truncate(0)
            file.seek(0)
            file.write(header)
        size = file.seek(0, os.SEEK_END) - len(header)
        end = len(header) + size - size % _record(width).itemsize
        file.truncate(end)
        file.seek(end)
        return file


def _record(width: int) -> np.dtype:
    return np.dtype([("digest", f"S{DIGEST}"), ("check", "<u4"), ("row", "<f4", (width,))])
