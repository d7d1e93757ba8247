"""A source's own ids: the column that is named, or the one that can only be meant."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import text_of
from everylabel.data.id_list import IdList
from everylabel.data.items import LONGEST_ID, unique_ids

USUAL = ("id", "_id", "uuid", "guid", "key")  # names of columns of ids, and what ends in _id
NO_IDS = "none"  # --id-column none: the source has none


class Ids(NamedTuple):
    """What the rows of a table are called: for the log, and by the source itself if it has ids."""

    ids: Sequence[str]
    own: list[str] | None = None
    column: str | None = None


def named_ids(id_column: str | None) -> str | None:
    """Return the column of ids that is named, if one is."""
    return None if id_column == NO_IDS else id_column


def ids_of(columns: Mapping[str, Sequence[Any]], id_column: str | None) -> Ids:
    """Return the names of rows: of a column, or their numbers."""
    if id_column is None:
        return Ids(IdList(map(str, range(len(next(iter(columns.values())))))))
    ids = [text_of(value).strip() for value in columns[id_column]]
    if not all(ids):
        raise EverylabelError(
            f"--id-column {id_column!r} is empty in row {ids.index('') + 1}; expected a name in every row, "
            f"or --id-column {NO_IDS}: rows are known by their content then"
        )
    return Ids(unique_ids(ids), ids, id_column)


def check_ids_there(path: Path, there: Sequence[str], id_column: str) -> None:
    """Refuse a column of ids that is not there, which last time it was, perhaps."""
    if id_column not in there:
        names = listed([repr(name) for name in there], 20)
        raise EverylabelError(
            f"--id-column {id_column!r} is not in {str(path)!r}; expected one of {names}, or --id-column "
            f"{NO_IDS}: rows are known by their content then"
        )


def choose_ids(columns: Mapping[str, Sequence[Any]], taken: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the column of ids, if there is one that can be meant, and a note on it or on why it is none."""
    usual = sorted((name for name in columns if name.lower() in USUAL), key=lambda name: name.lower() != "id")
    ending = [name for name in columns if name.lower().endswith("_id") and name not in usual]
    named = [name for name in (*usual, *ending) if name not in taken]
    fit = [name for name in named if _name_rows(columns[name])]
    if fit and (fit[0] in usual or len(fit) == 1):
        told = f"column {fit[0]!r} holds the ids (--id-column chooses another, {NO_IDS!r} takes none)"
        return fit[0], told
    doubtful = [name for name in named if name in usual and name not in fit]
    if not doubtful:
        return None, None
    return None, (
        f"column {doubtful[0]!r} names no rows, it has gaps or a name twice; rows are known by their "
        "content, and their number is called row"
    )


def _name_rows(values: Sequence[Any]) -> bool:
    """Return whether values are there in every row, each once."""
    names = {text_of(value).strip() for value in values}
    return len(names) == len(values) and "" not in names and max(map(len, names)) <= LONGEST_ID
