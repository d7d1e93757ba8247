"""Multi-label columns: lists in a cell, JSON lists, or one column of 0 and 1 per class.

Each distinct answer of such a column is one entry of `Items.classes`, written as JSON: a list of the item's
classes, or an object of 1 and 0 if not all classes were answered.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import is_missing, label_of
from everylabel.data.classes import UNLABELLED, Names, clean_name

SEPARATOR = ";"
SEPARATORS = ";|,"  # possible separators if none is given
YES, NO = ("1", "true", "yes", "y", "x"), ("0", "false", "no", "n", "")


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
    said = {name: _is_there(name, value) for name, value in cells.items() if not is_missing(value)}
    known = {clean_name(name): int(there) for name, there in said.items() if there is not None}
    if not known:
        return ""
    return json.dumps([name for name in known if known[name]] if len(known) == len(cells) else known)


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
    notes = []
    counts = Counter(label for label in labels if label)
    for separator in SEPARATORS:
        lists = [label for label in counts if separator in label]
        parts = {label: [part.strip() for part in label.split(separator)] for label in lists}
        alone = Counter(part for some in parts.values() for part in some) + Counter({*counts} - {*lists})
        shared = [label for label in lists if sum(alone[part] > 1 for part in parts[label]) > 1]
        if 2 * len(shared) > len(lists) and shared:
            notes.append(
                f"{sum(counts[label] for label in shared):,} labels look like lists of classes "
                f"({shared[0]!r}); each list is a class of its own here. If an item may have several "
                f"classes, begin with --multi-label --label-separator {separator!r}"
            )
            break
    return notes


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
