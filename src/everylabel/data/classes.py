"""Class names: cleaning and checking them, reading `--classes`, and turning labels into class numbers.

Multi-label columns hold lists in a cell, JSON lists, or one column of 0 and 1 per class. Each distinct answer
of such a column is one entry of `Items.classes`, written as JSON: a list of the item's classes, or an object
of 1 and 0 if not all classes were answered.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, and_more, counted, listed, nearest
from everylabel.data.cells import is_missing, label_of

UNLABELLED = -1
HINTS = 5  # similar names that a note shows
LOOKED_AT = 12  # new names that are compared with existing ones, to detect typing errors
MOST_CLASSES = 1000
LONGEST_NAME = 200
JOINERS = str.maketrans("", "", "\u200c\u200d")  # invisible parts of Persian words and of emoji
OPTIONS = ": check --label-column, --import-label-column or --classes"
Names = tuple[str, ...]
SEPARATOR = ";"
SEPARATORS = ";|,"  # possible separators if none is given
YES, NO = ("1", "1.0", "true", "yes", "y", "x"), ("0", "0.0", "false", "no", "n", "")


def clean_name(name: str, hint: str = OPTIONS) -> str:
    """Return a class name with single spaces; an error says what is wrong and, by the hint, what to do."""
    clean = " ".join(name.split())
    shown = clean.translate(JOINERS)
    if not shown or len(clean) > LONGEST_NAME or not shown.isprintable():
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
    hints = and_more(pairs[:HINTS], len(pairs))
    return f"; did you mean {hints}? Classes can be merged and removed on the page" if pairs else ""


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
    with _naming("--classes", given):
        rows = (
            _rows(given, encoding) if given.lower().endswith(".csv") else map(_Row, _split_at_commas(given))
        )
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
    with _naming("--columns", given):
        return [name for name in _split_at_commas(given) if name]


@contextmanager
def _naming(option: str, given: str) -> Iterator[None]:
    """Name the option in errors of its value."""
    try:
        yield
    except csv.Error as error:
        raise EverylabelError(
            f"{option} {given!r} cannot be read ({error}); expected comma-separated names, those that hold "
            "a comma in double quotes"
        ) from error


def _split_at_commas(given: str) -> list[str]:
    """Return comma-separated names; quotes protect commas."""
    lines = csv.reader(io.StringIO(given), strict=True, skipinitialspace=True)
    return [name.strip() for line in lines for name in line]


def _rows(given: str, encoding: str | None) -> list[_Row]:
    """Return the rows of a CSV file."""
    path = Path(given)
    if not path.is_file():
        raise EverylabelError(f"--classes {given!r} does not exist; expected a CSV file with a column `name`")
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
    long = [repr(row["name"]) for row in rows if any(cell.strip() for cell in row.get(None) or ())]
    if long:
        raise EverylabelError(
            f"--classes {given!r} has rows with more cells than the header's {len(there)}: {listed(long)}; "
            "put a name or description that holds ',' in double quotes"
        )
    cells = [[(row.get(column) or "").strip() for column in _Row._fields] for row in rows]
    return [_Row(name, description, key.lower()) for name, description, key in cells]


class Named(NamedTuple):
    """Names of an item's present and absent classes; absent=None means all others."""

    present: list[str]
    absent: list[str] | None = None


def list_text(cell: Any, separator: str = SEPARATOR) -> str:
    """Return the classes in a cell as JSON; "" for an empty cell, "[]" for an empty list."""
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if not isinstance(cell, list | tuple | set):
        if is_missing(cell):
            return ""
        text = label_of(cell).strip()
        if not text:
            return ""
        found = _json(text)
        if isinstance(found, dict):  # as exports write an answer about some classes
            known = {clean_name(name): _is_there(name, value) for name, value in found.items()}
            return json.dumps({name: int(there) for name, there in known.items() if there is not None})
        cell = _json_list(text)
        if cell is None:
            cell = text.split(separator)
    names = [label_of(name) for name in cell]
    return json.dumps(list(dict.fromkeys(clean_name(name) for name in names if name.strip())))


def indicator_text(cells: Mapping[str, Any]) -> str:
    """Return a row of 0 and 1, one column per class, as JSON; "" if all cells are empty."""
    filled = {name: _is_there(name, value) for name, value in cells.items() if not is_missing(value)}
    answers = {clean_name(name): int(there) for name, there in filled.items() if there is not None}
    if not answers:
        return ""
    return json.dumps([name for name in answers if answers[name]] if len(answers) == len(cells) else answers)


def _is_there(name: str, value: Any) -> bool | None:
    text = label_of(value).strip().casefold()
    if not text:
        return None
    if text not in YES and text not in NO:
        raise EverylabelError(
            f"label column {name!r} holds {text!r:.40}; expected 1 or 0 in each of several label columns"
        )
    return text in YES


def names_in(text: str) -> Named:
    """Return the classes of a label: parsed if it is JSON, else the one class of that name."""
    found = _json(text)
    if isinstance(found, list):
        return Named([str(name) for name in found])
    if isinstance(found, dict):
        return Named([c for c in found if found[c]], [c for c in found if not found[c]])
    return Named([text])


def is_list(text: str) -> bool:
    """Return whether a label is the JSON of a multi-label answer."""
    return isinstance(_json(text), list | dict)


def class_names_in(labels: Iterable[str]) -> list[str]:
    """Return all class names in labels, in order of first appearance."""
    found = (names_in(text) for text in labels)
    return list(dict.fromkeys(name for one in found for name in (*one.present, *(one.absent or ()))))


def label_sets(texts: Iterable[str], known: Names | None) -> tuple[np.ndarray, Names]:
    """Return label numbers and the distinct answers that they index; refuse classes outside `known`."""
    labels = list(texts)
    there = sorted({text for text in labels if text})
    names = class_names_in(there)
    outside = [repr(name) for name in names if known is not None and name not in known]
    if outside:
        raise EverylabelError(f"labels hold {listed(outside)}; expected classes {listed(list(known or ()))}")
    classes = (*(sorted(names) if known is None else known), *there)
    number = {text: i for i, text in enumerate(classes)}
    return np.array([number.get(text, UNLABELLED) for text in labels], dtype=np.int64), classes


def odd_labels(labels: Sequence[str]) -> list[str]:
    """Return notes if a single-label column seems to hold lists, else []."""
    counts = Counter(label for label in labels if label)
    shared, option = [label for label in counts if _json_list(label) is not None], ""
    if 2 * len(shared) <= len(counts):
        shared, option = _separated(counts)
    if not shared:
        return []
    return [
        f"{sum(counts[label] for label in shared):,} labels look like lists of classes "
        f"({shared[0]!r}); each list is a class of its own here. If an item may have several "
        f"classes, begin with --multi-label{option}"
    ]


def _separated(labels: Collection[str]) -> tuple[list[str], str]:
    """Return the labels that join classes of others by a separator, and the option that names it."""
    for separator in SEPARATORS:
        parts = {label: [part.strip() for part in label.split(separator)] for label in labels}
        uses = Counter(part for some in parts.values() for part in some)
        lists = [label for label in labels if separator in label]
        shared = [label for label in lists if sum(uses[part] > 1 for part in parts[label]) > 1]
        if 2 * len(shared) > len(lists):
            return shared, f" --label-separator {separator!r}"
    return [], ""


def _json(text: str) -> Any:
    if text[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json_list(text: str) -> list[Any] | None:
    """Return the list in a cell, written as JSON or as Python prints it; None if it is not a list."""
    found = _json(text)
    if found is None and text.startswith("[") and text.endswith("]"):
        found = _json(text.replace("'", '"'))
    return found if isinstance(found, list) else None
