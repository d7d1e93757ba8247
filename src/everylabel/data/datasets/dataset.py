"""A dataset: named splits of items, labels and features."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.data.cache import make_folder


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a dataset: n labels, with items, features or both.

    labels (n,) class numbers, -1 where there is no class; items texts, image paths or pixels
    (n, h, w, 3); features (n, d).
    """

    labels: np.ndarray
    items: Any = None
    features: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset's splits by name: train, test, and where there are val, oos_train, oos_val, oos_test."""

    name: str
    kind: str  # of the items: "text" or "image"
    classes: tuple[str, ...]
    splits: dict[str, Split] = field(default_factory=dict)
    model: str | None = None  # the model that made the features, if known

    def __getitem__(self, split: str) -> Split:
        if split not in self.splits:
            raise EverylabelError(f"split is {split!r}; {self.name} has {', '.join(self.splits)}")
        return self.splits[split]

    @property
    def train(self) -> Split:
        return self["train"]

    @property
    def test(self) -> Split:
        return self["test"]

    @property
    def val(self) -> Split:
        return self["val"]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the features to an .npz file that `load_dataset(name, path)` reads."""
        arrays: dict[str, Any] = {"classes": np.array(self.classes)}
        arrays |= {} if self.model is None else {"model": np.array(self.model)}
        for name, split in self.splits.items():
            if split.features is None:
                raise EverylabelError(f"split {name!r} has no features; call .embed() first")
            arrays |= {f"X_{name}": split.features, f"y_{name}": split.labels}
        make_folder(Path(path).parent)
        write_atomically(Path(path), lambda file: np.savez(file, **arrays), follow_links=True)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(split)}" for name, split in self.splits.items())
        return f"Dataset({self.name!r}, {len(self.classes)} classes: {sizes})"


def numbered(labels: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    """Return class numbers of names; -1 for a name that is no class."""
    number = {name: i for i, name in enumerate(classes)}
    return np.array([number.get(label, -1) for label in labels], dtype=np.int64)
