"""Existing labels from tables: the meaning of their columns, and matching their rows to a project's items."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.cells import label_of, text_of
from everylabel.data.classes import list_text
from everylabel.data.readers.rows import check_columns
from everylabel.formats.records import MODEL
from everylabel.formats.tables import ROW
from everylabel.projects.log import Label
from everylabel.projects.project import Project


@dataclass
class Imported:
    """Labels in the file's order, names of entries that match no item, and counts of skipped entries."""

    labels: list[Label] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order they come up."""
        return tuple(dict.fromkeys(label.label for label in self.labels))

    def __str__(self) -> str:
        items = len({label.id for label in self.labels})
        parts = [f"{counted(len(self.labels), 'label')} of {counted(items, 'item')}"]
        if self.unmatched:
            many = counted(len(self.unmatched), "matches", "match")
            parts.append(f"{many} no item: {listed(self.unmatched)}")
        parts += [f"{count:,} skipped ({reason})" for reason, count in self.skipped.items()]
        twice = self._contradicted()
        if twice:
            many = counted(len(twice), "item has", "items have")
            parts.append(f"{many} several labels, the last was taken: {listed(twice)}")
        return "; ".join(parts)

    def _contradicted(self) -> list[str]:
        """Return each item with several labels by one person (or by nobody named)."""
        said: dict[tuple[str, str | None], set[str]] = {}
        for item, label, person in self.labels:
            said.setdefault((item, person), set()).add(label)
        return [item for (item, _), labels in said.items() if len(labels) > 1]


class Matcher:
    """Finds the items of an entry of a file: by id, by text, by the image's name.

    wanted : ids, rows and texts of all entries: only their items are kept in memory; None: any
    """

    wanted: Collection[str] | None = None

    def __init__(self, project: Project) -> None:
        self.project = project
        self._ids: dict[str | None, dict[str, str]] = {}

    def find(
        self, ids: Iterable[str], texts: Iterable[str], row: str = "", id_column: str | None = None
    ) -> list[str]:
        """Return items by the log's names; an id or a row counts only if the text, if any, is that item's.

        id_column : the file's column of ids
        """
        texts = [form for text in texts if text.strip() for form in _forms(text.strip())]
        by_text = next((self._texts[text] for text in texts if text in self._texts), [])
        if id_column not in self._ids:
            self._ids[id_column] = self._by_id(id_column)
        known = self._ids[id_column]
        for key in [*(known[name] for name in ids if name in known), *self._rows.get(row, ())]:
            if not by_text or key in by_text:
                return [key]
        return by_text or next(
            (self._files[key] for text in texts for key in _ends(text) if key in self._files), []
        )

    def _by_id(self, id_column: str | None) -> dict[str, str]:
        """Return the log's names of items by the source's own ids, or by rows if it has none.

        If the file's column of ids is another column of the source, by its unique values.
        """
        project = self.project
        names: Iterable[str]
        if id_column in project.columns and id_column != project.id_column:
            names = (text_of(value).strip() for value in project.columns[id_column or ""])
        else:
            names = (project.known_as(i) for i in range(len(project.ids)))
        found = [(name, key) for name, key in zip(names, project.ids, strict=True) if self._is_wanted(name)]
        there = Counter(name for name, _ in found)
        return {name: key for name, key in found if there[name] == 1}

    @cached_property
    def _rows(self) -> dict[str, tuple[str]]:
        rows = ((self.project.row(i), key) for i, key in enumerate(self.project.ids))
        return {str(row): (key,) for row, key in rows if row is not None and self._is_wanted(str(row))}

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        by_key: dict[str, list[str]] = {}
        if self.project.kind == "text":
            for i, name in enumerate(self.project.ids):
                text = str(self.project.display.item(i)["text"]).strip()
                if self._is_wanted(text):
                    by_key.setdefault(text, []).append(name)
        return by_key

    def _is_wanted(self, name: str) -> bool:
        return self.wanted is None or name in self.wanted or name.removeprefix("'") in self.wanted

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """Items by the name of their file, without folders, where the name is unique."""
        by_key: dict[str, list[str]] = {}
        if self.project.kind == "image":
            for i, name in enumerate(self.project.ids):
                for key in {self.project.known_as(i), PurePosixPath(self.project.display.text(i)).name}:
                    by_key.setdefault(key, []).append(name)
        return {key: names for key, names in by_key.items() if len(names) == 1}


def _ends(text: str) -> list[str]:
    """Return possible names of an uploaded or local file: path, name, name without upload prefix."""
    path = text.split("?d=")[-1].removeprefix("/")
    name = PurePosixPath(path).name
    return [path, name, re.sub(r"^[0-9a-f]{8}-", "", name)]


IDS = ("id", "item", "item_id", "key")
LABELS = ("label", "class", "category", "choice", "y")
PEOPLE = ("person", "annotator", "user", "completed_by")
TEXTS = ("shown", "text", "image", "file", "path", "body")
ADVICE = "name others by --import-label-column and --import-id-column or --import-text-column"


class Columns(NamedTuple):
    """The columns of a table by their meaning."""

    id: str | None
    label: str
    person: str | None
    texts: tuple[str, ...]
    row: str | None = None
    by: str | None = None  # in our own exports: who gave the label

    def names(self) -> list[str]:
        """Return all column names, each once."""
        named = (self.id, self.label, self.person, *self.texts, self.row, self.by)
        return list(dict.fromkeys(name for name in named if name is not None))


class NamedColumns(NamedTuple):
    """Columns that the user names; None for a column to be found."""

    id: str | None = None
    label: str | None = None
    person: str | None = None
    text: str | None = None


def label_columns(
    path: Path, names: Sequence[str], given: NamedColumns, project: Project, advice: str = ADVICE
) -> Columns:
    """Return the columns of a table of labels: as given, as in the project's source, or by common names.

    advice : the end of the error about missing columns
    """
    check_columns(path, list(names), [name for name in given if name is not None])
    own_text = project.options.text_column or project.options.image_column or ""
    own_id = () if project.id_column is None else (project.id_column,)
    label = given.label or _first(LABELS, names)
    taken = (label, given.id)
    usual = dict.fromkeys((own_text, *TEXTS))
    texts = (given.text,) if given.text else tuple(name for name in usual if name in names)
    ids = given.id or _first([name for name in (*own_id, *IDS) if name not in taken], names)
    row = ROW if ROW in names and ROW not in taken else None
    if label is None or (ids is None and row is None and not texts):
        labels = f"one of labels ({', '.join(LABELS)}) and " if given.label is None else ""
        raise EverylabelError(
            f"path {str(path)!r} has columns {listed(list(names), 30)}; expected {labels}one of ids "
            f"({', '.join(IDS)}), {ROW} or texts ({', '.join(TEXTS)}); {advice}"
        )
    by = "source" if {"source", "probability"} <= {*names} else _first(["by"], names)
    return Columns(ids, label, given.person or _first(PEOPLE, names), texts, row, by)


def _first(usual: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in usual if name in names), None)


def row_labels(
    rows: Iterable[dict[str, Any]], columns: Columns, matcher: Matcher, separator: str | None = None
) -> Imported:
    """Return the labels of a table's rows; separator : labels are lists of classes, with this between two."""
    imported, rows = Imported(), list(rows)
    named = (columns.id, columns.row, *columns.texts)
    cells = {_cell(row, name) for row in rows for name in named}
    matcher.wanted = cells | {cell.strip() for cell in cells}
    for number, row in enumerate(rows, 1):
        label = _cell(row, columns.label).strip()
        if separator is not None:
            cell = row.get(columns.label)
            label = list_text(label if isinstance(cell, str) else cell, separator)
        if not label:
            imported.skipped["no label"] += 1
            continue
        if _cell(row, columns.by) == MODEL:  # in our own exports: a label by the model is no person's answer
            imported.skipped["the model's own"] += 1
            continue
        items, name = items_of(row, columns, matcher, number)
        person = _cell(row, columns.person).strip() or None
        imported.labels += [Label(item, label, person) for item in items]
        if not items:
            imported.unmatched.append(name)
    return imported


def items_of(
    row: Mapping[str, Any], columns: Columns, matcher: Matcher, number: int
) -> tuple[list[str], str]:
    """Return the items of a row, and a name for the row."""
    own, texts = _cell(row, columns.id), [_cell(row, name) for name in columns.texts]
    where = _cell(row, columns.row)
    items = matcher.find([own, *_forms(own.strip())], texts, where, columns.id)
    return items, own.strip() or (f"row {where}" if where else f"entry {number}")


def _forms(cell: str) -> tuple[str, str]:
    """Return a cell, and the cell with an apostrophe of its own, which may have looked like a guard."""
    return cell, f"'{cell}"


def _cell(row: Mapping[str, Any], name: str | None) -> str:
    return "" if name is None else label_of(row.get(name))
