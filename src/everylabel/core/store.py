"""A posterior on disk: one .npz file of plain arrays and a JSON header; never pickle.

The header tells format, version, likelihood, prior precision, bias and class names. A file is
written beside its place and moved there when it is whole, so that a crash leaves the old one.
"""

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.arrays import Array, from_numpy, to_numpy
from everylabel.core.data import Buffer, Data
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior

FORMAT = "everylabel posterior"
VERSION = 1
_ARRAYS = ("mean", "cov", "class_cov")
_DATA = ("features", "labels", "weights", "label_sums")


def save(posterior: Posterior, path: str | os.PathLike[str], *, data: bool = True) -> None:
    """Write a posterior to `path` (.npz), with its class names and a version number.

    The labelled instances go with it, so that what is loaded learns as what was saved; with
    data=False they stay out, and so does method="exact" of what is loaded.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "likelihood": posterior.likelihood,
        "prior_precision": posterior.prior_precision,
        "bias": posterior.bias,
        "classes": None if posterior.classes is None else list(posterior.classes),
    }
    arrays = {name: getattr(posterior, name) for name in _ARRAYS}
    if data and posterior.data is not None:
        counted = posterior.data.counted(LIKELIHOODS[posterior.likelihood].targets)
        arrays |= {f"data_{name}": getattr(counted, name) for name in _DATA}
    arrays = {name: to_numpy(array) for name, array in arrays.items() if array is not None}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    write_atomically(Path(path), lambda file: np.savez(file, header=text, **arrays))


def write_atomically(path: Path, write: Any) -> None:
    """Call write(file) on a new file beside `path`, then put it in place in one move."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            try:
                write(file)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink()
                raise
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be written: {error.strerror or error}") from error


def load(path: str | os.PathLike[str], *, like: Array | None = None) -> Posterior:
    """Read a posterior that `save` wrote; arrays of `like`'s library and device, or NumPy's."""
    name = str(path)
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            stored = {key: file[key] for key in file.files}
        header = json.loads(stored.pop("header").tobytes())
    except OSError as error:
        raise EverylabelError(f"path {name!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile, zipfile.error) as error:
        raise EverylabelError(
            f"path {name!r} is damaged or no everylabel posterior ({error}); expected a file written by save"
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise EverylabelError(f"path {name!r} is no everylabel posterior; expected a file written by save")
    if header.get("version") != VERSION:
        raise EverylabelError(
            f"path {name!r} has version {header.get('version')!r}; this everylabel reads version {VERSION}: "
            "update everylabel, or save the posterior again"
        )
    return _posterior(header, stored, name, like)


def _posterior(
    header: dict[str, Any], arrays: dict[str, np.ndarray], name: str, like: Array | None
) -> Posterior:
    try:
        classes = header["classes"]
        posterior = Posterior(
            mean=arrays["mean"],
            cov=arrays["cov"],
            class_cov=arrays.get("class_cov"),
            likelihood=header["likelihood"],
            prior_precision=float(header["prior_precision"]),
            bias=bool(header["bias"]),
            classes=None if classes is None else tuple(map(str, classes)),
        )
        d, k = posterior.mean.shape
        known = posterior.likelihood in LIKELIHOODS
        shape = {"per_class": (k, d, d), "full": (k * d, k * d)}.get(posterior.likelihood, (d, d))
        finite = all(np.all(np.isfinite(array)) for array in arrays.values())
        if not known or posterior.cov.shape != shape or not finite or not _data_fits(arrays, d, k):
            raise ValueError("its arrays do not fit together")
    except (KeyError, TypeError, ValueError) as error:
        raise EverylabelError(
            f"path {name!r} is damaged ({error}); expected a file written by save"
        ) from error
    if like is not None:
        arrays = {key: from_numpy(array, like) for key, array in arrays.items()}
        posterior = posterior.replace(**{key: arrays[key] for key in _ARRAYS if key in arrays})
    if "data_features" not in arrays:
        return posterior
    features, labels, weights, label_sums = (arrays[f"data_{name}"] for name in _DATA)
    return posterior.replace(data=Data(Buffer(features, {}), labels, weights, label_sums))


def _data_fits(arrays: dict[str, np.ndarray], d: int, k: int) -> bool:
    """Return whether the labelled instances are whole, or not there at all."""
    shapes = {name: arrays[f"data_{name}"].shape for name in _DATA if f"data_{name}" in arrays}
    if not shapes:
        return True
    n = shapes.get("labels", (0,))[0]
    return shapes == {"features": (n, d), "labels": (n,), "weights": (n,), "label_sums": (d, k)}
