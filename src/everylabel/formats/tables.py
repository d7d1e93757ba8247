"""Tables as CSV, JSONL or Parquet, written in pieces.

A spreadsheet runs a cell that starts with = + - @ (or a tab) as a formula, some also after spaces, or with
the wide forms of these characters; texts and ids come from anywhere. In CSV such a cell gets an apostrophe in
front, unless it is a number. A cell with apostrophes before such a character gets one more, so that reading
can remove exactly one. JSONL and Parquet hold every text unchanged.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from everylabel.core.checks import check_choice
from everylabel.core.errors import need
from everylabel.formats.known import TABLES

AT_A_TIME = 1024  # rows in a piece
_BEGINS = r"(?:[\t\r]|\s*[=+\-@＝＋－＠])"
_FORMULA, _GUARDED = re.compile(f"'*{_BEGINS}"), re.compile(f"'+{_BEGINS}")


@dataclass(frozen=True)
class Records:
    """A table, row by row; `columns` and their types are known before the first row."""

    columns: dict[str, type]
    rows: Iterable[Sequence[Any]]


def write_table(records: Records, form: str) -> Iterator[bytes]:
    """Return the pieces of a file; raise at once if the format is unknown or its library missing."""
    check_choice(form, "format", list(TABLES))
    if form == "parquet":
        need("pyarrow.parquet", "export", "writing Parquet")
    return {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[form](records)


def guarded(value: Any) -> Any:
    """Return a cell for CSV that no spreadsheet runs as a formula."""
    if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value):
        return f"'{value}"
    return value


def unguarded(value: str) -> str:
    """Return the cell before `guarded`."""
    return value[1:] if _GUARDED.match(value) else value


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


class _Lines(list[str]):
    """Collects the lines that csv writes, each ended by a line feed."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def _csv(records: Records) -> Iterator[bytes]:
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")  # so that a cell with either is put in quotes
    writer.writerow([guarded(name) for name in records.columns])
    for rows in _pieces(records):
        writer.writerows([[guarded(value) for value in row] for row in rows])
        yield "".join(lines).encode("utf-8", "replace")
        lines.clear()
    if lines:
        yield "".join(lines).encode()


def _jsonl(records: Records) -> Iterator[bytes]:
    names = list(records.columns)
    for rows in _pieces(records):
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
        yield ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _parquet(records: Records) -> Iterator[bytes]:
    arrow, parquet = (need(name, "export", "writing Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    types = {str: arrow.string(), float: arrow.float64(), int: arrow.int64(), bool: arrow.bool_()}
    schema = arrow.schema([(name, types[kind]) for name, kind in records.columns.items()])
    buffer = io.BytesIO()
    with parquet.ParquetWriter(buffer, schema) as writer:
        for rows in _pieces(records, 16 * AT_A_TIME):
            columns = [list(column) for column in zip(*rows, strict=True)]
            arrays = [arrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    yield buffer.getvalue()


def _pieces(records: Records, size: int = AT_A_TIME) -> Iterator[list[Sequence[Any]]]:
    rows = iter(records.rows)
    while piece := list(islice(rows, size)):
        yield piece
