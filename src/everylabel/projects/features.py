"""Features of texts and images, kept in a project's folder: embedded once, found again at the next start.

What is embedded while the folder holds other features goes to next/ in it, and takes their place when
the command has passed all checks (`settle`). Only items that are new are embedded: those whose content was
there before keep their row, wherever they stand. TF-IDF and pixels are learned from the items of the first
time; what they learned is kept beside the features, and items that come later are embedded by it. What was
embedded beside a server lies in pieces (`files.Pieces`) until the next start.

Other items, and words, are embedded as these were (`embed_as`, `word_encoder`).
"""

import hashlib
import shutil
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.core.files import NO_ARRAY, write_atomically
from everylabel.data.cache import make_folder
from everylabel.data.classes import no_labels
from everylabel.data.display import Texts
from everylabel.data.items import Items
from everylabel.data.options import Options
from everylabel.labelling.model.training import Encoder
from everylabel.log.engines import PRIVATE
from everylabel.models.embedding import embed
from everylabel.models.embedding.choose import knows_words
from everylabel.models.embedding.embed import Embedder, NoImage
from everylabel.projects.files import (
    DIGESTS,
    EMBEDDER,
    FEATURES,
    NEXT,
    RECORD,
    USUAL,
    VERSION,
    Kept,
    Pieces,
    check_fit,
    files_digests,
    is_as_written,
    is_fit,
    item_digests,
    load_features,
    record_of,
    write_json,
)
from everylabel.projects.trust import Trust

MADE_BY = ("kind", "model")  # features of these are alike, whatever column they are of
AT_A_TIME = 16_384  # rows copied together
GROWN = 3  # times as many items as were learned from: told
Progress = Callable[[int, int], Any]  # rows done, rows in all


class Features(NamedTuple):
    """Rows of the items that could be read, the positions of those that could not, and where they lie."""

    rows: np.ndarray
    broken: tuple[int, ...]
    place: Path
    notes: tuple[str, ...] = ()


def features_of(
    items: Items, options: Options, folder: Path, trust: Trust, progress: Progress | None = None
) -> Features:
    """Return features of the items: from the folder as far as they are of this model and of such items.

    What the folder has no features of is embedded. Of another column, and of items that are others and that
    nobody has labelled (`Items.anew`), TF-IDF and pixels are learned anew.
    """
    n, kind, model = len(items), items.kind, options.model
    changed = [str(place / FEATURES) for place in (folder, folder / NEXT) if _is_changed(place)]
    content = _content(kind, items.digests)
    for place in (folder, folder / NEXT):
        kept = _kept(place, content, model, n)
        if kept is not None:
            _note_digests(place, items.digests)
            return kept
    what = {"kind": kind, "model": model, "column": options.text_column or options.image_column}
    before = record_of(folder)
    place = folder if before is None else make_folder(folder / NEXT)
    for name in (RECORD, DIGESTS, FEATURES, EMBEDDER):  # what follows are new files, whatever lay there
        (place / name).unlink(missing_ok=True)
    forget = before is not None and items.anew and before["fitted_on"]
    kept_rows = None if before is None or forget else _kept_rows(folder, before, what)
    later, fitted_on = Pieces(folder, kind, model).read(), 0
    if before is not None and kept_rows is not None:
        rows = _joined(items, [kept_rows, later], lambda some: embed_as(some, folder, trust, progress), place)
        fitted_on = int(before["fitted_on"])
        if fitted_on:
            check_fit(folder, before)
            shutil.copyfile(folder / EMBEDDER, place / EMBEDDER)
    elif before is None and later.at:  # a server that had not yet embedded all was killed
        rows = _joined(items, [later], partial(_embedded, items.kind, model, trust, progress), place)
    else:
        files = {"out": place / FEATURES, "fit_out": place / EMBEDDER}
        rows = _embedded(kind, model, trust, progress, items.items, **files)
        fitted_on = n if is_fit(place) else 0
    found = _recorded(items, what, place, folder, rows, fitted_on)
    told = [f"{path!r} was not what was written: the features were embedded again" for path in changed]
    return found._replace(notes=(*told, *found.notes))


def kept_items(folder: Path, options: Options) -> Items | None:
    """Return items that a folder has features of, empty, since their source is gone; None if it has none."""
    record = record_of(folder)
    if record is None or not (folder / DIGESTS).exists():
        return None
    try:
        digests = np.load(folder / DIGESTS, allow_pickle=False).astype(str).tolist()
    except NO_ARRAY:
        return None
    kind, n = record["what"]["kind"], len(digests)
    if _kept(folder, _content(kind, digests), options.model, n) is None:
        return None
    texts, ids = [""] * n, [str(i) for i in range(n)]
    return Items(texts, kind, ids, no_labels(n), display=Texts(texts), digests=digests)


def _is_changed(place: Path) -> bool:
    record = record_of(place)
    return record is not None and not is_as_written(place, record, FEATURES)


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
        "files": files_digests(place),
    }
    for name in (FEATURES, EMBEDDER, DIGESTS):
        if (place / name).exists():
            (place / name).chmod(PRIVATE)
    write_json(place / RECORD, record)
    return Features(rows, broken, place, _grown(fitted_on, len(items), folder))


def _content(kind: str, digests: Sequence[str]) -> str:
    """Return one hash over all items."""
    return hashlib.sha256("\n".join([kind, *digests]).encode()).hexdigest()


def _embedded(
    kind: str, model: str | None, trust: Trust, progress: Progress | None, content: Any, **files: Path
) -> np.ndarray:
    """Return features of all that is passed, in a file if one is named."""
    trust.check(model)
    show = None if progress is None else lambda done: progress(done, len(content))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # they are left out, and told
        how: dict[str, Any] = {"kind": kind, "progress": show, "trust_model_code": trust.code, **files}
        return embed(content, model, **how)


def _kept_rows(folder: Path, record: dict[str, Any], what: dict[str, Any]) -> Kept | None:
    """Return the features that the folder has; None if new ones would not be like them."""
    fitted = record["fitted_on"]
    alike = record["what"] == what if fitted else all(record["what"][key] == what[key] for key in MADE_BY)
    if not alike or (fitted and not is_fit(folder)):
        return None
    none = Kept(np.zeros((0, 0)), {}) if fitted else None  # at least what was learned is kept
    rows = load_features(folder, record)
    try:
        digests = np.load(folder / DIGESTS, allow_pickle=False).astype(str).tolist()
    except NO_ARRAY:  # versions before wrote no digests
        return none
    if rows is None:
        return none
    broken = set(record["broken"])
    if _content(what["kind"], digests) != record["content"] or len(rows) + len(broken) != len(digests):
        return none
    whole = (digest for i, digest in enumerate(digests) if i not in broken)
    return Kept(rows, {digest: i for i, digest in enumerate(whole)})


def _joined(
    items: Items, kept: Sequence[Kept], embed_new: Callable[[Any], np.ndarray], place: Path
) -> np.ndarray:
    """Return features of all items, in a file: those that are kept, and the others embedded."""
    digests = item_digests(items, range(len(items)))
    found: list[list[int]] = [[] for _ in (*kept, None)]  # places of items, by where their features are
    for i, digest in enumerate(digests):
        where = next((j for j, one in enumerate(kept) if digest in one.at), len(kept))
        found[where].append(i)
    new = found.pop()
    d, embedded = max(one.rows.shape[1] for one in kept), np.zeros((0, 0))
    if new:
        try:
            embedded = embed_new(items.some(new))
            d = embedded.shape[1]
        except NoImage:  # all that are left are broken
            embedded = np.full((len(new), d), np.nan, np.float32)
    rows = np.lib.format.open_memmap(place / FEATURES, mode="w+", dtype=np.float32, shape=(len(items), d))
    for one, old in zip(kept, found, strict=True):
        for at in range(0, len(old), AT_A_TIME):
            some = old[at : at + AT_A_TIME]
            rows[some] = one.rows[[one.at[digests[i]] for i in some]]
    if new:
        rows[new] = embedded
    rows.flush()
    return rows


def _note_digests(place: Path, digests: Sequence[str]) -> None:
    """Note which item each row is of; the record's hash tells whether that is true."""
    if not (place / DIGESTS).exists():
        array = np.array(list(digests), dtype="S")
        write_atomically(place / DIGESTS, lambda file: np.save(file, array))


def _kept(place: Path, content: str, model: str | None, n: int) -> Features | None:
    record = record_of(place)
    if record is None or record["content"] != content or record["what"]["model"] != model:
        return None
    if record["fitted_on"] and not is_fit(place):
        return None
    rows = load_features(place, record)
    broken = tuple(int(i) for i in record["broken"])
    if rows is None or len(rows) + len(broken) != n:
        return None
    return Features(rows, broken, place)


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


def embed_as(items: Any, place: Path, trust: Trust, progress: Progress | None = None) -> np.ndarray:
    """Return features of other items, embedded as those that lie in this place; NaN for broken images."""
    kind, model, fit = made_by(place, trust)
    show = None if progress is None else lambda done: progress(done, len(items))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # the caller tells them
        how: dict[str, Any] = {"kind": kind, "fit": fit, "trust_model_code": trust.code}
        return embed(items, model, progress=show, **how)


def embedder_as(place: Path, trust: Trust) -> Embedder:
    """Return what does the same again and again, loaded once."""
    kind, model, fit = made_by(place, trust)
    return Embedder(kind, model, trust.code, fit)


def made_by(place: Path, trust: Trust) -> tuple[str, str | None, Path | None]:
    """Return the kind of items, the model, and what it learned, of the features in a place."""
    record = record_of(place)
    if record is None:
        raise FileNotFoundError(place / RECORD)
    kind, model = record["what"]["kind"], record["what"]["model"]
    if record["fitted_on"]:
        check_fit(place, record)
        return kind, None, place / EMBEDDER
    model = USUAL[kind] if model is None else model  # never another one, whatever is installed by now
    trust.check(model)
    return kind, model, None


def word_encoder(
    kind: str, place: Path | None, model: str | None, width: int, trust: Trust
) -> Encoder | None:
    """Return what embeds words as a source's texts were, or None: TF-IDF and images know no words.

    kind, place : what is labelled, and where its features lie if they were embedded here
    model, width : what made features that came with the source, if it is known, and how many there are
    trust : whether it may be loaded
    """
    if place is not None:
        record = record_of(place) if kind == "text" else None
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
