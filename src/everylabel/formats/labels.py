"""`read_labels`: labels from CSV, TSV, JSONL and Parquet files, and from Label Studio's JSON."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.readers.rows import column_names, label_of, read_rows
from everylabel.formats.label_studio import read_tasks
from everylabel.formats.matching import Imported, Label, Matcher
from everylabel.formats.tables import unguarded
from everylabel.projects.project import Project

IDS = ("id", "item", "item_id", "key")
LABELS = ("label", "class", "category", "choice", "y")
PEOPLE = ("person", "annotator", "user", "completed_by")
TEXTS = ("shown", "text", "image", "file", "path", "body")


class Columns(NamedTuple):
    """Where a table holds what."""

    id: str | None
    label: str
    person: str | None
    texts: tuple[str, ...]


def read_labels(
    path: str | os.PathLike[str],
    project: Project,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    person_column: str | None = None,
    encoding: str | None = None,
) -> Imported:
    """Return labels that a file holds for a project's items, with what could not be matched.

    Parameters
    ----------
    path : path
        A CSV, TSV, JSONL or Parquet file with a row for each label, or Label Studio's export (.json, with
        or without its details).
    project : Project
        Whose items they are: matched by id, else by text or by an image's name. Where a file has both,
        an id counts only if its item has that text.
    id_column, label_column, person_column : str, optional
        Columns of the table; the usual names are looked for. For Label Studio, label_column is the name
        of the Choices control.
    encoding : str, optional
        Of a text file that is not UTF-8.
    """
    file = Path(path)
    if not file.is_file():
        raise EverylabelError(
            f"labels file {str(file)!r} is not there; expected CSV, JSONL or Label Studio's JSON"
        )
    matcher = Matcher(project)
    if file.suffix.lower() == ".json":
        entries = _json(file, encoding)
        if any("annotations" in entry or "completions" in entry for entry in entries):
            return read_tasks(file, entries, matcher, label_column)
        names = list(dict.fromkeys(name for entry in entries for name in entry))
        columns = _columns(file, names, id_column, label_column, person_column)
        return _rows(entries, columns, matcher)
    names = column_names(file, encoding)
    columns = _columns(file, names, id_column, label_column, person_column)
    wanted = [
        name for name in (columns.id, columns.label, columns.person, *columns.texts) if name is not None
    ]
    return _rows(read_rows(file, list(dict.fromkeys(wanted)), encoding), columns, matcher)


def _json(path: Path, encoding: str | None) -> list[dict[str, Any]]:
    try:
        stored = json.loads(path.read_text(encoding=encoding or "utf-8-sig"))
    except (OSError, ValueError, LookupError, RecursionError) as error:
        raise EverylabelError(f"labels file {str(path)!r} is no JSON ({error})") from error
    if not isinstance(stored, list) or not all(isinstance(entry, dict) for entry in stored):
        raise EverylabelError(
            f"labels file {str(path)!r} is no list of tasks; expected Label Studio's export, or .jsonl"
        )
    return stored


def _columns(
    path: Path, names: Sequence[str], id_column: str | None, label: str | None, person: str | None
) -> Columns:
    """Return the columns, as told or by their usual names."""
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


def _rows(rows: Iterable[dict[str, Any]], columns: Columns, matcher: Matcher) -> Imported:
    found = Imported()
    for number, row in enumerate(rows, 1):
        label = _text(row.get(columns.label))
        if not label:
            found.skipped["no label"] += 1
            continue
        ids = [_text(row.get(columns.id))] if columns.id else []
        items = matcher.find(ids, [_text(row.get(name)) for name in columns.texts])
        person = _text(row.get(columns.person)) if columns.person else ""
        found.labels += [Label(item, label, person or None) for item in items]
        if not items:
            found.unmatched.append(ids[0] if ids and ids[0] else f"row {number}")
    return found


def _text(value: Any) -> str:
    return unguarded(label_of(value).strip())
