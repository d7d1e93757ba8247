"""Existing labels from a file: a table, Label Studio's JSON, or Argilla's records."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import column_list, indicator_text
from everylabel.data.readers.rows import check_columns, column_names, json_object, read_lines, read_rows
from everylabel.formats.argilla import argilla_rows
from everylabel.formats.label_studio import read_tasks
from everylabel.formats.label_tables import Imported, Matcher, NamedColumns, label_columns, row_labels
from everylabel.formats.tables import unguarded
from everylabel.projects.project import Project

INDICATORS = "0/1"  # stands for columns of 0 and 1, one for each class
GUARDED = (".csv", ".tsv")  # files that spreadsheets open: cells may be guarded against formulas


def read_labels(
    path: str | os.PathLike[str],
    project: Project,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    person_column: str | None = None,
    text_column: str | None = None,
    encoding: str | None = None,
    long_rows: str | None = None,
) -> Imported:
    """Return the labels of a file for a project's items, with the entries that match no item.

    Parameters
    ----------
    path : path
        A table's file with a row for each label (CSV, JSON, Excel ...), Label Studio's export (.json, with
        or without its details), or Argilla's records (.json, nested or flat).
    project : Project
        The project of the items, which are matched by the source's own id, by row, by text or by an image's
        name. If the file has texts, an id or row counts only if its item has that text.
    id_column, label_column, person_column, text_column : str, optional
        Columns of the table; default: the names of the source's columns, or common names. label_column is the
        name of the Choices control in Label Studio, of the question in Argilla. With several classes per item
        also comma-separated names of columns of 0 and 1, one for each class.
    encoding, long_rows : str, optional
        As in `read_items`.
    """
    file = Path(path)
    if not file.is_file():
        raise EverylabelError(
            f"labels file {str(file)!r} does not exist; expected a table, or Label Studio's JSON"
        )
    matcher, suffix = Matcher(project), file.suffix.lower()
    separator = project.options.label_separator
    named = NamedColumns(id_column, label_column, person_column, text_column)
    if suffix == ".json":
        entries = read_json(file, encoding)
        if any("annotations" in entry for entry in entries):
            return read_tasks(file, entries, matcher, label_column, separator is not None)
        entries, named = argilla_rows(entries, named)
        names = list(dict.fromkeys(name for entry in entries for name in entry))
    else:
        names = column_names(file, encoding)
    indicators = [] if separator is None or named.label in names else column_list(named.label) or []
    if len(indicators) < 2:
        indicators = []
    else:
        check_columns(file, names, indicators)
        names, named = [*names, INDICATORS], named._replace(label=INDICATORS)
    columns = label_columns(file, names, named, project)
    if suffix == ".json":
        rows: Iterable[dict[str, Any]] = entries
    else:
        read = [name for name in columns.names() if name != INDICATORS]
        rows = plain_rows(file, [*read, *indicators], encoding, long_rows)
    if indicators:
        rows = (
            row | {INDICATORS: indicator_text({name: row.get(name) for name in indicators})} for row in rows
        )
    return row_labels(rows, columns, matcher, separator)


def plain_rows(
    file: Path, names: list[str], encoding: str | None, long_rows: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table; guarded cells of a CSV file are as before."""
    plain = unguarded if file.suffix.lower() in GUARDED else str
    for row in read_rows(file, names, encoding, long_rows):
        yield {name: plain(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


def read_json(path: Path, encoding: str | None) -> list[dict[str, Any]]:
    """Return the objects of a JSON file that is a list, or of a file with an object on each line."""
    if path.suffix.lower() != ".json":
        lines = enumerate(read_lines(path, encoding), 1)
        return [json_object(path, number, line) for number, line in lines if line.strip()]
    try:
        stored = json.loads(path.read_text(encoding=encoding or "utf-8-sig"))
    except (OSError, ValueError, LookupError, RecursionError) as error:
        raise EverylabelError(f"path {str(path)!r} is not JSON ({error})") from error
    if not isinstance(stored, list) or not all(isinstance(entry, dict) for entry in stored):
        raise EverylabelError(
            f"path {str(path)!r} is not a list of objects; expected [{{...}}, ...], such as Label Studio's "
            "export, or .jsonl with one a line"
        )
    return stored
