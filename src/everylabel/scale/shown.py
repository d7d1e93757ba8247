"""What the page shows of a row in shards: its text or image, read from the source when it is asked for.

A row of a CSV or JSONL file is found by marks, a byte for each EVERY rows of a part, made when the part is
first looked at; one of Parquet by its row group.
"""

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, overload

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import content_digest
from everylabel.data.display import SHORT, Display, shown_item
from everylabel.data.pictures import Picture, read_picture
from everylabel.scale.sources import Part, Source, Stretch

EVERY = 64  # rows between marks
CACHED = 4096  # cells


class SourceCells(Sequence[Any]):
    """The texts or image paths of a source, by row."""

    def __init__(self, source: Source, parts: Sequence[Part]) -> None:
        self.source, self.parts = source, parts
        self._firsts = [part.first for part in parts]
        self._marks: dict[Stretch, list[int]] = {}
        self._lock = threading.Lock()
        self._cell = lru_cache(CACHED)(self._read)

    def __len__(self) -> int:
        return self.parts[-1].first + self.parts[-1].rows

    @overload
    def __getitem__(self, at: int) -> Any: ...

    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...

    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        return self._cell(range(len(self))[at])

    def _read(self, row: int) -> Any:
        part = self.parts[bisect_right(self._firsts, row) - 1]
        left = row - part.first
        for stretch in part.stretches:
            if left < stretch.rows:
                break
            left -= stretch.rows
        with self._lock:
            start, skip = self._start(stretch, left)
        found = self.source.cells(Stretch(stretch.file, start, skip + 1))
        return next(islice(found, skip, None))

    def _start(self, stretch: Stretch, row: int) -> tuple[int, int]:
        """Return where to begin to read, and how many rows to leave out then."""
        if not self.source.is_lines(stretch):
            return stretch.start + row, 0
        if stretch not in self._marks:
            self._marks[stretch] = self.source.marks(stretch, EVERY)
        return self._marks[stretch][row // EVERY], row % EVERY


@dataclass(frozen=True, eq=False)
class SourceImages(Display):
    """Images that a source names by path, none from outside of its folder."""

    paths: Sequence[Any]
    folder: Path
    what = "an image"

    def item(self, i: int) -> dict[str, Any]:
        return shown_item(None, image=True)

    def picture(self, i: int) -> Picture:
        return read_picture(self._path(i))

    def digest(self, i: int) -> str:
        return content_digest(self._path(i))

    def text(self, i: int) -> str:
        return Path(self.paths[i]).name[:SHORT]

    def _path(self, i: int) -> Path:
        path = Path(self.paths[i])
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise EverylabelError(
                f"image {str(path)!r} lies outside the source's folder {str(self.folder)!r}"
            )
        return path
