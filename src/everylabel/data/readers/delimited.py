"""CSV and TSV: lines in any encoding, and rows that must not have more cells than the header.

A comma outside quotes makes a row too long; the cells beyond the header would be lost.
"""

import codecs
import csv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, EverylabelWarning, listed

FIELD_LIMIT = 2**31 - 1
JOIN, CUT = "join", "cut"  # treatment of rows that are too long
SHOWN = 80  # characters of such a row


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
