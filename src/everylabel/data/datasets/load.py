"""A dataset by its name: from a file of features, a folder of official files, the cache or its URL.

A file of features is one .npz with X_train, y_train, X_test, ... and classes. `model` in it, or the file's
name (NAME_minilm384.npz), names the model that made them.
"""

import hashlib
import os
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data.cache import cache_folder
from everylabel.data.datasets.catalog import CATALOG, NAMES, Entry, File, dataset_key, digits_dataset
from everylabel.data.datasets.dataset import Dataset, Split
from everylabel.data.datasets.fetch import SUFFIXES, NotThere, Progress, check_sum, fetch, unpacked

SHORT = ("minilm", "bert")  # names of models of texts, as `embed` knows them


def read_dataset(
    name: str,
    source: str | os.PathLike[str] | None = None,
    *,
    stored: bool = True,
    download: bool = True,
    check: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Return a dataset's splits; see `models/embedding/datasets.py: load_dataset` for the arguments.

    stored : whether to prefer a file of precomputed features
    """
    key = dataset_key(name)
    if key is None:
        raise EverylabelError(f"name is {name!r}; expected one of {', '.join(NAMES)}")
    if key == "digits":
        return digits_dataset()
    entry, home = CATALOG[key], cache_folder() / "datasets" / key
    if source is not None and "://" in str(source):
        folder = cache_folder() / "sources" / hashlib.sha256(str(source).encode()).hexdigest()[:16]
        name = File(str(source)).name
        known = {official.name: official.sha256 for official in entry.files} if check else {}
        return _read(key, fetch(str(source), folder / name, known.get(name), progress), check)
    places = [home] if source is None else [Path(source)]
    if source is None and os.environ.get("EVERYLABEL_DATA"):
        places.insert(0, Path(os.environ["EVERYLABEL_DATA"]))
    for place in places:
        found = _look(key, place, stored, check)
        if found is not None:
            return found
    if source is not None:
        wanted = ", ".join((f"{key}*.npz", *(official.name for official in entry.files)))
        raise EverylabelError(f"source {str(source)!r} has no {key}; expected in it one of {wanted}")
    if not download:
        wanted = ", ".join(f"{official.name} ({official.url})" for official in entry.files)
        raise EverylabelError(f"{key} is not here and download=False; put {wanted} into {str(home)!r}")
    for official in entry.files:
        fetch(official.url, home / official.name, official.sha256, progress)
    return _read(key, home, check)


def _look(key: str, place: Path, stored: bool, check: bool) -> Dataset | None:
    """Return the dataset if it is in this place, as features (if allowed) or as official files."""
    if place.is_file():
        return _read(key, place, check)
    files = sorted(place.glob(f"{key}*.npz")) if stored else []
    if len(files) > 1:
        raise EverylabelError(f"source {str(place)!r} has {', '.join(p.name for p in files)}; pass one file")
    if files:
        return _read(key, files[0], check)
    for folder in (place / key, place):
        with suppress(NotThere):
            return _read(key, folder, check)
    return None


def _read(key: str, path: Path, check: bool) -> Dataset:
    """Return the dataset in a features file, an archive, or a folder of official files."""
    entry = CATALOG[key]
    if path.suffix == ".npz":
        data = read_features(path, key, entry.kind)
        if check:
            _check_classes(data, path, entry.n_classes)
        return data
    if path.is_file() and not path.name.endswith(SUFFIXES):
        path = path.parent
    folder = path
    sums = {official.name: official.sha256 for official in entry.files}
    for file in [path] if path.is_file() else [path / name for name in sums]:
        if file.is_file():
            if check:
                check_sum(file, sums.get(file.name))
            folder = unpacked(file) if file.name.endswith(SUFFIXES) else folder
    data = entry.read(folder)
    if check:
        _check_sizes(data, entry)
    return data


def _check_classes(data: Dataset, path: Path, n_classes: int) -> None:
    """Warn if a file of features has fewer classes than the dataset; raise if it has more."""
    found = f"path {str(path)!r} has {len(data.classes)} classes and {data.name} {n_classes}"
    if len(data.classes) > n_classes:
        raise EverylabelError(f"{found}; expected features of {data.name} (check=False accepts it)")
    if len(data.classes) < n_classes:
        warnings.warn(f"{found}: it is a subset", EverylabelWarning, stacklevel=6)


def _check_sizes(data: Dataset, entry: Entry) -> None:
    """Raise if classes or sizes differ from the published ones."""
    anyway = "(check=False accepts it)"
    if len(data.classes) != entry.n_classes:
        raise EverylabelError(
            f"{data.name} has {len(data.classes)} classes; expected {entry.n_classes} {anyway}"
        )
    for part, size in entry.sizes.items():
        split = data[part]
        if len(split) != size:
            raise EverylabelError(
                f"{data.name} has {len(split)} instances in {part}; expected {size} {anyway}"
            )


def read_features(path: Path, name: str, kind: str) -> Dataset:
    """Return a dataset whose splits have features and labels."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise EverylabelError(f"path {str(path)!r} is damaged or not an .npz file ({error})") from error
    names = [key.removeprefix("X_") for key in arrays if key.startswith("X_")]
    if "train" not in names or "classes" not in arrays:
        raise EverylabelError(
            f"path {str(path)!r} holds {', '.join(arrays)}; expected X_train, y_train, X_test, y_test "
            "and classes"
        )
    classes = tuple(str(label) for label in arrays["classes"].tolist())
    splits = {}
    for part in names:
        features = arrays[f"X_{part}"]
        labels = arrays.get(f"y_{part}", np.full(len(features), -1))
        if features.ndim != 2 or labels.shape != features.shape[:1]:
            raise EverylabelError(
                f"path {str(path)!r} has X_{part} {features.shape} and y_{part} {labels.shape}; "
                "expected (n, d) and (n,)"
            )
        if len(labels) and not -1 <= labels.min() <= labels.max() < len(classes):
            raise EverylabelError(
                f"path {str(path)!r} has labels {labels.min()} to {labels.max()} in y_{part}; expected "
                f"-1 to {len(classes) - 1}"
            )
        splits[part] = Split(np.asarray(labels, dtype=np.int64), features=features)
    return Dataset(name, kind, classes, splits, _model(arrays, path))


def _model(arrays: dict[str, np.ndarray], path: Path) -> str | None:
    """Return the name of the model that made the features, if known."""
    if "model" in arrays:
        return str(arrays["model"])
    parts = [part.rstrip("0123456789") for part in path.stem.split("_")[1:]]
    return next((name for name in parts if name in SHORT), None)
