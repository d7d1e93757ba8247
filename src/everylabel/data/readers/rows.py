"""Rows of CSV, TSV, JSON, JSONL, Excel and Parquet files; but for JSON and Excel one at a time, never all."""

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, EverylabelWarning, listed, nearest
from everylabel.data.cells import text_of
from everylabel.data.readers.delimited import header_of, read_delimited, read_lines
from everylabel.data.readers.parquet import parquet_columns, read_parquet
from everylabel.data.readers.spreadsheet import read_sheet

Row = dict[str, Any]


def read_rows(
    path: Path, columns: list[str], encoding: str | None = None, long_rows: str | None = None
) -> Iterator[Row]:
    """Yield the named columns of each row; complain of a missing column before the first.

    long_rows : what to do with rows of a CSV file that have more cells than its header; None refuses them
    """
    delimited = partial(_csv, long_rows=long_rows)
    readers: dict[str, Callable[[Path, list[str], str | None], Iterator[Row]]] = {
        ".csv": delimited,
        ".tsv": delimited,
        ".jsonl": _jsonl,
        ".ndjson": _jsonl,
        ".json": _json,
        ".xlsx": _xlsx,
        ".parquet": _parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise EverylabelError(f"path {str(path)!r} has an unknown ending; expected {', '.join(readers)}")
    try:
        if path.stat().st_size == 0:
            raise _empty(path)
        yield from reader(path, columns, encoding)
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error


def column_names(path: Path, encoding: str | None = None) -> list[str]:
    """Return the names of a file's columns: of a JSONL file, those of its first row."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            names = parquet_columns(path)
        elif suffix == ".xlsx":
            names = read_sheet(path)[0]
        elif suffix == ".json":
            names = list(dict.fromkeys(name for row in _objects(path, encoding) for name in row))
        elif suffix in (".jsonl", ".ndjson"):
            first = next((line for line in read_lines(path, encoding) if line.strip()), "")
            names = list(_object(path, 1, first)) if first else []
        else:
            names = header_of(path, encoding)
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    names = [name for name in names if name]
    if not names:
        raise _empty(path)
    return names


def _empty(path: Path) -> EverylabelError:
    return EverylabelError(f"path {str(path)!r} is empty; expected a file with names of columns, and rows")


class Column:
    """One text column of a file: can be counted and iterated again and again, is never all in memory."""

    def __init__(
        self, path: Path, name: str, encoding: str | None = None, long_rows: str | None = None
    ) -> None:
        self.path, self.name, self.encoding, self.long_rows = path, name, encoding, long_rows
        self._length: int | None = None

    def __iter__(self) -> Iterator[str]:
        for row in read_rows(self.path, [self.name], self.encoding, self.long_rows):
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
        names = listed([repr(name) for name in there], 20) or "none: it has no columns"
        near = nearest(missing[0], there)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise EverylabelError(f"column {missing[0]!r} is not in {str(path)!r}; expected one of {names}{hint}")


def _csv(path: Path, columns: list[str], encoding: str | None, long_rows: str | None) -> Iterator[Row]:
    rows = read_delimited(path, encoding, long_rows)
    header = next(rows)
    check_columns(path, header, columns)
    at = {name: header.index(name) for name in columns}
    for row in rows:
        yield {name: row[i] if i < len(row) else None for name, i in at.items()}


def parsed_json(text: str) -> Any:
    """Return what JSON holds, each half of a character (a lone surrogate) as a question mark."""
    stored = json.loads(text)
    if "\\ud" not in text and "\\uD" not in text:
        return stored
    return json.loads(json.dumps(stored, ensure_ascii=False).encode("utf-8", "replace"))


def _object(path: Path, number: int, line: str) -> Row:
    """Return a line's object."""
    try:
        row = parsed_json(line)
    except (ValueError, RecursionError) as error:
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


def _objects(path: Path, encoding: str | None) -> list[Row]:
    """Return the objects of a JSON file: a list of them, alone or as the one list of an object."""
    try:
        stored = parsed_json("".join(read_lines(path, encoding)))
    except (ValueError, RecursionError) as error:
        raise EverylabelError(f"path {str(path)!r} is no JSON ({error}); expected [{{...}}, ...]") from error
    if isinstance(stored, dict):
        lists = [value for value in stored.values() if isinstance(value, list)]
        stored = lists[0] if len(lists) == 1 else stored
    if not isinstance(stored, list) or not all(isinstance(row, dict) for row in stored):
        raise EverylabelError(
            f"path {str(path)!r} is no list of objects; expected [{{...}}, ...], or .jsonl with one a line"
        )
    return stored


def _json(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    check_columns(path, column_names(path, encoding), columns)
    yield from ({name: row.get(name) for name in columns} for row in _objects(path, encoding))


def _xlsx(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    header, rows = read_sheet(path)
    check_columns(path, header, columns)
    at = {name: header.index(name) for name in columns}
    yield from ({name: row[i] for name, i in at.items()} for row in rows)


def _parquet(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    check_columns(path, parquet_columns(path), columns)
    yield from read_parquet(path, columns)
