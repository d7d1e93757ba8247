"""Existing labels from a file: a table, Label Studio's JSON, or Argilla's records."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.readers.rows import column_names, read_rows
from everylabel.formats.argilla import argilla_rows
from everylabel.formats.label_studio import read_tasks
from everylabel.formats.label_tables import Imported, Matcher, NamedColumns, label_columns, row_labels
from everylabel.formats.tables import unguarded
from everylabel.projects.project import Project

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
        name of the Choices control in Label Studio, of the question in Argilla.
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
        return row_labels(entries, label_columns(file, names, named, project), matcher, separator)
    columns = label_columns(file, column_names(file, encoding), named, project)
    return row_labels(plain_rows(file, columns.names(), encoding, long_rows), columns, matcher, separator)


def plain_rows(
    file: Path, names: list[str], encoding: str | None, long_rows: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table; guarded cells of a CSV file are as before."""
    plain = unguarded if file.suffix.lower() in GUARDED else str
    for row in read_rows(file, names, encoding, long_rows):
        yield {name: plain(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


def read_json(path: Path, encoding: str | None) -> list[dict[str, Any]]:
    """Return the objects of a JSON file that is a list."""
    try:
        stored = json.loads(path.read_text(encoding=encoding or "utf-8-sig"))
    except (OSError, ValueError, LookupError, RecursionError) as error:
        raise EverylabelError(f"labels file {str(path)!r} is not JSON ({error})") from error
    if not isinstance(stored, list) or not all(isinstance(entry, dict) for entry in stored):
        raise EverylabelError(
            f"labels file {str(path)!r} is not a list of tasks; expected Label Studio's export, or .jsonl"
        )
    return stored
