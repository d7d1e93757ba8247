"""Tables as CSV, JSONL or Parquet, written in pieces, and the columns that describe an item in them.

A spreadsheet runs a cell that starts with = + - @ (or a tab) as a formula, some also after spaces, or with
the wide forms of these characters; texts and ids come from anywhere. In CSV such a cell gets an apostrophe in
front, unless it is a number. A cell with apostrophes before such a character gets one more, so that reading
can remove exactly one. JSONL and Parquet hold every text unchanged.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, listed, need
from everylabel.data.cells import cell_text, is_missing
from everylabel.data.items import Items
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


OWN_ID, ROW, SHOWN = "id", "row", "shown"


class Cells(NamedTuple):
    """A column: the type of its values, and the value of an item."""

    type: type
    of: Callable[[int], Any]


class ItemColumns(NamedTuple):
    """Columns before the label of an item, and after it."""

    before: dict[str, Cells]
    after: dict[str, Cells]

    def records(self, columns: dict[str, type], rows: Iterable[tuple[int, Sequence[Any]]]) -> Records:
        """Return a table with further columns; a row is an item and its values of these columns."""
        names: dict[str, type] = {name: cells.type for name, cells in self.before.items()} | columns
        after = []
        for name, cells in self.after.items():
            while name in names:  # our own columns keep their names
                name = f"source_{name}"
            names[name] = cells.type
            after.append(cells.of)
        before = [cells.of for cells in self.before.values()]
        whole = ((*(of(i) for of in before), *values, *(of(i) for of in after)) for i, values in rows)
        return Records(names, whole)


def item_columns(items: Items, chosen: Sequence[str] | None = None) -> ItemColumns:
    """Return the columns of items: the id if the source has ids, the row, and the source's own columns.

    chosen : names of the source's columns; None takes all
    """
    before = {ROW: Cells(int, items.row)}
    own = items.own_ids
    if own is not None:
        known = items.columns.get(items.id_column or "")
        before = {OWN_ID: Cells(str, own.__getitem__) if known is None else _typed(known)} | before
    names = list(items.columns) if chosen is None else list(chosen)
    unknown = [name for name in names if name not in items.columns]
    if unknown:
        there = listed([repr(name) for name in items.columns], 30) or "none: the source has no columns"
        raise EverylabelError(f"--columns names {unknown[0]!r}; expected some of {there}")
    if own is not None and items.id_column == OWN_ID:  # it is the first column already
        names = [name for name in names if name != OWN_ID]
    after = {name: _typed(items.columns[name]) for name in names}
    if items.kind == "text" and not items.columns:
        after[SHOWN] = Cells(str, lambda i: str(items.display.item(i)["text"]))
    return ItemColumns(before, after)


def _typed(values: Sequence[Any]) -> Cells:
    """Return a column of the source: numbers as int or float, all else as text."""
    known = getattr(values, "type", None)  # of a column that is read on demand
    kinds = {known} if known else {type(value) for value in values if not is_missing(value)}
    if kinds and kinds <= {int, float}:
        kind = int if kinds == {int} else float
        return Cells(kind, lambda i: None if is_missing(values[i]) else kind(values[i]))
    return Cells(str, lambda i: cell_text(values[i]))
