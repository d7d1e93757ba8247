"""Tables of existing labels: the meaning of their columns, and the items of their rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import label_of
from everylabel.data.classes import list_text
from everylabel.formats.item_columns import ROW
from everylabel.formats.matching import Imported, Matcher
from everylabel.formats.records import MODEL
from everylabel.formats.tables import unguarded
from everylabel.projects.log import Label
from everylabel.projects.project import Project

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
    """Return the columns of a table of labels: as given, as in the project's source, or by common names."""
    for name in given:
        if name is not None and name not in names:
            raise EverylabelError(
                f"column {name!r} is not in {str(path)!r}; expected one of {listed(list(names), 30)}"
            )
    options = None if project.about is None else project.about.options
    own_text = () if options is None else (options.text_column or options.image_column or "",)
    own_id = () if project.id_column is None else (project.id_column,)
    label = given.label or _first(LABELS, names)
    taken = (label, given.id)
    usual = dict.fromkeys((*own_text, *TEXTS))
    texts = (given.text,) if given.text else tuple(name for name in usual if name in names)
    ids = given.id or _first([name for name in (*own_id, *IDS) if name not in taken], names)
    row = ROW if ROW in names and ROW not in taken else None
    if label is None or (ids is None and row is None and not texts):
        raise EverylabelError(
            f"labels file {str(path)!r} has columns {listed(list(names), 30)}; expected one of labels "
            f"({', '.join(LABELS)}) and one of ids ({', '.join(IDS)}), {ROW} or texts ({', '.join(TEXTS)}); "
            f"{advice}"
        )
    by = "source" if {"source", "probability"} <= {*names} else _first(["by"], names)
    return Columns(ids, label, given.person or _first(PEOPLE, names), texts, row, by)


def _first(usual: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in usual if name in names), None)


def row_labels(
    rows: Iterable[dict[str, Any]],
    columns: Columns,
    matcher: Matcher,
    *,
    guarded: bool,
    separator: str | None = None,
) -> Imported:
    """Return the labels of a table's rows.

    guarded : they are of a CSV file
    separator : labels are lists of classes, with this between two
    """
    plain = unguarded if guarded else str
    imported = Imported()
    for number, row in enumerate(rows, 1):
        label = plain(_cell(row, columns.label).strip())
        if separator is not None:
            cell = row.get(columns.label)
            label = list_text(label if isinstance(cell, str) else cell, separator)
        if not label:
            imported.skipped["no label"] += 1
            continue
        if _cell(row, columns.by) == MODEL:  # in our own exports: a label by the model is no person's answer
            imported.skipped["the model's own"] += 1
            continue
        items, name = items_of(row, columns, matcher, plain, number)
        person = plain(_cell(row, columns.person).strip()) or None
        imported.labels += [Label(item, label, person) for item in items]
        if not items:
            imported.unmatched.append(name)
    return imported


def items_of(
    row: Mapping[str, Any], columns: Columns, matcher: Matcher, plain: Callable[[str], str], number: int
) -> tuple[list[str], str]:
    """Return the items of a row, and a name for the row."""
    own, texts = _cell(row, columns.id), [_cell(row, name) for name in columns.texts]
    ids = [plain(own), plain(own.strip()), own.strip()]  # as our exports write it; as others write it
    where = _cell(row, columns.row)
    items = matcher.find(ids, [*map(plain, texts), *texts], where, columns.id)
    return items, ids[1] or (f"row {where}" if where else f"entry {number}")


def _cell(row: Mapping[str, Any], name: str | None) -> str:
    return "" if name is None else label_of(row.get(name))
