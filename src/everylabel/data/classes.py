"""Class names: cleaning and checking them, reading `--classes`, and turning labels into class numbers."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, counted, listed, nearest
from everylabel.data.cells import label_of

UNLABELLED = -1
LOOKED_AT = 12  # new names that are compared with existing ones, to detect typing errors
MOST_CLASSES = 1000
LONGEST_NAME = 200
OPTIONS = ": check --label-column, --import-label-column or --classes"
Names = tuple[str, ...]


def clean_name(name: str, hint: str = OPTIONS) -> str:
    """Return a class name with single spaces; an error says what is wrong and, by the hint, what to do."""
    clean = " ".join(name.split())
    if not clean or len(clean) > LONGEST_NAME or not clean.isprintable():
        raise EverylabelError(
            f"class name is {name!r:.80}; expected 1 to {LONGEST_NAME} printable characters{hint}"
        )
    return clean


def check_class_count(names: Sequence[str]) -> None:
    """Refuse more classes than the page can hold."""
    if len(names) > MOST_CLASSES:
        raise EverylabelError(
            f"classes are {', '.join(map(repr, names[:3]))} and others, {len(names):,} or more; expected "
            f"{MOST_CLASSES:,} at most{OPTIONS}"
        )


def check_classes(classes: Sequence[str] | None) -> Names | None:
    """Return the class names that a user passed, stripped of white space; an error says what is wrong."""
    if classes is None:
        return None
    names = () if isinstance(classes, str) else tuple(label_of(name).strip() for name in classes)
    if not names or not all(names) or len(set(names)) < len(names):
        raise EverylabelError(f"classes is {classes!r:.80}; expected a list of different names")
    return names


NOT_A_NUMBER = ("nan", "NaN")
MISSING = {"none", "null", "na", "n/a", "<na>", "nil", "-", "?"}  # a missing label or a class


def label_numbers(raw: Iterable[Any], known: Names | None, notes: list[str]) -> tuple[np.ndarray, Names]:
    """Return class numbers and class names; stray white space is removed, counted and noted.

    An empty cell means no label. So does "nan", which pandas writes for one, unless a class has this name.
    """
    texts = [label_of(label) for label in raw]
    clean = [text.strip() for text in texts]
    stray = sum(a != b for a, b in zip(texts, clean, strict=True))
    if stray:
        notes.append(f"{stray} label(s) had white space around them, which was removed")
    for name in (name for name in NOT_A_NUMBER if name in clean and name not in (known or ())):
        notes.append(
            f"{counted(clean.count(name), 'label is', 'labels are')} {name!r} and counted as an empty cell; "
            "if that is a class, name it among --classes"
        )
        clean = ["" if label == name else label for label in clean]
    there = sorted({label for label in clean if label})
    odd = [repr(name) for name in there if name.lower() in MISSING and name not in (known or ())]
    if odd:
        notes.append(f"{listed(odd)} among the labels became a class; leave a cell empty for no label")
    classes = tuple(there) if known is None else known
    number = {label: i for i, label in enumerate(classes)}
    outside = [repr(label) for label in there if label not in number]
    if outside:
        raise EverylabelError(f"labels hold {listed(outside)}; expected classes {listed(list(classes))}")
    return np.array([number.get(label, UNLABELLED) for label in clean], dtype=np.int64), classes


def no_labels(n: int) -> np.ndarray:
    """Return the labels of n unlabelled items."""
    return np.full(n, UNLABELLED, dtype=np.int64)


def meant(new: Iterable[str], known: Iterable[str]) -> str:
    """Return a hint on existing classes that new ones resemble, and how to merge them; "" without any."""
    there = [*known]
    near = [(nearest(name, there), name) for name in islice(new, LOOKED_AT)]
    pairs = [f"{one!r} in place of {name!r}" for one, name in near if one and not _only_numbered(one, name)]
    return f"; did you mean {listed(pairs)}? Classes can be merged and removed on the page" if pairs else ""


def _only_numbered(one: str, other: str) -> bool:
    """Return whether names differ only in their numbers, as "level 1" and "level 2"."""
    return re.sub(r"\d+", "", one) == re.sub(r"\d+", "", other)


KEYS = "0123456789abijklortvwy"  # the page's shortcuts use the other letters


class ClassList(NamedTuple):
    """Class names in order, if given, and their details from a file, by name."""

    names: list[str] | None
    descriptions: dict[str, str]
    keys: dict[str, str]


class _Row(NamedTuple):
    name: str
    description: str = ""
    key: str = ""


def class_list(given: str | None, encoding: str | None = None) -> ClassList:
    """Return the classes from a comma-separated list or a CSV file."""
    if given is None:
        return ClassList(None, {}, {})
    try:
        if given.lower().endswith(".csv"):
            rows = _rows(given, encoding)
        else:
            rows = [_Row(name) for name in _parted(given)]
    except csv.Error as error:
        raise EverylabelError(
            f"--classes {given!r} cannot be read ({error}); expected comma-separated names, those that hold "
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
    """Return comma-separated column names as a list; [] for "none", None for all columns."""
    if given is None or given == "none":
        return None if given is None else []
    try:
        return [name for name in _parted(given) if name]
    except csv.Error as error:
        raise EverylabelError(
            f"--columns {given!r} cannot be read ({error}); expected comma-separated names, those that hold "
            "a comma in double quotes"
        ) from error


def _parted(given: str) -> list[str]:
    """Return comma-separated names; quotes protect commas."""
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
        found = ", ".join(there) if rows else "no rows"
        raise EverylabelError(
            f"--classes {given!r} has {found}; expected columns `name` and, if you like, `description` and "
            "`key`"
        )
    cells = [[(row.get(column) or "").strip() for column in _Row._fields] for row in rows]
    return [_Row(name, description, key.lower()) for name, description, key in cells]
