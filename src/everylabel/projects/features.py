"""Features of texts and images, kept in a project's folder: embedded once, found again at the next start.

What is embedded while the folder holds other features goes to next/ in it, and takes their place when
the command has passed all checks (`settle`). Only items that are new are embedded: those whose content was
there before keep their row, wherever they stand. TF-IDF and pixels are learned from the items of the first
time; what they learned is kept beside the features, and items that come later are embedded by it.
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
from everylabel.projects.trust import Trust

FEATURES, RECORD, EMBEDDER, NEXT = "features.npy", "features.json", "embedder.npz", "next"
DIGESTS = "digests.npy"  # of the item that each row is of, and of those that are broken
MADE_BY = ("kind", "model")  # features of these are alike, whatever column they are of
AT_A_TIME = 16_384  # rows copied together
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


class Kept(NamedTuple):
    """Features of items of before, and which row is of which content."""

    rows: np.ndarray
    at: dict[str, int]


def features_of(
    items: Items, options: Options, folder: Path, trust: Trust, progress: Progress | None = None
) -> Features:
    """Return features of the items: from the folder as far as they are of this model and of such items.

    What the folder has no features of is embedded. Of another column, TF-IDF and pixels are learned anew.
    """
    n, kind, model = len(items), items.kind, options.model
    content = _content(kind, items.digests)
    for place in (folder, folder / NEXT):
        kept = _kept(place, content, model, n)
        if kept is not None:
            _note_digests(place, items.digests)
            return kept
    what = {"kind": kind, "model": model, "column": options.text_column or options.image_column}
    before = _record(folder)
    place = folder if before is None else make_folder(folder / NEXT)
    for name in (RECORD, DIGESTS):
        (place / name).unlink(missing_ok=True)
    kept_rows = None if before is None else _kept_rows(folder, before, what)
    if before is None or kept_rows is None:
        rows = _embedded(items, model, place, trust, progress)
        fitted_on = n if _is_fit(place) else 0
    else:
        rows = _joined(items, kept_rows, folder, place, trust, progress)
        fitted_on = int(before["fitted_on"])
        if fitted_on:
            shutil.copyfile(folder / EMBEDDER, place / EMBEDDER)
    return _recorded(items, what, place, folder, rows, fitted_on)


def is_begun(folder: Path) -> bool:
    """Return whether a folder has features already, of whatever."""
    return _record(folder) is not None or (folder / NEXT).exists()


def write_features(items: Items, options: Options, folder: Path, rows: np.ndarray) -> None:
    """Keep features that a pretrained model made of all items; NaN for broken images."""
    what = {"kind": items.kind, "model": options.model, "column": options.text_column or options.image_column}
    write_atomically(folder / FEATURES, lambda file: np.save(file, rows))
    _recorded(items, what, folder, folder, rows, 0)


def _recorded(
    items: Items, what: dict[str, Any], place: Path, folder: Path, rows: np.ndarray, fitted_on: int
) -> Features:
    """Note what the features in a place are of, and leave out what is broken."""
    kind, content = items.kind, _content(items.kind, items.digests)
    broken = broken_rows(rows) if kind == "image" else ()
    if broken:
        whole = np.delete(rows, broken, axis=0)
        write_atomically(place / FEATURES, lambda file: np.save(file, whole))
        rows = np.load(place / FEATURES, mmap_mode="r")
    _note_digests(place, items.digests)
    record = {
        "version": VERSION,
        "content": content,
        "what": what,
        "broken": broken,
        "fitted_on": fitted_on,
    }
    write_atomically(place / RECORD, lambda file: file.write(json.dumps(record).encode()))
    return Features(rows, broken, place, _grown(fitted_on, len(items), folder))


def _content(kind: str, digests: Sequence[str]) -> str:
    """Return one hash over all items."""
    return hashlib.sha256("\n".join([kind, *digests]).encode()).hexdigest()


def _embedded(
    items: Items, model: str | None, place: Path, trust: Trust, progress: Progress | None
) -> np.ndarray:
    """Return features of all items, in a file."""
    trust.check(model)
    show = None if progress is None else lambda done: progress(done, len(items))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # they are left out, and told
        return embed(
            items.items,
            model,
            kind=items.kind,
            out=place / FEATURES,
            progress=show,
            fit_out=place / EMBEDDER,
            trust_model_code=trust.code,
        )


def _kept_rows(folder: Path, record: dict[str, Any], what: dict[str, Any]) -> Kept | None:
    """Return the features that the folder has; None if new ones would not be like them."""
    fitted = record["fitted_on"]
    alike = record["what"] == what if fitted else all(record["what"][key] == what[key] for key in MADE_BY)
    if not alike or (fitted and not _is_fit(folder)):
        return None
    none = Kept(np.zeros((0, 0)), {}) if fitted else None  # at least what was learned is kept
    try:
        digests = np.load(folder / DIGESTS, allow_pickle=False).astype(str).tolist()
        rows = np.load(folder / FEATURES, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # versions before wrote no digests
        return none
    broken = set(record["broken"])
    if _content(what["kind"], digests) != record["content"] or len(rows) + len(broken) != len(digests):
        return none
    whole = (digest for i, digest in enumerate(digests) if i not in broken)
    return Kept(rows, {digest: i for i, digest in enumerate(whole)})


def _joined(
    items: Items, kept: Kept, folder: Path, place: Path, trust: Trust, progress: Progress | None
) -> np.ndarray:
    """Return features of all items, in a file: those that are kept, and the others embedded as they were."""
    digests = list(items.digests)
    new = [i for i, digest in enumerate(digests) if digest not in kept.at]
    old = [i for i, digest in enumerate(digests) if digest in kept.at]
    d, embedded = kept.rows.shape[1], np.zeros((0, 0))
    if new:
        content = items.items
        some = content[new] if isinstance(content, np.ndarray) else [content[i] for i in new]
        embedded = embed_as(some, folder, trust, progress)
        d = embedded.shape[1]
    rows = np.lib.format.open_memmap(place / FEATURES, mode="w+", dtype=np.float32, shape=(len(items), d))
    for at in range(0, len(old), AT_A_TIME):
        some = old[at : at + AT_A_TIME]
        rows[some] = kept.rows[[kept.at[digests[i]] for i in some]]
    if new:
        rows[new] = embedded
    rows.flush()
    return rows


def _note_digests(place: Path, digests: Sequence[str]) -> None:
    """Note which item each row is of; the record's hash tells whether that is true."""
    if not (place / DIGESTS).exists():
        array = np.array(list(digests), dtype="S")
        write_atomically(place / DIGESTS, lambda file: np.save(file, array))


def settle(folder: Path, place: Path) -> None:
    """Have the features that are used be the folder's own; others in next/ are removed."""
    later = folder / NEXT
    if place == later:
        try:
            (later / FEATURES).replace(folder / FEATURES)
        except OSError:  # some systems move no file that is mapped; it is found where it is
            return
        for name in (RECORD, EMBEDDER, DIGESTS):
            (folder / name).unlink(missing_ok=True)
        for name in (EMBEDDER, DIGESTS, RECORD):  # the record last: it says that all is there
            if (later / name).exists():
                (later / name).replace(folder / name)
    shutil.rmtree(later, ignore_errors=True)


def embed_as(items: Any, place: Path, trust: Trust, progress: Progress | None = None) -> np.ndarray:
    """Return features of other items, embedded as those that lie in this place; NaN for broken images."""
    record = _record(place)
    if record is None:
        raise FileNotFoundError(place / RECORD)
    kind, model = record["what"]["kind"], record["what"]["model"]
    fit = place / EMBEDDER if record["fitted_on"] else None
    show = None if progress is None else lambda done: progress(done, len(items))
    if fit is None and model is None:  # never another one, whatever is installed by now
        model = USUAL[kind]
    if fit is None:
        trust.check(model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # the caller tells them
        how: dict[str, Any] = {"kind": kind, "fit": fit, "trust_model_code": trust.code}
        return embed(items, model if fit is None else None, progress=show, **how)


def word_encoder(
    kind: str, place: Path | None, model: str | None, width: int, trust: Trust
) -> Encoder | None:
    """Return what embeds words as a source's texts were, or None: TF-IDF and images know no words.

    kind, place : what is labelled, and where its features lie if they were embedded here
    model, width : what made features that came with the source, if it is known, and how many there are
    trust : whether it may be loaded
    """
    if place is not None:
        record = _record(place) if kind == "text" else None
        fitted = record is None or record["fitted_on"]
        model = None if record is None or fitted else record["what"]["model"] or USUAL[kind]
    if model is None or kind == "image" or not knows_words(model):
        return None
    return Encoder(model, partial(_words, model, width, trust))


def _words(model: str, width: int, trust: Trust, phrases: Sequence[str]) -> np.ndarray:
    trust.check(model)
    vectors = embed(list(phrases), model, kind="text", trust_model_code=trust.code)
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
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
