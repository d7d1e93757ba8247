"""The effect of class names after two labels per class: no names, true names, shuffled names, and codes.

Labels are drawn at random, two of each class, the same for all four. The page's own choice might give four
labels of two classes, and chance would hide the effect of the names.
"""

from pathlib import Path

import numpy as np

from benchmarks.labels.chosen import ours
from benchmarks.labels.curve import Point
from benchmarks.labels.sets import FILES, Data, has_words, load, vectors

A_CLASS = 2
FIELDS = ("set", "seed", "names")
KINDS = ("none", "true", "shuffled", "codes")
SETS = tuple(filter(has_words, FILES))


def trust(name: str, seed: int, kind: str, folder: Path) -> Point:
    """Return the accuracy with one kind of names."""
    data = load(name, folder, seed)
    labels = some_of_each(data.y, data.k, A_CLASS, np.random.default_rng([seed, 5]))
    head = ours(data._replace(names=_told(data, kind, seed)))
    return head.point(head.trained(labels), np.array(list(labels)))


def some_of_each(y: np.ndarray, k: int, n: int, rng: np.random.Generator) -> dict[int, int]:
    """Return n rows of each class with their labels, or as many as there are."""
    return {int(i): c for c in range(k) for i in rng.permutation(np.flatnonzero(y == c))[:n]}


def _told(data: Data, kind: str, seed: int) -> np.ndarray | None:
    assert data.names is not None
    if kind == "none":
        return None
    if kind == "codes":
        return vectors(tuple(f"c{i + 1}" for i in range(data.k)))
    return data.names if kind == "true" else np.roll(data.names, 1 + seed % (data.k - 1), axis=0)
