"""`load_dataset`: the paper's datasets by name, with features of their items if these are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.datasets import dataset, read_dataset
from everylabel.models.embedding.choose import knows_words
from everylabel.models.embedding.embed import embed


class Dataset(dataset.Dataset):
    """A dataset that can be embedded."""

    def embed(self, model: str | None = None, **options: Any) -> Dataset:
        """Return the dataset with features of its items, all splits by one model; see `everylabel.embed`."""
        if any(split.items is None for split in self.splits.values()):
            raise EverylabelError(
                f"{self.name} was read from features and has no items; expected its official files"
            )
        items = [item for split in self.splits.values() for item in split.items]
        features = embed(items, model, kind=self.kind, **options)
        ends = np.cumsum([len(split) for split in self.splits.values()])
        parts = np.split(features, ends[:-1])
        pairs = zip(self.splits.items(), parts, strict=True)
        splits = {name: replace(split, features=part) for (name, split), part in pairs}
        usual = "minilm" if self.kind == "text" and knows_words(None) else None
        return replace(self, splits=splits, model=model or usual)


def load_dataset(
    name: str,
    source: str | os.PathLike[str] | None = None,
    *,
    features: str | bool | None = None,
    download: bool = True,
    check: bool = True,
    progress: Callable[[int, int | None], object] | None = None,
) -> Dataset:
    """Return one of the paper's datasets (App. E), or digits, which ships with scikit-learn.

    Parameters
    ----------
    name : {"cifar10", "snacks", "dtd", "dbpedia", "banking77", "clinc150", "digits"}
        Which one.
    source : path or URL, optional
        A file of precomputed features (.npz), a folder that holds one (NAME*.npz) or the official
        files or archives, or another URL of the official archive. None looks in $EVERYLABEL_DATA,
        then in the cache folder, and downloads what is not there.
    features : str or True, optional
        Embed the items: by this model (see `everylabel.embed`), or by the default one.
    download : bool
        Whether the network may be used.
    check : bool
        Whether sums, class counts and sizes must be the published ones (sizes: official files only).
    progress : function, optional
        Called with bytes done and in all (None if unknown) while downloading.

    Examples
    --------
    >>> data = el.load_dataset("digits")
    >>> data.train.features.shape, data.test.features.shape
    ((1297, 64), (500, 64))
    """
    data = read_dataset(name, source, stored=not features, download=download, check=check, progress=progress)
    found = Dataset(data.name, data.kind, data.classes, data.splits, data.model)
    return found.embed(None if features is True else features) if features else found
