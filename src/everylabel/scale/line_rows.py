"""Rows of a CSV, TSV or JSONL file from any byte on at which a row begins.

One pass finds where the parts begin: a line end within quotes ends no row. Lines are parted as bytes, so any
encoding will do in which a line end is that one byte; UTF-16 is not one.
"""

import codecs
import csv
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data.options import Options
from everylabel.data.readers.delimited import CUT, FIELD_LIMIT, JOIN, delimiter_of, tell_long
from everylabel.data.readers.rows import check_columns, parsed_json
from everylabel.scale import places

OBJECTS = (".jsonl", ".ndjson")
SHOWN = 80  # characters of a row that is wrong


class Lines:
    """The lines of an open file as text; `at` is where the next one begins."""

    def __init__(self, file: IO[bytes], at: int, encoding: str | None) -> None:
        self.file, self.at, self.encoding, self.bad = file, at, encoding, 0
        file.seek(at)

    def __iter__(self) -> Iterator[str]:
        for line in self.file:
            first, self.at = self.at == 0, self.at + len(line)
            yield self._text(line.removeprefix(codecs.BOM_UTF8) if first else line)

    def _text(self, line: bytes) -> str:
        try:
            return line.decode(self.encoding or "utf-8")
        except (UnicodeDecodeError, LookupError) as error:
            if self.encoding is not None:
                raise EverylabelError(
                    f"the source cannot be read as {self.encoding!r} ({error}); pass its true --encoding"
                ) from error
            self.bad += 1
            return line.decode("utf-8", "replace")


class LineFile:
    """A file of rows in lines: the names of its columns, and the byte where its rows begin."""

    def __init__(self, file: str, options: Options) -> None:
        self.file, self.options, self.name = file, options, places.base_name(file)
        if options.long_rows is not None:
            check_choice(options.long_rows, "--long-rows", [JOIN, CUT])
        with places.opened(file) as stream:
            lines = self._lines(stream, 0)
            first = next((line for line in lines if line.strip()), "")
        self.has_objects = self.name.lower().endswith(OBJECTS)
        self.begin = 0 if self.has_objects else lines.at
        self.delimiter = delimiter_of(first)
        self.columns = list(self._object(first)) if self.has_objects and first else self._header(first)
        if not any(self.columns):
            raise EverylabelError(f"source {file!r} is empty; expected names of columns, and rows")

    def starts(self, size: int) -> tuple[list[int], int]:
        """Return the byte at which each part of `size` rows begins, and the number of rows in all."""
        found, n, long = list[int](), 0, list[str]()
        with places.opened(self.file) as stream:
            lines = self._lines(stream, self.begin)
            at = lines.at
            for _ in self._rows(lines, long):
                if n % size == 0:
                    found.append(at)
                n, at = n + 1, lines.at
        if long:
            tell_long(self.name, long, len(self.columns), self.delimiter, self.options.long_rows)
        if lines.bad:
            warnings.warn(
                f"{lines.bad} line(s) of {self.name} are not UTF-8, their bad bytes were replaced; if there "
                "are many, pass --encoding latin-1 or the like",
                EverylabelWarning,
                stacklevel=2,
            )
        return found, n

    def marks(self, start: int, rows: int, every: int) -> list[int]:
        """Return the byte at which each `every`-th of so many rows begins, from the byte of the first on."""
        found, n = list[int](), 0
        with places.opened(self.file) as stream:
            lines = self._lines(stream, start)
            at = lines.at
            for _ in self._rows(lines, []):
                if n % every == 0:
                    found.append(at)
                n, at = n + 1, lines.at
                if n == rows:
                    break
        return found

    def cells(self, column: str, start: int, rows: int) -> Iterator[Any]:
        """Yield a column's values of so many rows, from the byte on at which the first begins."""
        check_columns(self.file, self.columns, [column])
        return (value for (value,) in self.table([column], start, rows))

    def table(self, names: Sequence[str], start: int, rows: int) -> Iterator[tuple[Any, ...]]:
        """Yield the values that some columns have in so many rows, from the byte of the first on."""
        at, taken = [self.columns.index(name) for name in names], 0
        with places.opened(self.file) as stream:
            for row in self._rows(self._lines(stream, start), []):
                if self.has_objects:
                    yield tuple(map(self._object(row[0]).get, names))
                else:
                    yield tuple(row[place] if place < len(row) else None for place in at)
                taken += 1
                if taken == rows:
                    return

    def _lines(self, stream: IO[bytes], at: int) -> Lines:
        if at == 0:
            start = stream.read(2)
            wide = (self.options.encoding or "").lower().replace("_", "-").startswith(("utf-16", "utf-32"))
            if wide or start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise EverylabelError(
                    f"source {self.file!r} is UTF-16, which cannot be cut into parts; expected UTF-8, or "
                    "Parquet: convert it first"
                )
        return Lines(stream, at, self.options.encoding)

    def _rows(self, lines: Lines, long: list[str]) -> Iterator[list[str]]:
        """Yield the cells of each row, or the line of an object; those that are too long are noted."""
        if self.has_objects:
            yield from ([line] for line in lines if line.strip())
            return
        csv.field_size_limit(FIELD_LIMIT)
        n = len(self.columns)
        try:
            for row in csv.reader(lines, delimiter=self.delimiter):
                if any(map(str.strip, row[n:])):
                    long.append(repr(self.delimiter.join(row)[:SHOWN]))
                    if self.options.long_rows == JOIN:
                        row[n - 1 :] = [self.delimiter.join(row[n - 1 :])]
                if row:
                    yield row
        except csv.Error as error:
            raise EverylabelError(
                f"path {self.file!r} is no clean CSV file: {error}; expected lines that end in \\n"
            ) from error

    def _header(self, line: str) -> list[str]:
        return [name.strip() for name in next(csv.reader([line], delimiter=self.delimiter), [])]

    def _object(self, line: str) -> dict[str, Any]:
        try:
            row = parsed_json(line)
        except (ValueError, RecursionError) as error:
            raise EverylabelError(
                f"a line of {self.file!r} is no JSON ({error}): {line[:SHOWN]!r}; expected one object a line"
            ) from error
        if not isinstance(row, dict):
            raise EverylabelError(f"a line of {self.file!r} is no object: {line[:SHOWN]!r}; expected {{...}}")
        return row
