"""Precomputed features: one .npz file with X_train, y_train, X_test, ... and classes.

Which model made them is told by `model` in it, or by the file's name: NAME_minilm384.npz.

A file written by np.savez (not compressed) is memory-mapped: it is open at once, however large.
"""

import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.datasets.dataset import Dataset, Split

SHORT = ("minilm", "bert")  # names of models of texts, as `embed` knows them


def read_features(path: Path, name: str, kind: str) -> Dataset:
    """Return a dataset whose splits have features and labels."""
    try:
        arrays = open_npz(path)
    except (OSError, ValueError, EOFError, struct.error, zipfile.BadZipFile) as error:
        raise EverylabelError(f"path {str(path)!r} is damaged or no .npz file ({error})") from error
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
    """Return the name of the model that made the features, if it is told."""
    if "model" in arrays:
        return str(arrays["model"])
    told = [part.rstrip("0123456789") for part in path.stem.split("_")[1:]]
    return next((name for name in told if name in SHORT), None)


def open_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file: memory-mapped if stored, read if compressed."""
    arrays: dict[str, np.ndarray] = {}
    with (
        zipfile.ZipFile(path) as archive,
        np.load(path, allow_pickle=False) as loaded,
        path.open("rb") as file,
    ):
        for info in archive.infolist():
            key = info.filename.removesuffix(".npy")
            if info.compress_type != zipfile.ZIP_STORED:
                arrays[key] = loaded[key]
                continue
            file.seek(info.header_offset + 26)
            name_length, extra_length = struct.unpack("<HH", file.read(4))
            file.seek(info.header_offset + 30 + name_length + extra_length)
            arrays[key] = _mapped(path, file)
    return arrays


def _mapped(path: Path, file: BinaryIO) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if 0 in shape:
        return np.empty(shape, dtype)
    offset = file.tell()
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")
