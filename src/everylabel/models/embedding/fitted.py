"""What TF-IDF and pixels learned from items, on disk: one .npz file of plain arrays; never pickle.

New items have comparable features only if they are embedded by the same fit.
"""

import json
import zipfile
import zlib
from pathlib import Path

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.data.cache import make_folder
from everylabel.models.embedding.backend import Backend, Fitted
from everylabel.models.embedding.pixels import Pixels
from everylabel.models.embedding.tfidf import Tfidf

FORMAT, VERSION = "everylabel embedder", 1
FITTED: dict[str, type[Tfidf] | type[Pixels]] = {"tfidf": Tfidf, "pixels": Pixels}


def save_fit(backend: Backend, path: Path) -> None:
    """Write what a backend learned from its items; one that learns nothing leaves no file."""
    path.unlink(missing_ok=True)
    if not isinstance(backend, Fitted):
        return
    header = {"format": FORMAT, "version": VERSION, "name": backend.name, "key": backend.key}
    told = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays = backend.arrays()
    make_folder(path.parent)
    write_atomically(path, lambda file: np.savez(file, header=told, **arrays))  # type: ignore[arg-type]


def load_fit(path: Path, kind: str, model: str | None) -> Fitted:
    """Return a fitted backend for items of this kind."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError("another format")
        fitted: Fitted = FITTED[header["name"]].from_arrays(str(header["key"]), arrays)
    except FileNotFoundError as error:
        raise EverylabelError(
            f"fit {str(path)!r} is not there; expected embedder.npz of a project, or fit_out's file"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise EverylabelError(
            f"fit {str(path)!r} cannot be read ({error!r}); expected embedder.npz of a project's folder"
        ) from error
    if fitted.kind != kind or model not in (None, fitted.name):
        raise EverylabelError(
            f"fit {str(path)!r} is of {fitted.name} for items of kind {fitted.kind!r}; got kind {kind!r} and "
            f"model {model!r}"
        )
    return fitted
