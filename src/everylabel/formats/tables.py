"""Tables as CSV, JSONL or Parquet: written in pieces, never whole in memory, and read for labels.

A spreadsheet takes a cell that starts with = + - @ (or a tab) for a formula, and texts and ids come from
anywhere. In CSV such a cell gets an apostrophe in front, unless it is a number; a cell that has apostrophes
before such a character gets one more, so that reading can take exactly one off again. JSONL and Parquet
hold every text as it is.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, listed, need
from everylabel.data.cells import label_of
from everylabel.formats.matching import Imported, Matcher
from everylabel.projects.log import Label

TABLE_FORMATS = ("csv", "jsonl", "parquet")
AT_A_TIME = 1024  # rows in a piece
PREDICTED = 4096  # instances predicted at a time
IDS = ("id", "item", "item_id", "key")
LABELS = ("label", "class", "category", "choice", "y")
PEOPLE = ("person", "annotator", "user", "completed_by")
TEXTS = ("shown", "text", "image", "file", "path", "body")
Show = Callable[[int], str]  # what an item is, in words: its text, or its file
_FORMULA, _GUARDED = re.compile(r"'*[=+\-@\t\r]"), re.compile(r"'+[=+\-@\t\r]")


class Given(NamedTuple):
    """One answer of one person; class None: cannot tell."""

    item: int
    person: str
    label: int | None
    at: float  # seconds since 1970
    saved: int  # number of the event


@dataclass(frozen=True)
class Records:
    """A table, row by row; `columns` and their types are known before the first row."""

    columns: dict[str, type]
    rows: Iterable[Sequence[Any]]


def label_records(
    ids: Sequence[str], labels: dict[int, int], classes: Sequence[str], show: Show | None = None
) -> Records:
    """Return the label of every labelled item, in the order of the source."""
    rows = ((ids[i], classes[labels[i]], *_shown(show, i)) for i in sorted(labels))
    return Records({"id": str, "label": str} | _shown_column(show), rows)


def answer_records(
    ids: Sequence[str], answers: Iterable[Given], classes: Sequence[str], show: Show | None = None
) -> Records:
    """Return every answer, in the order they were given; an empty label is 'cannot tell'."""
    columns = {"id": str, "label": str, "person": str, "at": str, "saved": int}
    rows = (
        (
            ids[answer.item],
            None if answer.label is None else classes[answer.label],
            answer.person,
            datetime.fromtimestamp(answer.at, UTC).isoformat(timespec="milliseconds"),
            answer.saved,
            *_shown(show, answer.item),
        )
        for answer in answers
    )
    return Records(columns | _shown_column(show), rows)


def prediction_records(
    ids: Sequence[str],
    items: Sequence[int] | np.ndarray,
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
    show: Show | None = None,
) -> Records:
    """Return the most probable class and all probabilities of these items, predicted as they are written.

    probabilities : from positions (b,) to (b, k)
    """
    positions = np.asarray(items, dtype=np.int64)

    def rows() -> Iterator[Sequence[Any]]:
        for at in range(0, len(positions), PREDICTED):
            chunk = positions[at : at + PREDICTED]
            probs = np.asarray(probabilities(chunk), dtype=np.float64)
            best = np.argmax(probs, axis=1)
            rounded = np.round(probs, 6)
            for i, top, row in zip(chunk.tolist(), best.tolist(), rounded.tolist(), strict=True):
                yield ids[i], classes[top], row[top], *row, *_shown(show, i)

    columns: dict[str, type] = {"id": str, "label": str, "probability": float}
    return Records(columns | {f"p({name})": float for name in classes} | _shown_column(show), rows())


def _shown(show: Show | None, i: int) -> tuple[str, ...]:
    return () if show is None else (show(i),)


def _shown_column(show: Show | None) -> dict[str, type]:
    return {} if show is None else {"shown": str}


def write_table(records: Records, form: str) -> Iterator[bytes]:
    """Return the pieces of a file; a format that is not there is told at once."""
    check_choice(form, "format", list(TABLE_FORMATS))
    if form == "parquet":
        need("pyarrow.parquet", "export", "writing Parquet")
    return {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[form](records)


def guarded(value: Any) -> Any:
    """Return a cell of a CSV file that no spreadsheet runs as a formula."""
    if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value):
        return f"'{value}"
    return value


def unguarded(value: str) -> str:
    """Return what `guarded` was given."""
    return value[1:] if _GUARDED.match(value) else value


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


class _Lines(list[str]):
    """What csv writes, a line at a time."""

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
    types = {str: arrow.string(), float: arrow.float64(), int: arrow.int64()}
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


class Columns(NamedTuple):
    """Where a table holds what."""

    id: str | None
    label: str
    person: str | None
    texts: tuple[str, ...]

    def names(self) -> list[str]:
        """Return all of them, each once."""
        named = (self.id, self.label, self.person, *self.texts)
        return list(dict.fromkeys(name for name in named if name is not None))


def label_columns(
    path: Path, names: Sequence[str], id_column: str | None, label: str | None, person: str | None
) -> Columns:
    """Return the columns of a table of labels, as told or by their usual names."""
    for told in (id_column, label, person):
        if told is not None and told not in names:
            raise EverylabelError(
                f"column {told!r} is not in {str(path)!r}; expected one of {listed(list(names), 30)}"
            )
    chosen = label or _first(LABELS, names)
    texts = tuple(name for name in TEXTS if name in names)
    ids = id_column or _first(IDS, names)
    if chosen is None or (ids is None and not texts):
        raise EverylabelError(
            f"labels file {str(path)!r} has columns {listed(list(names), 30)}; expected one of labels "
            f"({', '.join(LABELS)}) and one of ids ({', '.join(IDS)}) or texts; name others by "
            "--import-label-column and --import-id-column"
        )
    return Columns(ids, chosen, person or _first(PEOPLE, names), texts)


def _first(usual: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in usual if name in names), None)


def row_labels(
    rows: Iterable[dict[str, Any]], columns: Columns, matcher: Matcher, *, guarded: bool
) -> Imported:
    """Return the labels of a table's rows; `guarded` if they are of a CSV file."""
    plain = unguarded if guarded else str
    imported = Imported()
    for number, row in enumerate(rows, 1):
        label = plain(_cell(row, columns.label).strip())
        if not label:
            imported.skipped["no label"] += 1
            continue
        own, texts = _cell(row, columns.id), [_cell(row, name) for name in columns.texts]
        ids = [plain(own), plain(own.strip()), own.strip()]  # as written here; as others write it
        items = matcher.find(ids, [*map(plain, texts), *texts])
        person = plain(_cell(row, columns.person).strip()) or None
        imported.labels += [Label(item, label, person) for item in items]
        if not items:
            imported.unmatched.append(ids[1] or f"row {number}")
    return imported


def _cell(row: dict[str, Any], name: str | None) -> str:
    return "" if name is None else label_of(row.get(name))
