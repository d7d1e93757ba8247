"""A large source, cut into parts that any worker can read by itself, without the rows before.

Parquet files (one, or a folder of them) are read from a row on, CSV and JSONL files from a byte on. One pass
over the files tells what they hold, so that a job that is begun again knows whether they are what they were.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import text_of
from everylabel.data.options import Options
from everylabel.data.readers.columns import LOOK_AT, looks_like
from everylabel.data.readers.rows import check_columns
from everylabel.data.readers.table import image_paths
from everylabel.scale import parquet_rows, places
from everylabel.scale.line_rows import LineFile
from everylabel.scale.places import Stamp

PARQUET, LINES = (".parquet",), (".csv", ".tsv", ".jsonl", ".ndjson")


class Stretch(NamedTuple):
    """Rows of one file that follow each other."""

    file: int  # its number
    start: int  # the first row, from 0, of a Parquet file; the byte where it begins of another
    rows: int


class Part(NamedTuple):
    """Rows of the source that follow each other: what becomes one shard."""

    number: int
    first: int  # its first row in the source, from 0
    rows: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Source:
    """Files of one kind, and the column of them that is wanted."""

    place: str
    files: tuple[str, ...]
    column: str
    kind: str  # "text" or "image"
    options: Options

    def values(self, part: Part) -> Iterator[Any]:
        """Yield the texts or images of a part, never all in memory."""
        for stretch in part.stretches:
            yield from self.cells(stretch)

    def cells(self, stretch: Stretch) -> Iterator[Any]:
        """Yield the texts or images of a stretch."""
        file = self.files[stretch.file]
        try:
            for value in self._cells(file, stretch):
                yield text_of(value) if self.kind == "text" else _image(value, file)
        except OSError as error:
            raise _unreadable(file, error) from error

    def types(self) -> dict[str, type]:
        """Return the columns that have a name, of all files, and what their values are: int, float or str.

        The column of images is left out where it holds them, not their paths.
        """
        found: dict[str, set[type]] = {}
        for file in self.files:
            for name, kind in self._types(file).items():
                found.setdefault(name, set()).add(kind)
        if self.kind == "image" and object in found.get(self.column, ()):
            del found[self.column]
        return {name: _in_common(kinds) for name, kinds in found.items() if name}

    def _types(self, file: str) -> dict[str, type]:
        try:
            if _ending(file) in PARQUET:
                return parquet_rows.types(file)
            return dict.fromkeys(LineFile(file, self.options).columns, str)
        except OSError as error:
            raise _unreadable(file, error) from error

    def table(self, stretch: Stretch, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the values that some columns have in a stretch; None where its file has no such column."""
        file, (_, start, rows) = self.files[stretch.file], stretch
        try:
            if self.is_lines(stretch):
                return list(LineFile(file, self.options).table(names, start, rows))
            return list(parquet_rows.table(file, names, start, rows))
        except OSError as error:
            raise _unreadable(file, error) from error

    def is_lines(self, stretch: Stretch) -> bool:
        """Return whether a stretch begins at a byte, not at a row."""
        return _ending(self.files[stretch.file]) not in PARQUET

    def marks(self, stretch: Stretch, every: int) -> list[int]:
        """Return where each `every`-th row of a stretch of lines begins."""
        return LineFile(self.files[stretch.file], self.options).marks(stretch.start, stretch.rows, every)

    def _cells(self, file: str, stretch: Stretch) -> Iterator[Any]:
        _, start, rows = stretch
        if _ending(file) in PARQUET:
            return parquet_rows.cells(file, self.column, start, rows)
        return LineFile(file, self.options).cells(self.column, start, rows)

    def stamps(self) -> list[Stamp]:
        """Return what the files are known by, without reading them."""
        return [places.stamp(file) for file in self.files]

    def planned(self, size: int) -> tuple[list[Part], list[Stamp]]:
        """Return the parts of `size` rows each, and what the files hold."""
        stamps = self.stamps()
        if _ending(self.files[0]) in PARQUET:
            counts = [parquet_rows.count(file, self.column) for file in self.files]
            parts = _over_files(counts, size)
        else:
            (file,) = self.files
            starts, n = LineFile(file, self.options).starts(size)
            parts = [
                Part(i, i * size, min(size, n - i * size), (Stretch(0, at, min(size, n - i * size)),))
                for i, at in enumerate(starts)
            ]
        if not parts:
            raise EverylabelError(f"source {self.place!r} has no rows; expected at least one")
        return parts, [one._replace(digest=places.digest(file)) for one, file in _pairs(stamps, self.files)]


def open_source(place: str, options: Options) -> Source:
    """Return a source with the column that is named, or the one that looks like texts or images."""
    files = files_of(place)
    there = _columns(files[0], options)
    named = options.text_column or options.image_column
    if options.text_column is not None and options.image_column is not None:
        raise EverylabelError(
            f"--text-column is {options.text_column!r} and --image-column {options.image_column!r}; expected "
            "one only"
        )
    kind = "text" if options.image_column is None else "image"
    if named is None:
        kind, named = _found(place, files[0], there, options)
    check_columns(place, there, [named])
    if kind == "image" and places.is_remote(place):
        raise EverylabelError(f"--image-column of {place!r}: images are read from files of this machine only")
    return Source(place, files, named, kind, options)


def files_of(place: str) -> tuple[str, ...]:
    """Return the files of a source, none of them opened."""
    if places.is_folder(place):
        names = [name for name in places.listed_in(place) if _ending(name) in PARQUET]
        if not names:
            raise EverylabelError(
                f"folder {place!r} holds no .parquet files; expected some, or one file ({_known()}); images "
                "in a folder go into one .npy file (-o FILE.npy)"
            )
        return tuple(places.inside(place, name) for name in names)
    if not places.exists(place):
        raise EverylabelError(
            f"source {place!r} is not there; expected a file ({_known()}) or a folder of them"
        )
    if _ending(place) not in (*PARQUET, *LINES):
        raise EverylabelError(
            f"source {place!r} cannot be cut into shards; expected {_known()}, or one .npy file as -o"
        )
    return (place,)


def _found(place: str, file: str, there: list[str], options: Options) -> tuple[str, str]:
    """Return the kind and name of the one column that looks like texts or images."""
    names = [name for name in there if name != options.label_column]
    some = {name: list(_first_cells(file, name, options)) for name in names}
    base = Path() if places.is_remote(file) else Path(file).parent
    found = looks_like(place, some, there, base)
    if found is None:
        raise EverylabelError(
            f"source {place!r} has columns {', '.join(map(repr, there))}, and none looks like text; pass "
            "--text-column or --image-column (a whole table goes into one .npy file: -o FILE.npy)"
        )
    return found


def _columns(file: str, options: Options) -> list[str]:
    try:
        if _ending(file) in PARQUET:
            return parquet_rows.columns(file)
        return LineFile(file, options).columns
    except OSError as error:
        raise _unreadable(file, error) from error


def _first_cells(file: str, name: str, options: Options) -> Iterator[Any]:
    if _ending(file) in PARQUET:
        return parquet_rows.cells(file, name, 0, LOOK_AT)
    lines = LineFile(file, options)
    return lines.cells(name, lines.begin, LOOK_AT)


def _over_files(counts: list[int], size: int) -> list[Part]:
    """Return parts of `size` rows, which may begin in one file and end in another."""
    parts: list[Part] = []
    stretches: list[Stretch] = []
    first, filled = 0, 0
    for file, count in enumerate(counts):
        at = 0
        while at < count:
            rows = min(size - filled, count - at)
            stretches.append(Stretch(file, at, rows))
            at, filled = at + rows, filled + rows
            if filled == size:
                parts.append(Part(len(parts), first, filled, tuple(stretches)))
                first, filled, stretches = first + filled, 0, []
    if filled:
        parts.append(Part(len(parts), first, filled, tuple(stretches)))
    return parts


def _in_common(kinds: set[type]) -> type:
    """Return what the values of a column are that is of these kinds in one file and another."""
    told = kinds - {type(None)}
    if told == {int}:
        return int
    return float if told and told <= {int, float} else str


def _image(value: Any, file: str) -> Any:
    return image_paths([value], Path(file).absolute().parent)[0]


def _pairs(stamps: list[Stamp], files: tuple[str, ...]) -> Iterator[tuple[Stamp, str]]:
    return zip(stamps, files, strict=True)


def _ending(place: str) -> str:
    return Path(places.base_name(place)).suffix.lower()


def _known() -> str:
    return ", ".join((*PARQUET, *LINES))


def _unreadable(file: str, error: OSError) -> EverylabelError:
    return EverylabelError(f"path {file!r} cannot be read: {error.strerror or error}")
