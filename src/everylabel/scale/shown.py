"""What the page shows of a row in shards: its text or image, read from the source when it is asked for.

A row of a CSV or JSONL file is found by marks, a byte for each EVERY rows of a part, made when the part is
first looked at; one of Parquet by its row group.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, overload

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import text_of
from everylabel.data.digests import bytes_digest, content_digest
from everylabel.data.display import SHORT, Display, shown_item
from everylabel.data.pictures import Picture, shown_image
from everylabel.data.read_columns import ReadColumn
from everylabel.scale.sources import Part, Source, Stretch

EVERY = 64  # rows between marks
CACHED = 4096  # cells
BLOCKS = 4  # of rows of columns


class Finder:
    """Where each row of a source is read from: a block of EVERY rows, and its place there."""

    def __init__(self, source: Source, parts: Sequence[Part]) -> None:
        self.source, self.parts = source, parts
        self._firsts = [part.first for part in parts]
        self._marks: dict[Stretch, list[int]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.parts[-1].first + self.parts[-1].rows

    def block(self, row: int) -> tuple[Stretch, int]:
        """Return the block that holds a row, and how many of its rows come before."""
        part = self.parts[bisect_right(self._firsts, row) - 1]
        left = row - part.first
        for stretch in part.stretches:
            if left < stretch.rows:
                break
            left -= stretch.rows
        try:
            with self._lock:
                start, skip = self._start(stretch, left)
        except IndexError as error:
            raise self.gone(row) from error
        return Stretch(stretch.file, start, min(EVERY, stretch.rows - left + skip)), skip

    def gone(self, row: int) -> EverylabelError:
        """Return what is told of a row that the source does not have."""
        return EverylabelError(
            f"source {self.source.place!r} has no row {row:,}, which the manifest of its shards names; "
            "expected the file that they were made of: put it back, or name it by --show FILE"
        )

    def _start(self, stretch: Stretch, row: int) -> tuple[int, int]:
        """Return where a block begins, and how many rows to leave out then."""
        if not self.source.is_lines(stretch):
            return stretch.start + row - row % EVERY, row % EVERY
        if stretch not in self._marks:
            self._marks[stretch] = self.source.marks(stretch, EVERY)
        return self._marks[stretch][row // EVERY], row % EVERY


class SourceCells(Sequence[Any]):
    """The texts or image paths of a source, by row."""

    def __init__(self, source: Source, parts: Sequence[Part]) -> None:
        self._finder = Finder(source, parts)
        self._cell = lru_cache(CACHED)(self._read)

    def __len__(self) -> int:
        return len(self._finder)

    @overload
    def __getitem__(self, at: int) -> Any: ...

    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...

    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        return self._cell(range(len(self))[at])

    def _read(self, row: int) -> Any:
        stretch, skip = self._finder.block(row)
        found = self._finder.source.cells(stretch._replace(rows=skip + 1))
        try:
            return next(islice(found, skip, None))
        except StopIteration as error:
            raise self._finder.gone(row) from error


class SourceColumns(Mapping[str, ReadColumn]):
    """The columns of a source, of which blocks of rows are read: of those columns that were taken out."""

    def __init__(self, source: Source, parts: Sequence[Part]) -> None:
        self.finder = Finder(source, parts)
        self._columns = {name: SourceColumn(self, name, kind) for name, kind in source.types().items()}
        self._taken: dict[str, int] = {}  # and which they are of those that are read
        self._block = lru_cache(BLOCKS)(source.table)

    def cell(self, name: str, row: int) -> Any:
        """Return the value that a column which was taken out has in a row."""
        stretch, skip = self.finder.block(row)
        block = self._block(stretch, tuple(self._taken))
        if skip >= len(block):
            raise self.finder.gone(row)
        return block[skip][self._taken[name]]

    def __getitem__(self, name: str) -> ReadColumn:
        column = self._columns[name]
        self._taken.setdefault(name, len(self._taken))
        return column

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class SourceColumn(ReadColumn):
    """One of them."""

    def __init__(self, columns: SourceColumns, name: str, kind: type) -> None:
        self._columns, self._name, self.type = columns, name, kind

    def __len__(self) -> int:
        return len(self._columns.finder)

    def at(self, i: int) -> Any:
        return self._columns.cell(self._name, i)


class SourceIds(Sequence[str]):
    """The source's own ids: a column as text."""

    def __init__(self, column: ReadColumn) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, i: int) -> str: ...

    @overload
    def __getitem__(self, i: slice) -> list[str]: ...

    def __getitem__(self, i: int | slice) -> Any:
        found = self._column[i]
        return [_id(one) for one in found] if isinstance(i, slice) else _id(found)


def _id(value: Any) -> str:
    return text_of(value).strip()


@dataclass(frozen=True, eq=False)
class SourceImages(Display):
    """Images that a source names by path, or holds; those from outside of its folder may not be shown."""

    images: Sequence[Any]
    folder: Path
    what = "an image"

    def item(self, i: int) -> dict[str, Any]:
        return shown_item(None, image=True)

    def picture(self, i: int) -> Picture:
        return shown_image(self.images[i], f"row {i}")

    def digest(self, i: int) -> str:
        image = self.images[i]
        return bytes_digest(image) if isinstance(image, bytes) else content_digest(image)

    def file(self, i: int) -> Path | None:
        image = self.images[i]
        return image if isinstance(image, Path) else None

    def home(self) -> Path:
        return self.folder

    def text(self, i: int) -> str:
        file = self.file(i)
        return f"row {i}" if file is None else file.name[:SHORT]
