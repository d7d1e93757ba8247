"""Names parted by commas: `--classes`, or a CSV file with a name, description and key a row; `--columns`."""

import csv
import io
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError, listed

KEYS = "0123456789abijklortvwy"  # the page's shortcuts have the other letters


class ClassList(NamedTuple):
    """Names in order, if any are given, and what a file has of them, by name."""

    names: list[str] | None
    descriptions: dict[str, str]
    keys: dict[str, str]


class _Row(NamedTuple):
    name: str
    description: str = ""
    key: str = ""


def class_list(given: str | None, encoding: str | None = None) -> ClassList:
    """Return the classes that a person names, one by one or in a file."""
    if given is None:
        return ClassList(None, {}, {})
    try:
        if given.lower().endswith(".csv"):
            rows = _rows(given, encoding)
        else:
            rows = [_Row(name) for name in _parted(given)]
    except csv.Error as error:
        raise EverylabelError(
            f"--classes {given!r} cannot be read ({error}); expected names parted by commas, those that hold "
            "a comma in double quotes"
        ) from error
    rows = [row for row in rows if row.name]
    for what, values in (("names", [row.name for row in rows]), ("has key", [row.key for row in rows])):
        twice = sorted({value for value in values if value and values.count(value) > 1})
        if twice:
            raise EverylabelError(
                f"--classes {given!r} {what} {listed(twice)} more than once; expected each once"
            )
    odd = [row.key for row in rows if row.key and (len(row.key) > 1 or row.key not in KEYS)]
    if odd:
        raise EverylabelError(
            f"--classes {given!r} has key {listed(odd)}; expected one of {' '.join(KEYS)}: the page needs "
            "the other letters"
        )
    descriptions = {row.name: row.description for row in rows if row.description}
    return ClassList([row.name for row in rows], descriptions, {row.name: row.key for row in rows if row.key})


def column_list(given: str | None) -> list[str] | None:
    """Return the columns that are named; none of them for "none", None for all."""
    if given is None or given == "none":
        return None if given is None else []
    try:
        return [name for name in _parted(given) if name]
    except csv.Error as error:
        raise EverylabelError(
            f"--columns {given!r} cannot be read ({error}); expected names parted by commas, those that hold "
            "a comma in double quotes"
        ) from error


def _parted(given: str) -> list[str]:
    """Return names parted by commas outside of quotes."""
    lines = csv.reader(io.StringIO(given), strict=True, skipinitialspace=True)
    return [name.strip() for line in lines for name in line]


def _rows(given: str, encoding: str | None) -> list[_Row]:
    """Return the rows of a CSV file."""
    path = Path(given)
    if not path.is_file():
        raise EverylabelError(f"--classes {given!r} is not there; expected a CSV file with a column `name`")
    try:
        text = path.read_bytes().decode(encoding or "utf-8").removeprefix("\ufeff")
    except (UnicodeDecodeError, LookupError) as error:
        raise EverylabelError(
            f"--classes {given!r} cannot be read as {encoding or 'utf-8'!r} ({error}); save it as UTF-8, "
            "or pass its true encoding, such as --encoding latin-1"
        ) from error
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows, there = list(reader), reader.fieldnames or []
    if not rows or "name" not in there:
        told = ", ".join(there) if rows else "no rows"
        raise EverylabelError(
            f"--classes {given!r} has {told}; expected columns `name` and, if you like, `description` and "
            "`key`"
        )
    cells = [[(row.get(column) or "").strip() for column in _Row._fields] for row in rows]
    return [_Row(name, description, key.lower()) for name, description, key in cells]
