"""Features of texts and images, kept in a project's folder: embedded once, found again at the next start.

What is embedded while the folder holds other features goes to next/ in it, and takes their place when
the command has passed all checks (`settle`). TF-IDF and pixels are learned from the items of the first time;
what they learned is kept beside the features, and items that come later are embedded by it.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.core.files import write_atomically
from everylabel.data.cache import make_folder
from everylabel.data.items import Items
from everylabel.data.options import Options
from everylabel.labelling.naming import Encoder
from everylabel.models.embedding import embed
from everylabel.models.embedding.choose import knows_words

FEATURES, RECORD, EMBEDDER, NEXT = "features.npy", "features.json", "embedder.npz", "next"
VERSION = 2
USUAL = {"text": "minilm", "image": "dinov2"}  # models where none is named
GROWN = 3  # times as many items as were learned from: told
Progress = Callable[[int, int], Any]  # rows done, rows in all


class Features(NamedTuple):
    """Rows of the items that could be read, the positions of those that could not, and where they lie."""

    rows: np.ndarray
    broken: tuple[int, ...]
    place: Path
    notes: tuple[str, ...] = ()


def features_of(items: Items, options: Options, folder: Path, progress: Progress | None = None) -> Features:
    """Return features of the items: from the folder if they are of these items and this model.

    Of another column, TF-IDF and pixels are learned anew.
    """
    n, kind, model = len(items), items.kind, options.model
    content = hashlib.sha256("\n".join([kind, *items.digests]).encode()).hexdigest()
    for place in (folder, folder / NEXT):
        kept = _kept(place, content, model, n)
        if kept is not None:
            return kept
    what = {"kind": kind, "model": model, "column": options.text_column or options.image_column}
    before = _record(folder)
    place = folder if before is None else make_folder(folder / NEXT)
    (place / RECORD).unlink(missing_ok=True)
    fit = None
    if before is not None and before["fitted_on"] and before["what"] == what and _is_fit(folder):
        fit = folder / EMBEDDER
    show = None if progress is None else lambda done: progress(done, n)
    path = place / FEATURES
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # they are left out, and told
        rows = embed(
            items.items, model, kind=kind, out=path, progress=show, fit=fit, fit_out=place / EMBEDDER
        )
    broken = broken_rows(rows) if kind == "image" else ()
    if broken:
        whole = np.delete(rows, broken, axis=0)
        write_atomically(path, lambda file: np.save(file, whole))
        rows = np.load(path, mmap_mode="r")
    fitted_on = n if _is_fit(place) else 0
    if fit is not None and before is not None:
        fitted_on = int(before["fitted_on"])
    record = {
        "version": VERSION,
        "content": content,
        "what": what,
        "broken": broken,
        "fitted_on": fitted_on,
    }
    write_atomically(place / RECORD, lambda file: file.write(json.dumps(record).encode()))
    return Features(rows, broken, place, _grown(fitted_on, n, folder))


def settle(folder: Path, place: Path) -> None:
    """Have the features that are used be the folder's own; others in next/ are removed."""
    later = folder / NEXT
    if place == later:
        try:
            (later / FEATURES).replace(folder / FEATURES)
        except OSError:  # some systems move no file that is mapped; it is found where it is
            return
        (folder / RECORD).unlink(missing_ok=True)
        (folder / EMBEDDER).unlink(missing_ok=True)
        for name in (EMBEDDER, RECORD):  # the record last: it says that all is there
            if (later / name).exists():
                (later / name).replace(folder / name)
    shutil.rmtree(later, ignore_errors=True)


def embed_as(items: Any, place: Path, progress: Progress | None = None) -> np.ndarray:
    """Return features of other items, embedded as those that lie in this place; NaN for broken images."""
    record = _record(place)
    if record is None:
        raise FileNotFoundError(place / RECORD)
    kind, model = record["what"]["kind"], record["what"]["model"]
    fit = place / EMBEDDER if record["fitted_on"] else None
    show = None if progress is None else lambda done: progress(done, len(items))
    if fit is None and model is None:  # never another one, whatever is installed by now
        model = USUAL[kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # the caller tells them
        return embed(items, model if fit is None else None, kind=kind, progress=show, fit=fit)


def word_encoder(kind: str, place: Path | None, model: str | None, width: int) -> Encoder | None:
    """Return what embeds words as a source's texts were, or None: TF-IDF and images know no words.

    kind, place : what is labelled, and where its features lie if they were embedded here
    model, width : what made features that came with the source, if it is known, and how many there are
    """
    if place is not None:
        record = _record(place) if kind == "text" else None
        fitted = record is None or record["fitted_on"]
        model = None if record is None or fitted else record["what"]["model"] or USUAL[kind]
    if model is None or kind == "image" or not knows_words(model):
        return None
    return Encoder(model, partial(_words, model, width))


def _words(model: str, width: int, phrases: Sequence[str]) -> np.ndarray:
    vectors = embed(list(phrases), model, kind="text")
    if vectors.shape[1] != width:
        raise EverylabelError(
            f"model {model!r} has {vectors.shape[1]} features of a name, and the source {width}; expected "
            "--model with the one that embedded its texts, or --names-prior off"
        )
    return vectors


def _kept(place: Path, content: str, model: str | None, n: int) -> Features | None:
    record = _record(place)
    if record is None or record["content"] != content or record["what"]["model"] != model:
        return None
    if record["fitted_on"] and not _is_fit(place):
        return None
    try:
        rows = np.load(place / FEATURES, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    broken = tuple(int(i) for i in record["broken"])
    if len(rows) + len(broken) != n:
        return None
    return Features(rows, broken, place)


def _record(place: Path) -> dict[str, Any] | None:
    """Return what is known of the features in a place."""
    try:
        record = json.loads((place / RECORD).read_text())
        whole = {"content", "what", "broken", "fitted_on"} <= set(record) and record["what"]["kind"]
        ours = record["version"] == VERSION and whole
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if ours else None


def _is_fit(place: Path) -> bool:
    return (place / EMBEDDER).exists()


def _grown(fitted_on: int, n: int, folder: Path) -> tuple[str, ...]:
    if not fitted_on or n <= GROWN * fitted_on:
        return ()
    return (
        f"{n:,} items are embedded by what was learned from the first {fitted_on:,}; to learn from all, "
        f"remove {str(folder / EMBEDDER)!r} and start again",
    )


def broken_rows(rows: np.ndarray) -> tuple[int, ...]:
    """Return the positions of images that could not be read."""
    return tuple(int(i) for i in np.flatnonzero(np.isnan(rows[:, 0])))
