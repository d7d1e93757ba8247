"""The columns of an export that describe an item: its own id, its row, the source's own columns."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import ReadColumn, is_missing, written
from everylabel.data.items import Items
from everylabel.formats.tables import Records

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
    if isinstance(values, ReadColumn):
        kinds = {values.type}
    else:
        kinds = {type(value) for value in values if not is_missing(value)}
    if kinds and kinds <= {int, float}:
        kind = int if kinds == {int} else float
        return Cells(kind, lambda i: None if is_missing(values[i]) else kind(values[i]))
    return Cells(str, lambda i: _text(values[i]))


def _text(value: Any) -> str | None:
    return None if is_missing(value) else written(value)
