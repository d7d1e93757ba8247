"""Rows of CSV, TSV, JSONL and Parquet files, one at a time, so that the size of a file is no matter."""

import codecs
import csv
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, EverylabelWarning, listed, need
from everylabel.data.cells import text_of

Row = dict[str, Any]
FIELD_LIMIT = 2**31 - 1


def read_rows(path: Path, columns: list[str], encoding: str | None = None) -> Iterator[Row]:
    """Yield the named columns of each row; complain of a missing column before the first."""
    readers: dict[str, Callable[[Path, list[str], str | None], Iterator[Row]]] = {
        ".csv": _csv,
        ".tsv": _csv,
        ".jsonl": _jsonl,
        ".ndjson": _jsonl,
        ".parquet": _parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise EverylabelError(f"path {str(path)!r} has an unknown ending; expected {', '.join(readers)}")
    try:
        if path.stat().st_size == 0:
            raise EverylabelError(f"path {str(path)!r} is empty; expected a file with rows")
        yield from reader(path, columns, encoding)
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error


def column_names(path: Path, encoding: str | None = None) -> list[str]:
    """Return the names of a file's columns: of a JSONL file, those of its first row."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            with _parquet_file(path) as file:
                return list(file.schema_arrow.names)
        first = next((line for line in read_lines(path, encoding) if line.strip()), "")
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    if suffix in (".jsonl", ".ndjson"):
        return list(_object(path, 1, first)) if first else []
    return [name for name in _header(first, delimiter_of(first)) if name]


class Column:
    """One text column of a file: can be counted and iterated again and again, is never all in memory."""

    def __init__(self, path: Path, name: str, encoding: str | None = None) -> None:
        self.path, self.name, self.encoding = path, name, encoding
        self._length: int | None = None

    def __iter__(self) -> Iterator[str]:
        for row in read_rows(self.path, [self.name], self.encoding):
            yield text_of(row[self.name])

    def __len__(self) -> int:
        if self._length is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EverylabelWarning)  # told when the rows are used
                self._length = sum(1 for _ in self)
        return self._length


def check_columns(path: Any, there: list[str], wanted: list[str]) -> None:
    """Say which column is missing and which there are."""
    missing = [name for name in wanted if name not in there]
    if missing:
        names = listed([repr(name) for name in there], 20)
        raise EverylabelError(f"column {missing[0]!r} is not in {str(path)!r}; expected one of {names}")


def read_lines(path: Path, encoding: str | None) -> Iterator[str]:
    """Yield decoded lines; bytes that are not UTF-8 are replaced and counted."""
    if encoding is not None:
        try:
            with path.open(encoding=encoding, newline="") as file:
                yield from file
        except (UnicodeError, LookupError) as error:
            raise EverylabelError(
                f"path {str(path)!r} cannot be read as {encoding!r} ({error}); pass its true encoding"
            ) from error
        return
    bad: list[str] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise EverylabelError(
                        f"path {str(path)!r} is UTF-16; pass encoding='utf-16' (--encoding utf-16)"
                    )
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                bad.append(f"line {number}")
                yield line.decode("utf-8", "replace")
    if bad:
        warnings.warn(
            f"{len(bad)} line(s) of {path.name} are not UTF-8, their bad bytes were replaced: {listed(bad)}; "
            "if there are many, pass encoding='latin-1' (--encoding latin-1) or the like",
            EverylabelWarning,
            stacklevel=2,
        )


def delimiter_of(header: str) -> str:
    """Return what parts the columns: whichever of comma, semicolon and tab the first line has most."""
    return max(",;\t", key=header.count)


def _csv(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    csv.field_size_limit(FIELD_LIMIT)
    lines = read_lines(path, encoding)
    first = next(lines, "")
    delimiter = delimiter_of(first)
    try:
        header = _header(first, delimiter)
        check_columns(path, header, columns)
        at = {name: header.index(name) for name in columns}
        for row in csv.reader(lines, delimiter=delimiter):
            if row:
                yield {name: row[i] if i < len(row) else None for name, i in at.items()}
    except csv.Error as error:
        raise EverylabelError(
            f"path {str(path)!r} is no clean CSV file: {error}; expected lines that end in \\n"
        ) from error


def _header(line: str, delimiter: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]


def _object(path: Path, number: int, line: str) -> Row:
    """Return a line's object."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise EverylabelError(
            f"line {number} of {str(path)!r} is no JSON ({error}); expected one object a line"
        ) from error
    if not isinstance(row, dict):
        raise EverylabelError(f"line {number} of {str(path)!r} is no object; expected {{...}} on each line")
    return row


def _jsonl(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    there = False
    for number, line in enumerate(read_lines(path, encoding), 1):
        if not line.strip():
            continue
        row = _object(path, number, line)
        if not there:
            check_columns(path, list(row), columns)
            there = True
        yield {name: row.get(name) for name in columns}


def _parquet(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    with _parquet_file(path) as file:
        check_columns(path, file.schema_arrow.names, columns)
        for batch in file.iter_batches(batch_size=4096, columns=columns):
            yield from batch.to_pylist()


def _parquet_file(path: Path) -> Any:
    parquet = need("pyarrow.parquet", "table", "reading Parquet")
    try:
        return parquet.ParquetFile(path)
    except ValueError as error:
        raise EverylabelError(f"path {str(path)!r} is no Parquet file ({error})") from error
