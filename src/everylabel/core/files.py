"""A posterior on disk: one .npz file of plain arrays and a JSON header; never pickle.

The header holds format, version, likelihood, prior precision, bias and class names. A file is written under
a temporary name and renamed when it is complete, so a crash leaves the old one.
"""

import json
import os
import secrets
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from everylabel.core.arrays import Array, from_numpy, to_numpy
from everylabel.core.checks import check_positive, check_posterior
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Data, Posterior

FORMAT = "everylabel posterior"
VERSION = 1
MEMORY_SHARE = 0.5  # share of this machine's memory that the content of one file may take
# what NumPy raises for a file that holds no array, or a damaged one
NO_ARRAY = (
    *(OSError, ValueError, EOFError, SyntaxError, TokenError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
_ARRAYS = ("mean", "cov", "class_cov")
_DATA = ("features", "labels", "weights", "label_sums")


def save(posterior: Posterior, path: str | os.PathLike[str], *, data: bool = True) -> None:
    """Write a posterior to `path` (.npz), with its class names and a version number.

    The file includes the labelled instances, so the loaded posterior learns as the saved one does. With
    data=False they are left out, and the loaded posterior cannot update with method="exact".

    Examples
    --------
    >>> el.save(post, "head.npz")
    >>> el.load("head.npz").n_classes
    10
    """
    header, arrays = packed(posterior, data=data)
    write_file(Path(path), header, arrays, follow_links=True)


def packed(posterior: Posterior, *, data: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and arrays of a posterior's file."""
    check_posterior(posterior)
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
        arrays |= {f"data_{name}": getattr(posterior.data, name) for name in _DATA}
    return header, {name: to_numpy(array) for name, array in arrays.items() if array is not None}


def write_file(
    path: Path,
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    *,
    mode: int | None = None,
    follow_links: bool = False,
) -> None:
    """Write a header and arrays as one .npz file."""
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    stored: dict[str, Any] = {"header": text, **arrays}
    write_atomically(path, lambda file: np.savez(file, **stored), mode=mode, follow_links=follow_links)


def write_atomically(path: Path, write: Any, mode: int | None = None, *, follow_links: bool = False) -> None:
    """Call write(file) on a new file in the same folder, then rename it to `path`.

    mode : the file's permissions; by default those of any new file
    follow_links : if `path` is a symbolic link, write the file it points to
    """
    path = path.resolve() if follow_links else path.absolute()
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with part.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask if mode is None else mode)
        part.replace(path)
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], *, like: Array | None = None) -> Posterior:
    """Read a posterior written by `save`, as NumPy arrays or arrays of `like`'s library and device.

    Examples
    --------
    >>> el.save(post, "head.npz")
    >>> loaded = el.load("head.npz")
    >>> bool((loaded.mean == post.mean).all())
    True
    """
    header, arrays = read_file(Path(path), FORMAT, "posterior", "save")
    return unpacked(Path(path), header, arrays, like)


def read_file(path: Path, form: str, what: str, writer: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and arrays of a file of format `form`; raise an error if it is another file."""
    name, expected = str(path), f"expected a file written by {writer}"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            entries: Any = file.zip.infolist()
            if sum(entry.file_size for entry in entries) > path.stat().st_size:
                raise ValueError("it unpacks to more than its size; our files are not compressed")
            header: dict[str, Any] = dict(json.loads(file["header"].tobytes()))
            ours = (header.get("format"), header.get("version")) == (form, VERSION)
            arrays = {key: file[key] for key in file.files if ours and key != "header"}
    except OSError as error:
        raise EverylabelError(f"path {name!r} cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise EverylabelError(f"path {name!r} is damaged or no everylabel {what}; {expected}") from error
    if header.get("format") != form:
        raise EverylabelError(
            f"path {name!r} is no everylabel {what} (but {str(header.get('format'))!r:.40}); {expected}"
        )
    if header.get("version") != VERSION:
        raise EverylabelError(
            f"path {name!r} has version {header.get('version')!r}; this everylabel reads version {VERSION}: "
            f"update everylabel, or save the {what} again"
        )
    return header, arrays


def unpacked(
    path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray], like: Array | None = None
) -> Posterior:
    """Check a file's header and arrays and return their posterior."""
    try:
        return _posterior(header, arrays, like)
    except _DAMAGE as error:
        raise EverylabelError(
            f"path {str(path)!r} is damaged ({error}); expected a file that everylabel wrote"
        ) from error


_DAMAGE = (*NO_ARRAY, KeyError, TypeError, AttributeError, RuntimeError, NotImplementedError)


def _posterior(header: dict[str, Any], arrays: dict[str, np.ndarray], like: Array | None) -> Posterior:
    """Return the posterior of a file."""
    classes = header["classes"]
    posterior = Posterior(
        mean=arrays["mean"],
        cov=arrays["cov"],
        class_cov=arrays.get("class_cov"),
        likelihood=header["likelihood"],
        prior_precision=check_positive(header["prior_precision"], "prior_precision"),
        bias=bool(header["bias"]),
        classes=None if classes is None else tuple(map(str, classes)),
    )
    if posterior.likelihood not in LIKELIHOODS:
        raise ValueError(f"its likelihood is {posterior.likelihood!r}")
    if like is not None:
        known = {*_ARRAYS, *(f"data_{name}" for name in _DATA)}
        arrays = {key: from_numpy(array, like) for key, array in arrays.items() if key in known}
        posterior = posterior.replace(**{key: arrays[key] for key in _ARRAYS if key in arrays})
    if "data_features" not in arrays:
        return posterior
    features, labels, weights, label_sums = (arrays[f"data_{name}"] for name in _DATA)
    return posterior.replace(data=Data(features, labels, weights, label_sums))


def total_memory() -> float:
    """Return this machine's memory in bytes; infinity if the system does not report it."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def free_memory() -> float:
    """Return the bytes of memory that a new process may use; infinity if the system does not report them."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
    return float("inf")
