"""`embed`: items become features, chunk by chunk, each chunk cached by its content and the model.

A run that was stopped finds its finished chunks again, and so does one on a longer list. With `out`
the rows go straight into a .npy file and come back memory-mapped: a million rows need no more
memory than one chunk.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from everylabel.core.checks import check_choice, check_count
from everylabel.core.errors import EverylabelError, EverylabelWarning, listed
from everylabel.core.files import NO_ARRAY, VERSION, read_file, write_atomically, write_file
from everylabel.data.cache import cache_folder, make_folder
from everylabel.models.embedding.backend import Backend
from everylabel.models.embedding.choose import choose, kind_of
from everylabel.models.embedding.chunks import Chunks
from everylabel.models.embedding.images import Pixels
from everylabel.models.embedding.texts import Tfidf


def embed(
    items: Any,
    model: str | None = None,
    *,
    kind: str | None = None,
    out: str | os.PathLike[str] | None = None,
    dtype: str = "float32",
    batch_size: int = 32,
    device: str | None = None,
    cache: bool = True,
    progress: Callable[[int], Any] | None = None,
    fit: str | os.PathLike[str] | None = None,
    fit_out: str | os.PathLike[str] | None = None,
    trust_model_code: bool = False,
) -> np.ndarray:
    """Return features (n, d) of texts, images or a table; one row per item.

    Parameters
    ----------
    items : list or other iterable, DataFrame, or path of a CSV or Parquet file
        Texts; image paths, PIL images or arrays of pixels; or a table.
    model : str, optional
        A local folder or hub name; see `models/embedding/choose.py` for all the forms. None takes
        all-MiniLM-L6-v2 for texts and DINOv2 small for images when the extras are installed, and
        says so when it falls back to TF-IDF + SVD or to pixels + PCA.
    kind : {"text", "image", "table"}, optional
        The kind of the items, if items and model leave it open. A list of strings counts as images if a
        sample of them all end like image files and the first one exists.
    out : path, optional
        A .npy file to write; the result is then memory-mapped.
    dtype : {"float32", "float16"}
        Of the result.
    batch_size, device
        How many items go through the model at once, and where.
    cache : bool
        Keep finished chunks in $EVERYLABEL_CACHE/embeddings (or the platform's cache folder).
    progress : function, optional
        Called with the number of rows done so far: 0 when the work begins.
    fit : path, optional
        A saved fit of TF-IDF or pixels (a project's embedder.npz, or a file of `fit_out`). New items then
        get features comparable to the earlier ones; without it the encoder is fitted on the new items.
    fit_out : path, optional
        An .npz file for the fit of TF-IDF or pixels; pretrained models write none.
    trust_model_code : bool
        Run code that a model brings; without it such a model is refused.

    An image that cannot be read becomes a row of NaN; a warning counts and lists them.

    Examples
    --------
    >>> texts = ["my card is lost", "send me money", "where is my card"]
    >>> el.embed(texts, "tfidf").shape  # words, counted; without a name: a language model
    (3, 15)
    """
    check_choice(dtype, "dtype", ["float32", "float16"])
    if out is not None:
        check_out(out)
    batch_size = check_count(batch_size, "batch_size")
    source = Chunks(items, kind, kind_of(model))
    if fit is not None:
        backend: Backend = load_fit(Path(fit), source.kind, model)
    else:
        how: dict[str, Any] = {"batch_size": batch_size, "device": device, "trust_code": trust_model_code}
        backend = choose(source.kind, model, source.sample, **how)
    if fit_out is not None:
        save_fit(backend, Path(fit_out))
    broken: list[str] = []
    rows = encoded_rows(source, backend, cache, broken, progress)
    if out is None:
        features = np.concatenate([chunk.astype(dtype, copy=False) for chunk in rows])
    else:
        features = _stream(rows, Path(out), np.dtype(dtype))
    if broken:
        warnings.warn(
            f"{len(broken)} of {len(features)} images cannot be read and are rows of NaN: {listed(broken)}",
            EverylabelWarning,
            stacklevel=2,
        )
    return features


def check_out(out: str | os.PathLike[str]) -> None:
    """Refuse a file name of another format before the work begins."""
    if Path(out).suffix != ".npy":
        raise EverylabelError(f"out is {str(out)!r}; expected a file that ends in .npy")


class Embedder:
    """A model that is loaded once, for a server that embeds items as they come; rows are cached.

    It is pretrained or read from the file `fit`. It leaves one core to the server where it can.
    """

    def __init__(
        self, kind: str, model: str | None, trust_code: bool = False, fit: Path | None = None
    ) -> None:
        self.kind = kind
        self.backend: Backend = (
            load_fit(fit, kind, model)
            if fit is not None
            else choose(kind, model, list, trust_code=trust_code, beside=True)
        )

    def rows(self, items: Any, cache: bool = True) -> np.ndarray:
        """Return features (n, d); NaN for images that cannot be read, (n, 0) if none can."""
        try:
            return np.concatenate(list(encoded_rows(Chunks(items, self.kind), self.backend, cache, [], None)))
        except NoImage:
            return np.zeros((len(items), 0), np.float32)


class NoImage(EverylabelError):
    """Not one of the images could be read."""


def encoded_rows(
    source: Chunks, backend: Backend, cache: bool, broken: list[str], progress: Callable[[int], Any] | None
) -> Iterator[np.ndarray]:
    """Yield the features of each chunk, from the cache where they are."""
    done, d, held = 0, 0, 0  # held: rows of broken images until d is known
    folder = cache_folder() / "embeddings" / hashlib.sha256(backend.key.encode()).hexdigest()[:16]
    if progress is not None:
        progress(0)
    for chunk in source.chunks(backend.chunk):
        path = make_folder(folder) / f"{source.digest(chunk).hex()}.npy" if cache else None
        rows = _cached(path, len(chunk))
        if rows is None:
            rows = backend.encode(chunk)
            if path is not None and rows.shape[1]:
                write_atomically(path, lambda file, rows=rows: np.save(file, rows))
        d = rows.shape[1] or d
        if source.kind == "image" and not rows.shape[1]:  # not one image of this chunk could be read
            rows = np.full((len(chunk), d), np.nan, dtype=np.float32)
        if source.kind == "image":
            bad = np.flatnonzero(np.isnan(rows).all(axis=1))
            broken += [_name(chunk[i], done + int(i)) for i in bad]
        done += len(chunk)
        if progress is not None:
            progress(done)
        if source.kind == "image" and not d:
            held += len(chunk)
            continue
        for at in range(0, held, backend.chunk):
            yield np.full((min(backend.chunk, held - at), d), np.nan, dtype=np.float32)
        held = 0
        yield rows
    if held:
        raise NoImage(f"items holds {held} images and none can be read: {listed(broken)}")


def _cached(path: Path | None, n: int) -> np.ndarray | None:
    """Return a chunk's features if they are there and whole."""
    if path is None or not path.exists():
        return None
    try:
        rows = np.load(path, allow_pickle=False)
    except NO_ARRAY:
        return None
    return rows if rows.ndim == 2 and len(rows) == n else None


def _stream(rows: Iterator[np.ndarray], path: Path, dtype: np.dtype) -> np.ndarray:
    """Write chunks into a .npy file, and return it memory-mapped."""
    make_folder(path.parent)
    write_atomically(path, lambda file: write_rows(file, rows, dtype), follow_links=True)
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def write_rows(file: IO[bytes], rows: Iterator[np.ndarray], dtype: np.dtype) -> None:
    """Write chunks into an open .npy file as they come, and correct the header at the end."""
    n, d = 0, 0
    for chunk in rows:
        if n == 0:
            d = chunk.shape[1]
            _header(file, (0, d), dtype)
        file.write(np.ascontiguousarray(chunk, dtype=dtype).tobytes())
        n += len(chunk)
    file.seek(0)
    _header(file, (n, d), dtype)  # NumPy pads the header so that n may grow
    file.seek(0, os.SEEK_END)


def _header(file: IO[bytes], shape: tuple[int, int], dtype: np.dtype) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _name(item: Any, at: int) -> str:
    return str(item) if isinstance(item, (str, Path)) else f"items[{at}]"


FORMAT = "everylabel embedder"
FITTED: dict[str, type[Tfidf] | type[Pixels]] = {"tfidf": Tfidf, "pixels": Pixels}


def save_fit(backend: Backend, path: Path) -> None:
    """Write the fit of a backend; pretrained models have none and leave no file."""
    path.unlink(missing_ok=True)
    if isinstance(backend, Tfidf | Pixels):
        make_folder(path.parent)
        header = {"format": FORMAT, "version": VERSION, "name": backend.name, "key": backend.key}
        write_file(path, header, backend.arrays(), follow_links=True)


def load_fit(path: Path, kind: str, model: str | None) -> Tfidf | Pixels:
    """Return a fitted backend for items of this kind."""
    expected = "expected embedder.npz of a project, or fit_out's file"
    if not path.exists():
        raise EverylabelError(f"fit {str(path)!r} does not exist; {expected}")
    try:
        header, arrays = read_file(path, FORMAT, "embedder", "embed(fit_out=...)")
        fitted = FITTED[header["name"]].from_arrays(str(header["key"]), arrays)
    except (ValueError, KeyError, TypeError) as error:
        raise EverylabelError(f"fit {str(path)!r} cannot be read ({error!r}); {expected}") from error
    if fitted.kind != kind or model not in (None, fitted.name):
        raise EverylabelError(
            f"fit {str(path)!r} is of {fitted.name} for items of kind {fitted.kind!r}; got kind {kind!r} and "
            f"model {model!r}"
        )
    return fitted
