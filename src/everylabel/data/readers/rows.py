"""Rows of CSV, TSV, JSON, JSONL, Excel and Parquet files; JSON and Excel are read as a whole, others row by
row. python-calamine reads the first sheet of Excel's .xlsx files. CSV and TSV may be in any encoding; their
rows must not have more cells than the header: a comma outside quotes makes a row too long, and the cells
beyond the header would be lost.
"""

import codecs
import csv
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, EverylabelWarning, and_more, listed, nearest, need
from everylabel.data.cells import text_of, valid

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".parquet")
FIELD_LIMIT = 2**31 - 1
JOIN, CUT = "join", "cut"  # treatment of rows that are too long
SHOWN = 80  # characters of such a row
Row = dict[str, Any]
Rows = Callable[[Sequence[str]], Iterable[Row]]  # yields the named columns of each row
AT_A_TIME = 4096  # rows
LEVELS = 5  # depth of nested objects that become columns
# raised by pyarrow for a damaged file; its errors are subclasses of these
DAMAGED = (ValueError, OSError, RuntimeError, NotImplementedError, MemoryError)
ERRORS = {"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#GETTING_DATA"}


def read_rows(
    path: Path, columns: Sequence[str] | None, encoding: str | None = None, long_rows: str | None = None
) -> Iterator[Row]:
    """Yield the named columns of each row; raise for a missing column before the first row.

    columns : None for all
    long_rows : treatment of CSV rows with more cells than the header; None refuses them
    """
    with _naming(path):
        names, rows = _table(path, encoding, long_rows)
        check_columns(path, names, columns or ())
        yield from rows(list(dict.fromkeys(names)) if columns is None else columns)


def column_names(path: Path, encoding: str | None = None) -> list[str]:
    """Return the names of a file's columns: of a JSONL file, those of its first row."""
    with _naming(path):
        return _table(path, encoding, None)[0]


def _table(path: Path, encoding: str | None, long_rows: str | None) -> tuple[list[str], Rows]:
    """Return the names of a file's columns, and its rows."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        names, rows = _delimited(path, encoding, long_rows)
    elif suffix in (".json", ".jsonl", ".ndjson"):
        names, rows = _json(path, encoding, lines=suffix != ".json")
    elif suffix == ".xlsx":
        names, rows = _xlsx(path)
    elif suffix == ".parquet":
        names, rows = _parquet(path)
    else:
        raise EverylabelError(f"path {str(path)!r} has an unknown ending; expected {', '.join(SUFFIXES)}")
    names = [name for name in names if name]
    if not names:
        raise EverylabelError(f"path {str(path)!r} is empty; expected a file with names of columns, and rows")
    return names, rows


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise EverylabelError(
            f"path {str(path)!r} is not a valid CSV file: {error}; expected lines that end in \\n"
        ) from error


class Column:
    """One text column of a file, which is never in memory as a whole; can be iterated repeatedly."""

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
                warnings.simplefilter("ignore", EverylabelWarning)  # reported when the rows are used
                self._length = sum(1 for _ in self)
        return self._length


def check_columns(path: Any, there: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise for a missing column, and list the existing ones."""
    missing = [name for name in wanted if name not in there]
    if missing:
        names = listed([repr(name) for name in there], 20) or "none: it has no columns"
        near = nearest(missing[0], there)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise EverylabelError(f"column {missing[0]!r} is not in {str(path)!r}; expected one of {names}{hint}")


def json_object(path: Path, number: int, line: str) -> Row:
    """Return a line's object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EverylabelError(
            f"line {number} of {str(path)!r} is not JSON ({error}); expected one object a line"
        ) from error
    if not isinstance(row, dict):
        raise EverylabelError(
            f"line {number} of {str(path)!r} is not an object; expected {{...}} on each line"
        )
    return row


def flat(row: Row, before: str = "", levels: int = LEVELS) -> Row:
    """Return an object's values; values of nested objects get names with dots: message.body."""
    found: Row = {}
    for name, value in row.items():
        if levels and isinstance(value, dict):
            for inner, some in flat(value, f"{before}{name}.", levels - 1).items():
                found.setdefault(inner, some)
        else:
            found[valid(f"{before}{name}")] = value
    return found


def _json(path: Path, encoding: str | None, *, lines: bool) -> tuple[list[str], Rows]:
    if lines:
        numbered = enumerate(read_lines(path, encoding), 1)
        objects: Iterable[Row] = (flat(json_object(path, i, line)) for i, line in numbered if line.strip())
        first = next(iter(objects), {})
        names, objects = list(first), chain([first], objects)
    else:
        objects = _objects(path, encoding)
        names = list(dict.fromkeys(name for row in objects for name in row))
    return names, lambda columns: ({name: row.get(name) for name in columns} for row in objects)


def _objects(path: Path, encoding: str | None) -> list[Row]:
    """Return the objects of a JSON file: a list of objects, or an object with one such list."""
    try:
        stored = json.loads("".join(read_lines(path, encoding)))
    except (ValueError, RecursionError) as error:
        raise EverylabelError(f"path {str(path)!r} is not JSON ({error}); expected [{{...}}, ...]") from error
    if isinstance(stored, dict):
        lists = [value for value in stored.values() if isinstance(value, list)]
        stored = lists[0] if len(lists) == 1 else stored
    if not isinstance(stored, list) or not all(isinstance(row, dict) for row in stored):
        raise EverylabelError(
            f"path {str(path)!r} is not a list of objects; expected [{{...}}, ...], or .jsonl with one a line"
        )
    return [flat(row) for row in stored]


def _parquet(path: Path) -> tuple[list[str], Rows]:
    def rows(columns: Sequence[str]) -> Iterator[Row]:
        """Yield rows, never all in memory."""
        with _opened(path) as file:
            try:
                for batch in file.iter_batches(batch_size=AT_A_TIME, columns=list(columns)):
                    values, names = [column.to_pylist() for column in batch.columns], batch.schema.names
                    yield from (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
            except DAMAGED as error:
                raise EverylabelError(
                    f"path {str(path)!r} is damaged ({error}); expected a Parquet file"
                ) from error

    with _opened(path) as file:
        return list(file.schema_arrow.names), rows


def _opened(path: Path) -> Any:
    try:
        return need("pyarrow.parquet", "table", "reading Parquet").ParquetFile(path)
    except DAMAGED as error:
        raise EverylabelError(f"path {str(path)!r} is not a Parquet file ({error})") from error


def _xlsx(path: Path) -> tuple[list[str], Rows]:
    """Return the header and the rows of the first sheet without empty rows."""
    from python_calamine import CalamineWorkbook  # slow to import, and only for spreadsheets

    try:
        with CalamineWorkbook.from_path(path) as book:
            sheets = book.sheet_names
            found = ([_value(cell) for cell in row] for row in book.get_sheet_by_index(0).iter_rows())
            cells = [row for row in found if any(cell is not None for cell in row)]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of calamine's on a damaged file is no Exception
        raise EverylabelError(
            f"path {str(path)!r} is not an .xlsx file, or has a password ({error}); save it as .xlsx or .csv"
        ) from error
    header = ["" if cell is None else str(cell).strip() for cell in cells[0]] if cells else []
    while header and not header[-1]:
        header.pop()

    def rows(columns: Sequence[str]) -> Iterator[Row]:
        if len(sheets) > 1:
            warnings.warn(
                f"{path.name} has {len(sheets)} sheets; the first is read, {sheets[0]!r}, not "
                f"{listed(sheets[1:])}",
                EverylabelWarning,
                stacklevel=3,
            )
        extra = [
            f"row {i}"
            for i, row in enumerate(cells, 1)
            if any(cell is not None for cell in row[len(header) :])
        ]
        if extra:
            raise EverylabelError(
                f"{len(extra):,} row(s) of {path.name} have more cells than the header's {len(header)}: "
                f"{listed(extra)}; name these columns in the first row, or empty their cells"
            )
        at = {name: header.index(name) for name in columns}
        yield from ({name: row[i] for name, i in at.items()} for row in cells[1:])

    return header, rows


def _value(cell: Any) -> Any:
    """Return a cell as text: whole numbers without a point, dates as text, errors as an empty text."""
    if cell == "" or (isinstance(cell, str) and cell in ERRORS):
        return None
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="seconds")
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else cell
    return cell if isinstance(cell, str | bool | int) else str(cell)


def read_lines(path: Path, encoding: str | None) -> Iterator[str]:
    """Yield decoded lines; a note counts lines that are not UTF-8, read as Windows-1252 or Latin-1."""
    if encoding is not None:
        try:
            with path.open(encoding=encoding, newline="") as file:
                yield from file
        except (UnicodeError, LookupError) as error:
            raise EverylabelError(
                f"path {str(path)!r} cannot be read as {encoding!r} ({error}); pass its true encoding"
            ) from error
        return
    legacy: list[int] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise EverylabelError(
                        f"path {str(path)!r} is UTF-16; pass encoding='utf-16' (--encoding utf-16)"
                    )
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                legacy.append(number)
                text = _windows(line)
            yield text
    if legacy:
        warnings.warn(
            f"{path.name} is not UTF-8; {len(legacy):,} line(s) were read as Windows-1252, the first is line "
            f"{legacy[0]}; if letters look wrong, pass the file's encoding (--encoding)",
            EverylabelWarning,
            stacklevel=2,
        )


def _windows(line: bytes) -> str:
    """Decode a line as Windows-1252, or as Latin-1 if it has a byte that Windows-1252 lacks."""
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def delimiter_of(header: str) -> str:
    """Return the delimiter: the most frequent of comma, semicolon and tab in the first line."""
    return max(",;\t", key=header.count)


def _delimited(path: Path, encoding: str | None, long_rows: str | None) -> tuple[list[str], Rows]:
    """Return the header and the rows; rows that are too long are listed at the end.

    long_rows : "join" joins extra cells to the last one, "cut" drops them
    """
    csv.field_size_limit(FIELD_LIMIT)
    if long_rows is not None:
        check_choice(long_rows, "--long-rows", [JOIN, CUT])
    lines = read_lines(path, encoding)
    before, first = next(((i, line) for i, line in enumerate(lines) if line.strip()), (0, ""))
    delimiter = delimiter_of(first)
    reader = csv.reader(chain([first], lines), delimiter=delimiter)
    header = [name.strip() for name in next(reader, [])]
    n = len(header)

    def rows(columns: Sequence[str]) -> Iterator[Row]:
        at = {name: header.index(name) for name in columns}
        too_long: list[str] = []
        for row in reader:
            if any(map(str.strip, row[n:])):
                too_long.append(f"line {before + reader.line_num} ({delimiter.join(row)[:SHOWN]!r})")
                if long_rows == JOIN:
                    row[n - 1 :] = [delimiter.join(row[n - 1 :])]
            if row:
                yield {name: row[i] if i < len(row) else None for name, i in at.items()}
        if too_long:
            _report_long(path.name, too_long, n, delimiter, long_rows)

    return header, rows


def _report_long(name: str, rows: list[str], n: int, delimiter: str, long_rows: str | None) -> None:
    """Warn about rows with more cells than the header; raise unless `long_rows` says what to do."""
    what = f"{len(rows):,} row(s) of {name} have more cells than the header's {n}"
    shown = and_more(rows[:5], len(rows))
    if long_rows is None:
        raise EverylabelError(
            f"{what}: {shown}; put a cell that holds {delimiter!r} in double quotes, or pass "
            f"--long-rows {JOIN} (extra cells belong to the last one) or {CUT} (they are dropped)"
        )
    done = "joined to the last" if long_rows == JOIN else "left out"
    warnings.warn(f"{what}, which were {done}: {shown}", EverylabelWarning, stacklevel=2)
