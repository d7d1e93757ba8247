"""Features that are arrays already: .npy, .npz, and columns of Hugging Face datasets."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError

FEATURES, LABELS = ("X", "features", "embeddings"), ("y", "labels")


def read_arrays(path: Path) -> tuple[np.ndarray, Any, tuple[str, ...] | None, list[str]]:
    """Return features (memory-mapped from a .npy file), labels, class names and ids."""
    try:
        if path.suffix.lower() == ".npy":
            stored: dict[str, np.ndarray] = {"X": np.load(path, mmap_mode="r", allow_pickle=False)}
        else:
            with np.load(path, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise EverylabelError(f"path {str(path)!r} is empty or damaged ({error}); expected arrays") from error
    features = next((stored[name] for name in FEATURES if name in stored), None)
    if features is None or features.ndim != 2 or features.dtype.kind not in "fiu" or not len(features):
        found = ", ".join(f"{name} {array.shape}" for name, array in stored.items())
        raise EverylabelError(
            f"path {str(path)!r} holds {found}; expected numbers X (n, d), one row an instance"
        )
    n = len(features)
    labels = next((stored[name] for name in LABELS if name in stored), None)
    ids = stored.get("ids", np.arange(n))
    if any(array is not None and array.shape != (n,) for array in (labels, ids)):
        raise EverylabelError(f"path {str(path)!r} holds labels or ids of another length than X's {n} rows")
    return features, *_named(path, labels, stored.get("classes"), n), [str(name) for name in ids.tolist()]


def class_names(source: Any, name: str) -> tuple[str, ...] | None:
    """Return the names, in their order, of a Hugging Face dataset's column of class numbers."""
    features = getattr(source, "features", None)
    names = getattr(features.get(name), "names", None) if isinstance(features, dict) else None
    return None if names is None else tuple(str(label).strip() for label in names)


def dataset_column(dataset: Any, name: str) -> list[Any]:
    """Return a column of a Hugging Face dataset, class numbers as their names."""
    values, names = list(dataset[name]), class_names(dataset, name)
    if names is None:
        return values
    return [None if value is None or value < 0 else names[value] for value in values]


def _named(path: Path, labels: Any, classes: Any, n: int) -> tuple[Any, tuple[str, ...] | None]:
    if labels is None:
        return [None] * n, None
    if labels.dtype.kind not in "iu":
        return labels.tolist(), None
    k = int(labels.max()) + 1 if classes is None else len(classes)
    if labels.min() < -1 or labels.max() >= k:
        raise EverylabelError(
            f"path {str(path)!r} holds labels from {labels.min()} to {labels.max()} and {k} classes; "
            f"expected -1 (not labelled) to {k - 1}"
        )
    return labels, tuple(str(name) for name in (range(k) if classes is None else classes))
