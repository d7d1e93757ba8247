"""Columns of a user's file: which one holds the content to label, which one the ids, and which are shown."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import text_of
from everylabel.data.items import LONGEST_ID, IdList, unique_ids
from everylabel.data.media import FILES_TRIED, SUFFIXES
from everylabel.data.options import Options
from everylabel.data.readers.rows import check_columns, column_names, read_rows

LOOK_AT = 1000  # rows that a column is judged by
NEAR = 0.5  # of the longest mean length; a column at least this long could be the text, too
USUAL = ("id", "_id", "uuid", "guid", "key")  # names of id columns, besides those that end in _id
NO_IDS = "none"  # --id-column none: the source has none


def read_columns(
    path: Path, wanted: Sequence[str | None], options: Options, others: bool = True
) -> dict[str, list[Any]]:
    """Return the columns of all rows, in the file's order; without `others` only the wanted ones."""
    named = [name for name in wanted if name is not None]
    if not others:
        return _all_rows(path, list(dict.fromkeys(named)), options)
    there = list(dict.fromkeys(column_names(path, options.encoding)))
    check_columns(path, there, named)
    return _all_rows(path, there, options)


def _all_rows(path: Path, names: list[str], options: Options) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in read_rows(path, names, options.encoding, options.long_rows):
        for name, column in columns.items():
            column.append(row[name])
    if not next(iter(columns.values()), []):
        raise EverylabelError(f"source {str(path)!r} has a header and no rows; expected at least one")
    return columns


def choose_column(path: Path, taken: Sequence[str | None], options: Options) -> tuple[str, str]:
    """Return "text" or "image" and the one column that looks like it; an error lists them if none does."""
    found = find_column(path, taken, options)
    if found is None:
        there = listed([repr(name) for name in column_names(path, options.encoding)], 30)
        raise EverylabelError(
            f"source {str(path)!r} has columns {there}, and none looks like text; pass --text-column or "
            "--image-column"
        )
    return found


def find_column(path: Path, taken: Sequence[str | None], options: Options) -> tuple[str, str] | None:
    """Return "text" or "image" and the one column that looks like it; an error if there are several."""
    there = list(dict.fromkeys(column_names(path, options.encoding)))
    check_columns(path, there, [name for name in taken if name is not None])
    names = [name for name in there if name not in taken]
    some = read_rows(path, names, options.encoding, options.long_rows)
    rows = list(islice(some, LOOK_AT)) if names else []
    if not rows:
        raise EverylabelError(f"source {str(path)!r} has no rows to label; expected a header and rows")
    return looks_like(str(path), {name: [row[name] for row in rows] for name in names}, there, path.parent)


def looks_like(
    source: str, some: Mapping[str, Sequence[Any]], there: Sequence[str], base: Path
) -> tuple[str, str] | None:
    """Return "text" or "image" and the one column that looks like it, by some of its values.

    there : all columns that the source has
    base : where paths of images start
    """
    columns = {name: [text_of(value).strip() for value in values] for name, values in some.items()}
    images = [name for name in columns if _are_images(base, columns[name])]
    texts = [name for name in _texts(columns) if name not in images]
    if len(texts) == 1:
        return "text", texts[0]
    if not texts:
        return ("image", images[0]) if len(images) == 1 else None
    found, many = (listed([repr(name) for name in names], 30) for names in (there, texts))
    raise EverylabelError(
        f"source {source!r} has columns {found}, and {many} could all be the text; pass --text-column or "
        "--image-column"
    )


def _texts(columns: dict[str, list[str]]) -> list[str]:
    """Return the columns of words: the longest one, and all of similar length."""
    lengths = {
        name: sum(map(len, values)) / len(values)
        for name, values in columns.items()
        if len(columns) == 1 or _are_words(values)
    }
    longest = max(lengths.values(), default=0)
    return [name for name, length in lengths.items() if length and length >= NEAR * longest]


def _are_words(values: list[str]) -> bool:
    """Return whether most non-empty values contain a letter and a space, and are no image paths."""
    filled = [value for value in values if value]
    words = sum(" " in value and any(map(str.isalpha, value)) for value in filled)
    paths = sum(value.lower().endswith(tuple(SUFFIXES)) for value in filled)
    return bool(filled) and words > len(filled) / 2 and paths < len(filled) / 2


def _are_images(base: Path, values: list[str]) -> bool:
    filled = [value for value in values if value]
    if not filled or not all(value.lower().endswith(tuple(SUFFIXES)) for value in filled):
        return False
    return any((base / value).is_file() for value in filled[:FILES_TRIED])


class Ids(NamedTuple):
    """Names of a table's rows: for the log, and the source's own ids if it has some."""

    ids: Sequence[str]
    own: list[str] | None = None
    column: str | None = None


def named_ids(id_column: str | None) -> str | None:
    """Return the id column that the options name, if any."""
    return None if id_column == NO_IDS else id_column


def ids_of(columns: Mapping[str, Sequence[Any]], id_column: str | None) -> Ids:
    """Return the names of rows: the values of a column, or row numbers."""
    if id_column is None:
        return Ids(IdList(map(str, range(len(next(iter(columns.values())))))))
    ids = [text_of(value).strip() for value in columns[id_column]]
    if not all(ids):
        raise EverylabelError(
            f"--id-column {id_column!r} is empty in row {ids.index('') + 1}; expected a name in every row, "
            f"or --id-column {NO_IDS}: rows are then recognised by their content"
        )
    return Ids(unique_ids(ids), ids, id_column)


def check_ids_there(path: Path, there: Sequence[str], id_column: str) -> None:
    """Raise if the id column is missing (it may have existed last time)."""
    if id_column not in there:
        names = listed([repr(name) for name in there], 20)
        raise EverylabelError(
            f"--id-column {id_column!r} is not in {str(path)!r}; expected one of {names}, or --id-column "
            f"{NO_IDS}: rows are then recognised by their content"
        )


def choose_ids(columns: Mapping[str, Sequence[Any]], taken: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the column that looks like ids, or None, and a note about the choice."""
    usual = sorted((name for name in columns if name.lower() in USUAL), key=lambda name: name.lower() != "id")
    ending = [name for name in columns if name.lower().endswith("_id") and name not in usual]
    named = [name for name in (*usual, *ending) if name not in taken]
    fit = [name for name in named if _name_rows(columns[name])]
    if fit and (fit[0] in usual or len(fit) == 1):
        note = f"column {fit[0]!r} holds the ids (--id-column chooses another, {NO_IDS!r} takes none)"
        return fit[0], note
    doubtful = [name for name in named if name in usual and name not in fit]
    if not doubtful:
        return None, None
    return None, (
        f"column {doubtful[0]!r} is not used for ids: it has gaps or duplicates; rows are recognised by "
        "their content"
    )


def _name_rows(values: Sequence[Any]) -> bool:
    """Return whether no value is empty or repeated."""
    names = {text_of(value).strip() for value in values}
    return len(names) == len(values) and "" not in names and max(map(len, names)) <= LONGEST_ID
