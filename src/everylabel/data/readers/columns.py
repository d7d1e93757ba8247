"""Columns of a user's file: which one holds what is to be labelled, and what is shown beside it."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import text_of
from everylabel.data.media import SUFFIXES
from everylabel.data.options import Options
from everylabel.data.readers.rows import check_columns, column_names, read_rows

LOOK_AT = 1000  # rows that a column is judged by
NEAR = 0.5  # of the longest mean length: as long as that, a column could be the text as well


def read_columns(
    path: Path, wanted: Sequence[str | None], options: Options, others: bool = True
) -> dict[str, list[Any]]:
    """Return the columns of all rows, in the file's order; without `others` only those that are wanted."""
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
    texts = _texts(columns)
    if len(texts) == 1:
        return "text", texts[0]
    images = [name for name in columns if _are_images(base, columns[name])]
    if not texts:
        return ("image", images[0]) if len(images) == 1 else None
    found, many = (listed([repr(name) for name in names], 30) for names in (there, texts))
    raise EverylabelError(
        f"source {source!r} has columns {found}, and {many} could all be the text; pass --text-column or "
        "--image-column"
    )


def _texts(columns: dict[str, list[str]]) -> list[str]:
    """Return columns of words: the longest, and all that are about as long."""
    lengths = {
        name: sum(map(len, values)) / len(values)
        for name, values in columns.items()
        if len(columns) == 1 or _are_words(values)
    }
    longest = max(lengths.values(), default=0)
    return [name for name, length in lengths.items() if length and length >= NEAR * longest]


def _are_words(values: list[str]) -> bool:
    """Return whether most values that are there hold a letter and a space, and are no paths of images."""
    filled = [value for value in values if value]
    words = sum(" " in value and any(map(str.isalpha, value)) for value in filled)
    paths = sum(value.lower().endswith(tuple(SUFFIXES)) for value in filled)
    return bool(filled) and words > len(filled) / 2 and paths < len(filled) / 2


def _are_images(base: Path, values: list[str]) -> bool:
    filled = [value for value in values if value]
    if not filled or not all(value.lower().endswith(tuple(SUFFIXES)) for value in filled):
        return False
    return any((base / value).is_file() for value in filled[:20])
