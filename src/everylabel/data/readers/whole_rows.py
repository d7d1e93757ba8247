"""The part of a file that is written: all rows up to the one that somebody is still writing."""

import codecs
import csv
import io
import json
import time
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.data.readers.delimited import FIELD_LIMIT, delimiter_of

DELIMITED, LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
QUIET = 60.0  # seconds without a change after which a last line without an end counts, if it looks whole
_END = "\x1aend of what is there\x1a"  # a line that no file has


def whole_rows(path: Path, encoding: str | None) -> tuple[bytes, bool]:
    """Return the rows of a file that are written to their end, and whether there is more.

    A row ends with its line, but for a line end within quotes. Files of other kinds are returned as they are:
    one that is half-written cannot be read.
    """
    try:
        changed, data = path.stat().st_mtime, path.read_bytes()
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    suffix = path.suffix.lower()
    if suffix not in (*DELIMITED, *LINES):
        return data, False
    name = encoding or "utf-8"
    text = _decoded(data, name, encoding is None)
    lines = io.StringIO(text, newline="").readlines()
    n = _ended(lines) if suffix in DELIMITED else len(lines) - (not _ends(lines))
    rest = "".join(lines[n:])
    if not rest:
        return data, False
    if time.time() - changed > QUIET and (_is_row(lines, rest) if suffix in DELIMITED else _is_object(rest)):
        return data, False
    return "".join(lines[:n]).encode(name, "surrogateescape" if encoding is None else "strict"), True


def _decoded(data: bytes, encoding: str, any_bytes: bool) -> str:
    """Return text; half a character at the end is left out."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if any_bytes else "strict")
        return decoder.decode(data)
    except (UnicodeError, LookupError) as error:
        raise EverylabelError(f"the file cannot be read as {encoding!r} ({error})") from error


def _ends(lines: list[str]) -> bool:
    return not lines or lines[-1].endswith(("\n", "\r"))


def _ended(lines: list[str]) -> int:
    """Return how many lines are taken up by rows that have ended."""
    csv.field_size_limit(FIELD_LIMIT)
    delimiter = delimiter_of(next((line for line in lines if line.strip()), ""))
    reader = csv.reader([*lines, _END], delimiter=delimiter)
    before, last = 0, 0  # lines up to the end of the last row but one, and of the last
    for row in reader:
        if reader.line_num <= len(lines):
            before, last = last, reader.line_num
        elif row != [_END]:  # it stands within the quotes of the last row
            return last
    return len(lines) if _ends(lines) else before


def _is_row(lines: list[str], rest: str) -> bool:
    """Return whether a last line has as many cells as the header."""
    first = next(line for line in lines if line.strip())
    header, row = (list(csv.reader([line], delimiter=delimiter_of(first))) for line in (first, rest))
    return len(row) == 1 and len(row[0]) == len(header[0]) and rest.count('"') % 2 == 0


def _is_object(rest: str) -> bool:
    try:
        return isinstance(json.loads(rest), dict)
    except (ValueError, RecursionError):
        return False
