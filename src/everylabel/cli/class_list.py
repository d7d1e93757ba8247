"""Names parted by commas: `--classes`, or a CSV file with a name and a description a row; `--columns`."""

import csv
import io
from pathlib import Path

from everylabel.core.errors import EverylabelError, listed


def class_list(given: str | None, encoding: str | None = None) -> tuple[list[str] | None, dict[str, str]]:
    """Return the names, if any are given, and the descriptions that a file has, by name."""
    if given is None:
        return None, {}
    try:
        if given.lower().endswith(".csv"):
            pairs = _pairs(given, encoding)
        else:
            pairs = [(name, "") for name in _parted(given)]
    except csv.Error as error:
        raise EverylabelError(
            f"--classes {given!r} cannot be read ({error}); expected names parted by commas, those that hold "
            "a comma in double quotes"
        ) from error
    names = [name for name, _ in pairs if name]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EverylabelError(f"--classes {given!r} names {listed(twice)} more than once; expected each once")
    return names, {name: text for name, text in pairs if name and text}


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


def _pairs(given: str, encoding: str | None) -> list[tuple[str, str]]:
    """Return names and descriptions of a CSV file."""
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
            f"--classes {given!r} has {told}; expected columns `name` and, if you like, `description`"
        )
    return [((row["name"] or "").strip(), (row.get("description") or "").strip()) for row in rows]
