"""Datasets by name: their training items, with the true labels that a simulation needs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.classes import no_labels
from everylabel.data.datasets import read_dataset
from everylabel.data.datasets.digits import CLASSES, DARKEST, read_digits
from everylabel.data.digests import features_digest, image_digests, text_digests
from everylabel.data.display import Display, Images, Pixels, Rows, Texts
from everylabel.data.items import Items
from everylabel.data.options import Options


def read_named(name: str, options: Options) -> Items:
    """Return a dataset's training split, whose true labels are known; nothing is downloaded."""
    found = _digits() if name == "digits" else _training_split(name, options.model)
    if options.classes is not None and options.classes != found.classes:
        raise EverylabelError(f"--classes is for own data; {name} has {listed(list(found.classes), 12)}")
    return found


def _digits() -> Items:
    ink, labels = read_digits()
    ids = [str(i) for i in range(len(labels))]
    pixels = 255 - (ink * 15.9375).astype(np.uint8).reshape(-1, 8, 8)
    features = (ink / DARKEST).astype(np.float32)
    return Items(
        pixels,
        "image",
        ids,
        no_labels(len(ids)),
        CLASSES,
        features=features,
        display=Pixels(pixels, ids),
        digests=[features_digest(features)],
        truth=labels,
    )


def _training_split(name: str, model: str | None) -> Items:
    """Return the training items; of texts that came as features, the model that made them, unless given."""
    data = read_dataset(name, download=False)
    split = data.train
    content = split.items if split.items is not None else _official(name, split.labels)
    ids = [str(i) for i in range(len(split))]
    unknown = model is not None or data.model is None or data.kind != "text" or split.features is None
    return Items(
        split.features if content is None else content,
        "features" if content is None else data.kind,
        ids,
        no_labels(len(split)),
        data.classes,
        features=split.features,
        display=_display(data.kind, content, ids),
        digests=_digests(split.features if split.features is not None else content, ids, data.kind),
        truth=split.labels,
        chosen={} if unknown else {"model": str(data.model)},
    )


def _official(name: str, labels: np.ndarray) -> Any:
    """Return the items of a dataset whose features came from a file, if its official files are there too."""
    place = Path(os.environ.get("EVERYLABEL_DATA", "")) / "official" / name
    if not place.is_dir():
        return None
    try:
        split = read_dataset(name, place, download=False).train
    except EverylabelError:
        return None
    return split.items if np.array_equal(split.labels, labels) else None


def _display(kind: str, content: Any, ids: Sequence[str]) -> Display:
    if content is None:
        return Rows(ids)
    if kind == "text":
        return Texts(content)
    if isinstance(content, np.ndarray):
        return Pixels(content, ids)
    return Images(content, [str(path) for path in content])


def _digests(content: Any, ids: Sequence[str], kind: str) -> Sequence[str]:
    if isinstance(content, np.ndarray):
        return [features_digest(content)]
    return text_digests(content) if kind == "text" else image_digests(content, ids)
