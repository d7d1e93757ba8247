"""A posterior on disk: one .npz file of plain arrays and a JSON header; never pickle.

The header holds format, version, likelihood, prior precision, bias and class names. A file is written under
a temporary name and renamed when it is complete, so a crash leaves the old one.
"""

import json
import os
import secrets
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from everylabel.core.arrays import Array, from_numpy, to_numpy
from everylabel.core.checks import check_positive, check_posterior
from everylabel.core.errors import EverylabelError
from everylabel.core.kernel import cholesky_or_none
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Buffer, Data, Posterior

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
    write_file(Path(path), header, arrays, follow=True)


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
        counted = posterior.data.flushed(LIKELIHOODS[posterior.likelihood].targets)
        arrays |= {f"data_{name}": getattr(counted, name) for name in _DATA}
    return header, {name: to_numpy(array) for name, array in arrays.items() if array is not None}


def write_file(
    path: Path,
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    *,
    mode: int | None = None,
    follow: bool = False,
) -> None:
    """Write a header and arrays as one .npz file."""
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    stored: dict[str, Any] = {"header": text, **arrays}
    write_atomically(path, lambda file: np.savez(file, **stored), mode=mode, follow=follow)


def write_atomically(path: Path, write: Any, mode: int | None = None, *, follow: bool = False) -> None:
    """Call write(file) on a new file in the same folder, then rename it to `path`.

    mode : the file's permissions; by default those of any new file
    follow : if `path` is a symbolic link, write the file it points to
    """
    path = path.resolve() if follow else path.absolute()
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with _nameless(path.parent) or part.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if not part.exists():  # any src_dir_fd makes os.link follow the link to the file itself
                os.link(f"/proc/self/fd/{file.fileno()}", part, src_dir_fd=file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask if mode is None else mode)
        part.replace(path)
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _nameless(folder: Path) -> Any:
    """Return a new file without a name, which a killed process does not leave behind; None if unsupported."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), "w+b")
    except OSError:  # not every file system supports it
        return None


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
        with path.open("rb") as stream:
            _check_stored(stream)
            with np.load(stream, allow_pickle=False) as file:
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


def _check_stored(stream: IO[bytes]) -> None:
    """Raise if a file is no zip archive or unpacks to more than its size: arrays are stored uncompressed."""
    if not zipfile.is_zipfile(stream):
        raise ValueError("no zip file")
    with zipfile.ZipFile(stream) as archive:
        size = unpacked_size(archive)
    if size > stream.seek(0, os.SEEK_END):
        raise ValueError("it unpacks to more than its stated size")
    stream.seek(0)


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
    """Return the posterior of a file; raise ValueError if header and arrays do not fit together."""
    classes = header["classes"]
    if classes is not None and not isinstance(classes, list):
        raise ValueError("its class names are no list")
    posterior = Posterior(
        mean=arrays["mean"],
        cov=arrays["cov"],
        class_cov=arrays.get("class_cov"),
        likelihood=header["likelihood"],
        prior_precision=check_positive(header["prior_precision"], "prior_precision"),
        bias=bool(header["bias"]),
        classes=None if classes is None else tuple(map(str, classes)),
    )
    d, k = posterior.mean.shape
    _check_arrays(posterior, arrays, d, k)
    if like is not None:
        known = {*_ARRAYS, *(f"data_{name}" for name in _DATA)}
        arrays = {key: from_numpy(array, like) for key, array in arrays.items() if key in known}
        posterior = posterior.replace(**{key: arrays[key] for key in _ARRAYS if key in arrays})
    if "data_features" not in arrays:
        return posterior
    features, labels, weights, label_sums = (arrays[f"data_{name}"] for name in _DATA)
    return posterior.replace(data=Data(Buffer(features, {}), labels, weights, label_sums))


def _check_arrays(posterior: Posterior, arrays: dict[str, np.ndarray], d: int, k: int) -> None:
    if (
        posterior.likelihood not in LIKELIHOODS
        or d < 1
        or (k != 1 if posterior.likelihood == "binary" else k < 1)
    ):
        raise ValueError("its likelihood and mean do not fit together")
    if posterior.classes is not None and len(posterior.classes) != posterior.n_classes:
        raise ValueError("its class names do not fit its mean")
    own = {"per_class": (k, d, d), "bernoulli_per_class": (k, d, d), "full": (k * d, k * d)}
    shapes = {"cov": own.get(posterior.likelihood, (d, d))}
    if posterior.likelihood == "matrix_normal":
        shapes["class_cov"] = (k, k)
    if f"data_{_DATA[0]}" in arrays:
        n = arrays["data_labels"].shape[0]
        shapes |= zip(
            (f"data_{name}" for name in _DATA),
            ((n, d), (n, k) if posterior.multi_label else (n,), (n,), (d, k)),
            strict=True,
        )
    known = ("cov", "class_cov", *(f"data_{name}" for name in _DATA))
    if shapes != {name: arrays[name].shape for name in known if name in arrays}:
        raise ValueError("its arrays do not fit together")
    for name in _ARRAYS:
        array = arrays.get(name)
        if array is not None and (array.dtype != np.float64 or not np.all(np.isfinite(array))):
            raise ValueError(f"its {name} holds other than finite numbers in double precision")
        if array is not None and name != "mean" and cholesky_or_none(array) is None:
            raise ValueError(f"its {name} is no covariance")


def total_memory() -> float:
    """Return this machine's memory in bytes; infinity if the system does not report it."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def unpacked_size(archive: zipfile.ZipFile) -> int:
    """Return the unpacked size that a zip archive declares; readers read no more of an entry than that."""
    return sum(entry.file_size for entry in archive.infolist())
