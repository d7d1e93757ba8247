"""Rows of CSV, TSV, JSON, JSONL, Excel and Parquet files; JSON and Excel are read as a whole, others row by
row. python-calamine reads the first sheet of Excel's .xlsx files. CSV and TSV may be in any encoding; their
rows must not have more cells than the header: a comma outside quotes makes a row too long, and the cells
beyond the header would be lost.
"""

import codecs
import csv
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from everylabel.core import files
from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, EverylabelWarning, listed, nearest, need
from everylabel.data.cells import text_of

FIELD_LIMIT = 2**31 - 1
JOIN, CUT = "join", "cut"  # treatment of rows that are too long
SHOWN = 80  # characters of such a row
Row = dict[str, Any]
AT_A_TIME = 4096  # rows
LEVELS = 5  # depth of nested objects that become columns
# raised by pyarrow for a damaged file; its errors are subclasses of these
DAMAGED = (ValueError, OSError, RuntimeError, NotImplementedError, MemoryError)
XML, CELLS = 0.04, 0.25  # shares of this machine's memory: an unpacked file, its table
CELL = 40  # bytes of an empty cell: 32 in calamine, 8 in a list
WIDEST, HIGHEST = 16_384, 1_048_576  # XFD1048576 is the last cell of a sheet
PLACE = re.compile(rb"""<(?:\w+:)?(?:row|c)\b[^<>]*?\sr\s*=\s*["']([A-Za-z]*)(\d*)""")  # of a row or a cell
ERRORS = {"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#GETTING_DATA"}
Sheet = tuple[list[str], list[list[Any]]]


def read_rows(
    path: Path, columns: list[str], encoding: str | None = None, long_rows: str | None = None
) -> Iterator[Row]:
    """Yield the named columns of each row; raise for a missing column before the first row.

    long_rows : treatment of CSV rows with more cells than the header; None refuses them
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
        check_columns(path, column_names(path, encoding), columns)
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


def check_columns(path: Any, there: list[str], wanted: list[str]) -> None:
    """Raise for a missing column, and list the existing ones."""
    missing = [name for name in wanted if name not in there]
    if missing:
        names = listed([repr(name) for name in there], 20) or "none: it has no columns"
        near = nearest(missing[0], there)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise EverylabelError(f"column {missing[0]!r} is not in {str(path)!r}; expected one of {names}{hint}")


def _csv(path: Path, columns: list[str], encoding: str | None, long_rows: str | None) -> Iterator[Row]:
    rows = read_delimited(path, encoding, long_rows)
    header = next(rows)
    at = {name: header.index(name) for name in columns}
    for row in rows:
        yield {name: row[i] if i < len(row) else None for name, i in at.items()}


def parsed_json(text: str) -> Any:
    """Return parsed JSON; lone surrogates become question marks."""
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
    return _flat(row)


def _flat(row: Row, before: str = "", levels: int = LEVELS) -> Row:
    """Return an object's values; values of nested objects get names with dots: message.body."""
    flat: Row = {}
    for name, value in row.items():
        if levels and isinstance(value, dict):
            for inner, some in _flat(value, f"{before}{name}.", levels - 1).items():
                flat.setdefault(inner, some)
        else:
            flat[f"{before}{name}"] = value
    return flat


def _jsonl(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path, encoding), 1):
        if line.strip():
            row = _object(path, number, line)
            yield {name: row.get(name) for name in columns}


def _objects(path: Path, encoding: str | None) -> list[Row]:
    """Return the objects of a JSON file: a list of objects, or an object with one such list."""
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
    return [_flat(row) for row in stored]


def _json(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    yield from ({name: row.get(name) for name in columns} for row in _objects(path, encoding))


def _xlsx(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    header, rows = read_sheet(path)
    at = {name: header.index(name) for name in columns}
    yield from ({name: row[i] for name, i in at.items()} for row in rows)


def _parquet(path: Path, columns: list[str], encoding: str | None) -> Iterator[Row]:
    yield from read_parquet(path, columns)


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def read_parquet(path: Path, columns: list[str]) -> Iterator[Row]:
    """Yield the named columns of each row, never all in memory."""
    with _opened(path) as file:
        batches = file.iter_batches(batch_size=AT_A_TIME, columns=columns)
        while True:
            try:
                batch = next(batches, None)
            except DAMAGED as error:
                raise EverylabelError(
                    f"path {str(path)!r} is damaged ({error}); expected a Parquet file"
                ) from error
            if batch is None:
                return
            values, names = [column.to_pylist() for column in batch.columns], batch.schema.names
            yield from (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _opened(path: Path) -> Any:
    try:
        return need("pyarrow.parquet", "table", "reading Parquet").ParquetFile(path)
    except DAMAGED as error:
        raise EverylabelError(f"path {str(path)!r} is no Parquet file ({error})") from error


def read_sheet(path: Path) -> Sheet:
    """Return the header and the rows of the first sheet without empty rows; warn of other sheets."""
    about = path.stat()
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)  # callers ask for its header, for some rows, and for all
def _read(path: Path, changed: int, size: int) -> Sheet:
    from python_calamine import CalamineWorkbook  # slow to import, and only for spreadsheets

    try:
        _check_size(path)
        with CalamineWorkbook.from_path(path) as book:
            names = book.sheet_names
            found = ([_value(cell) for cell in row] for row in book.get_sheet_by_index(0).iter_rows())
            rows = [row for row in found if any(cell is not None for cell in row)]
    except (EverylabelError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of calamine's on a damaged file is no Exception
        raise EverylabelError(
            f"path {str(path)!r} is no .xlsx file, or has a password ({error}); save it as .xlsx or .csv"
        ) from error
    if len(names) > 1:
        warnings.warn(
            f"{path.name} has {len(names)} sheets; the first is read, {names[0]!r}, not {listed(names[1:])}",
            EverylabelWarning,
            stacklevel=3,
        )
    return _table(path, rows)


def _check_size(path: Path) -> None:
    """Raise for a file that would not fit into memory: calamine holds every cell up to the last one."""
    columns = rows = 1
    with zipfile.ZipFile(path) as archive:
        size = files.unpacked_size(archive)
        _check_room(path, size, XML)
        for entry in archive.infolist():
            for letters, number in PLACE.findall(archive.read(entry)):
                columns, rows = max(columns, _column(letters)), max(rows, int(number[:8] or 0))
    if columns > WIDEST or rows > HIGHEST:
        raise ValueError("it has cells beyond the last one of a sheet, XFD1048576")
    _check_room(path, CELL * columns * rows, CELLS)


def _check_room(path: Path, size: int, share: float) -> None:
    if size > share * files.total_memory():
        raise EverylabelError(
            f"path {str(path)!r} unpacks to {size / 1e9:,.1f} GB or more, too much for this machine's memory "
            f"of {files.total_memory() / 1e9:,.1f} GB; save it as .csv, which is read row by row"
        )


def _column(letters: bytes) -> int:
    """Return the number, from 1, of a column such as AB."""
    number = 0
    for letter in letters.upper()[:5]:
        number = 26 * number + letter - ord("A") + 1
    return number


def _table(path: Path, rows: list[list[Any]]) -> Sheet:
    """Return the header and rows of its length; raise for rows with more cells."""
    if not rows:
        return [], []
    header = ["" if cell is None else str(cell).strip() for cell in rows[0]]
    while not header[-1]:
        header.pop()
    width = len(header)
    too_long = [
        f"row {i}" for i, row in enumerate(rows[1:], 2) if any(cell is not None for cell in row[width:])
    ]
    if too_long:
        raise EverylabelError(
            f"{len(too_long):,} row(s) of {path.name} have more cells than the header's {width}: "
            f"{listed(too_long)}; name these columns in the first row, or empty their cells"
        )
    return header, [row[:width] for row in rows[1:]]


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
    """Yield decoded lines.

    A line that is not UTF-8 is read as Windows-1252, which holds Latin-1, unless an earlier line has shown
    that the file is UTF-8: then its bad bytes are replaced. A note reports both.
    """
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
    legacy: list[str] = []
    is_utf8 = False
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise EverylabelError(
                        f"path {str(path)!r} is UTF-16; pass encoding='utf-16' (--encoding utf-16)"
                    )
                is_utf8 = line.startswith(codecs.BOM_UTF8)
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                text = line.decode("utf-8")
                is_utf8 = is_utf8 or (not legacy and not line.isascii())
            except UnicodeDecodeError:
                (bad if is_utf8 else legacy).append(f"line {number}")
                text = line.decode("utf-8", "replace") if is_utf8 else _windows(line)
            yield text
    if legacy:
        warnings.warn(
            f"{path.name} is not UTF-8; {len(legacy):,} line(s) were read as Windows-1252, the first is "
            f"{legacy[0]}; if letters look wrong, pass the file's encoding (--encoding)",
            EverylabelWarning,
            stacklevel=2,
        )
    if bad:
        warnings.warn(
            f"{len(bad)} line(s) of {path.name} are not UTF-8, their bad bytes were replaced: {listed(bad)}; "
            "if there are many, pass encoding='latin-1' (--encoding latin-1) or the like",
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


def header_of(path: Path, encoding: str | None) -> list[str]:
    """Return the names of a file's columns."""
    first = next((line for line in read_lines(path, encoding) if line.strip()), "")
    with _naming(path):
        return _cells(first, delimiter_of(first))


def read_delimited(path: Path, encoding: str | None, long_rows: str | None) -> Iterator[list[str]]:
    """Yield the header, then the cells of each row; rows that are too long are listed at the end.

    long_rows : "join" joins extra cells to the last one, "cut" drops them
    """
    csv.field_size_limit(FIELD_LIMIT)
    if long_rows is not None:
        check_choice(long_rows, "--long-rows", [JOIN, CUT])
    lines = read_lines(path, encoding)
    before, first = next(((i, line) for i, line in enumerate(lines, 1) if line.strip()), (0, ""))
    delimiter = delimiter_of(first)
    too_long: list[str] = []
    with _naming(path):
        header = _cells(first, delimiter)
        yield header
        n, reader = len(header), csv.reader(lines, delimiter=delimiter)
        for row in reader:
            if any(map(str.strip, row[n:])):
                too_long.append(f"line {before + reader.line_num} ({delimiter.join(row)[:SHOWN]!r})")
                if long_rows == JOIN:
                    row[n - 1 :] = [delimiter.join(row[n - 1 :])]
            if row:
                yield row
    if too_long:
        report_long(path.name, too_long, n, delimiter, long_rows)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise EverylabelError(
            f"path {str(path)!r} is no clean CSV file: {error}; expected lines that end in \\n"
        ) from error


def report_long(name: str, rows: list[str], n: int, delimiter: str, long_rows: str | None) -> None:
    """Warn about rows with more cells than the header; raise unless `long_rows` says what to do."""
    what = f"{len(rows):,} row(s) of {name} have more cells than the header's {n}"
    if long_rows is None:
        raise EverylabelError(
            f"{what}: {listed(rows)}; put a cell that holds {delimiter!r} in double quotes, or pass "
            f"--long-rows {JOIN} (extra cells belong to the last one) or {CUT} (they are dropped)"
        )
    done = "joined to the last" if long_rows == JOIN else "left out"
    warnings.warn(f"{what}, which were {done}: {listed(rows)}", EverylabelWarning, stacklevel=2)


def _cells(line: str, delimiter: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
