"""Names of classes, and labels as their numbers: what a file, an option or a person may call a class."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, listed, nearest
from everylabel.data.cells import label_of

UNLABELLED = -1
LOOKED_AT = 12  # new names of which others are looked for that they may have been meant to be
MOST_CLASSES = 1000
LONGEST_NAME = 200
OPTIONS = ": check --label-column, --import-label-column or --classes"
Names = tuple[str, ...]


def clean_name(name: str, hint: str = OPTIONS) -> str:
    """Return a class's name with single spaces, or say what is wrong with it and, by a hint, what to do."""
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
    """Return the class names a user passed, without white space around them, or say what is wrong."""
    if classes is None:
        return None
    names = () if isinstance(classes, str) else tuple(label_of(name).strip() for name in classes)
    if not names or not all(names) or len(set(names)) < len(names):
        raise EverylabelError(f"classes is {classes!r:.80}; expected a list of different names")
    return names


def label_numbers(raw: Iterable[Any], known: Names | None, notes: list[str]) -> tuple[np.ndarray, Names]:
    """Return class numbers and class names; stray white space is taken off, counted and noted."""
    texts = [label_of(label) for label in raw]
    clean = [text.strip() for text in texts]
    stray = sum(a != b for a, b in zip(texts, clean, strict=True))
    if stray:
        notes.append(f"{stray} label(s) had white space around them, which was taken off")
    there = sorted({label for label in clean if label})
    classes = tuple(there) if known is None else known
    number = {label: i for i, label in enumerate(classes)}
    outside = [repr(label) for label in there if label not in number]
    if outside:
        raise EverylabelError(f"labels hold {listed(outside)}; expected classes {listed(list(classes))}")
    return np.array([number.get(label, UNLABELLED) for label in clean], dtype=np.int64), classes


def no_labels(n: int) -> np.ndarray:
    """Return the labels of items that have none."""
    return np.full(n, UNLABELLED, dtype=np.int64)


def meant(new: Iterable[str], known: Iterable[str]) -> str:
    """Return what new classes were probably meant to be, and how they go again; "" if they are like none."""
    there = [*known]
    near = [(nearest(name, there), name) for name in islice(new, LOOKED_AT)]
    pairs = [f"{one!r} in place of {name!r}" for one, name in near if one and not _only_numbered(one, name)]
    return f"; did you mean {listed(pairs)}? Classes can be merged and removed on the page" if pairs else ""


def _only_numbered(one: str, other: str) -> bool:
    """Return whether names differ by their numbers alone, as "level 1" and "level 2"."""
    return re.sub(r"\d+", "", one) == re.sub(r"\d+", "", other)
