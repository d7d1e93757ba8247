"""A large source, split into parts that a worker can read without the rows before.

Rows are read from Parquet files, by their row groups. A CSV or JSONL source is converted once, to one Parquet
file in the folder of shards.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, need
from everylabel.data.cells import cell_text, text_of
from everylabel.data.items import Options
from everylabel.data.readers.rows import DAMAGED, check_columns, column_names, read_rows
from everylabel.data.readers.table import find_column, image_paths, wanted_columns
from everylabel.scale import filesystem
from everylabel.scale.manifest import ROWS, Manifest, Part

PARQUET, LINES = ".parquet", (".csv", ".tsv", ".jsonl", ".ndjson")
AT_A_TIME = 1024  # rows in memory
GROUP = 4096  # rows of a row group that is written
BUFFER = 2**20  # bytes of a column read at once


@dataclass(frozen=True)
class Source:
    """Files of one kind, the column to embed, and the Parquet files with their rows."""

    place: str
    files: tuple[str, ...]
    column: str
    kind: str  # "text" or "image"
    options: Options
    tables: tuple[str, ...]  # the files, or a Parquet copy of a CSV or JSONL file
    rows: tuple[int, ...] = ()  # number of rows of each table

    @property
    def base(self) -> Path:
        """The folder that paths of images are relative to."""
        return Path(self.files[0]).absolute().parent

    def item(self, value: Any) -> Any:
        """Return the text or the image of a cell."""
        return text_of(value) if self.kind == "text" else image_paths([value], self.base)[0]

    def with_rows(self, manifest: Manifest) -> "Source":
        """Return this source with the number of rows of each file, from a manifest."""
        return replace(self, rows=tuple(file.rows for file in manifest.files))

    def values(self, part: Part) -> Iterator[Any]:
        """Yield the texts or images of a part, a few in memory at a time."""
        for (value,) in self.read([self.column], part.first, part.rows):
            yield self.item(value)

    def read(self, names: Sequence[str], first: int, rows: int) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some columns for rows first to first + rows - 1; None for a missing column."""
        start = 0
        for file, count in zip(self.tables, self.rows, strict=True):
            a, b = max(first, start), min(first + rows, start + count)
            if a < b:
                yield from _read(file, names, a - start, b - a)
            start += count

    def types(self) -> dict[str, type]:
        """Return the columns of all files with their type: int, float or str.

        A column of images (not of their paths) is left out.
        """
        found: dict[str, list[Any]] = {}
        for file in self.tables:
            with _parquet(file) as parquet:
                for field in parquet.schema_arrow:
                    found.setdefault(field.name, []).append(field.type)
        known = need("pyarrow.types", "table", "reading Parquet")
        packed = known.is_nested, known.is_binary, known.is_large_binary
        if self.kind == "image" and any(is_one(kind) for kind in found[self.column] for is_one in packed):
            del found[self.column]
        return {name: _common(kinds, known) for name, kinds in found.items() if name}

    def counts(self) -> list[int]:
        """Return the number of rows of each file; a CSV or JSONL file is converted first."""
        self.convert(again=True)
        found = []
        for file in self.tables:
            with _parquet(file) as parquet:
                check_columns(file, parquet.schema_arrow.names, [self.column])
                found.append(int(parquet.metadata.num_rows))
        return found

    def convert(self, again: bool = False) -> None:
        """Write the rows of a CSV or JSONL file as Parquet, with all values as text."""
        rows, file = self.tables[0], self.files[0]
        if self.tables == self.files or (not again and filesystem.is_file(rows)):
            return
        arrow = need("pyarrow", "table", f"splitting {self.place!r} into shards")
        with filesystem.local_copy(file) as path:
            names = list(dict.fromkeys(column_names(path, self.options.encoding)))
            schema = arrow.schema([(name, arrow.string()) for name in names])
            found = read_rows(path, names, self.options.encoding, self.options.long_rows)

            def fill(out: Any) -> None:
                with need("pyarrow.parquet", "table", "writing").ParquetWriter(out, schema) as writer:
                    while some := list(islice(found, GROUP)):
                        values = {name: [cell_text(row[name]) for row in some] for name in names}
                        writer.write_table(arrow.table(values, schema), row_group_size=GROUP)

            filesystem.write(rows, fill)


def open_source(place: str, options: Options, folder: str) -> Source:
    """Return a source with the named column, or the column that looks like texts or images.

    folder : of the shards; it gets the rows of a CSV or JSONL file
    """
    files = files_of(place)
    named = next(iter(wanted_columns(Options(options.text_column, options.image_column))), None)
    kind, there = "text" if options.image_column is None else "image", _names(files[0], options)
    if named is None:
        with filesystem.local_copy(files[0]) as path:
            found = find_column(path, [options.label_column], options)
        if found is None:
            raise EverylabelError(
                f"source {place!r} has columns {', '.join(map(repr, there))}, and none looks like text; pass "
                "--text-column or --image-column (a whole table goes into one .npy file: -o FILE.npy)"
            )
        kind, named = found
    check_columns(place, there, [named])
    if kind == "image" and filesystem.is_remote(place):
        raise EverylabelError(f"--image-column of {place!r}: expected a source on this machine, copy it here")
    tables = files if _ending(files[0]) == PARQUET else (filesystem.inside(folder, ROWS),)
    return Source(place, files, named, kind, options, tables)


def files_of(place: str) -> tuple[str, ...]:
    """Return the files of a source, or raise if it cannot be split into shards."""
    known = ", ".join((PARQUET, *LINES))
    if filesystem.is_folder(place):
        names = [name for name in filesystem.list_files(place) if _ending(name) == PARQUET]
        if not names:
            raise EverylabelError(
                f"folder {place!r} holds no .parquet files; expected some, or one file ({known}); images "
                "in a folder go into one .npy file (-o FILE.npy)"
            )
        return tuple(filesystem.inside(place, name) for name in names)
    if not filesystem.is_file(place):
        raise EverylabelError(
            f"source {place!r} does not exist; expected a file ({known}) or a folder of them"
        )
    if _ending(place) not in (PARQUET, *LINES):
        raise EverylabelError(
            f"source {place!r} cannot be split into shards; expected {known}, or one .npy file as -o"
        )
    return (place,)


def _names(file: str, options: Options) -> list[str]:
    """Return the columns of a file."""
    if _ending(file) == PARQUET:
        with _parquet(file) as parquet:
            return list(parquet.schema_arrow.names)
    with filesystem.local_copy(file) as path:
        return column_names(path, options.encoding)


def _common(kinds: list[Any], known: Any) -> type:
    """Return the common type of a column over several files: int, float or str."""
    kinds = [kind for kind in kinds if not known.is_null(kind)]
    if not kinds or not all(known.is_integer(kind) or known.is_floating(kind) for kind in kinds):
        return str
    return int if all(map(known.is_integer, kinds)) else float


def _read(file: str, names: Sequence[str], first: int, rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns of a file; only the row groups that hold the rows are read."""
    with _parquet(file) as parquet:
        there = [name for name in names if name in parquet.schema_arrow.names]
        groups, skip, at = [], first, 0
        for group in range(parquet.metadata.num_row_groups):
            held = parquet.metadata.row_group(group).num_rows
            if at + held <= first:
                skip -= held
            elif at < first + rows:
                groups.append(group)
            at += held
        for batch in parquet.iter_batches(batch_size=AT_A_TIME, row_groups=groups, columns=there):
            some = batch.slice(skip, rows)
            skip, rows = max(0, skip - len(batch)), rows - len(some)
            found = {name: some.column(name).to_pylist() for name in there}
            missing = [None] * len(some)
            yield from zip(*(found.get(name, missing) for name in names), strict=True)
            if not rows:
                return


@contextmanager
def _parquet(file: str) -> Iterator[Any]:
    library = need("pyarrow.parquet", "table", "reading Parquet")
    try:
        with filesystem.opened(file) as stream, library.ParquetFile(stream, buffer_size=BUFFER) as parquet:
            yield parquet
    except DAMAGED as error:
        if isinstance(error, EverylabelError):
            raise
        raise EverylabelError(f"path {file!r} is not a Parquet file, or damaged ({error})") from error


def _ending(place: str) -> str:
    return Path(filesystem.base_name(place)).suffix.lower()
