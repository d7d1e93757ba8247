"""Save and load a fit of TF-IDF or pixels: one .npz file of plain arrays, never pickle.

New items have comparable features only if they are embedded by the same fit.
"""

from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_file
from everylabel.data.cache import make_folder
from everylabel.models.embedding.backend import Backend
from everylabel.models.embedding.images import Pixels
from everylabel.models.embedding.texts import Tfidf

FORMAT = "everylabel embedder"
FITTED: dict[str, type[Tfidf] | type[Pixels]] = {"tfidf": Tfidf, "pixels": Pixels}


def save_fit(backend: Backend, path: Path) -> None:
    """Write the fit of a backend; pretrained models have none and leave no file."""
    path.unlink(missing_ok=True)
    if isinstance(backend, Tfidf | Pixels):
        make_folder(path.parent)
        header = {"format": FORMAT, "version": VERSION, "name": backend.name, "key": backend.key}
        write_file(path, header, backend.arrays(), follow=True)


def load_fit(path: Path, kind: str, model: str | None) -> Tfidf | Pixels:
    """Return a fitted backend for items of this kind."""
    expected = "expected embedder.npz of a project, or fit_out's file"
    if not path.exists():
        raise EverylabelError(f"fit {str(path)!r} is not there; {expected}")
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
