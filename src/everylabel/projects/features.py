"""Features of texts and images in a project's folder: embedded once, and reused at the next start.

If the folder already has other features, new ones are written to next/ and replace them once the command has
passed all checks (`replace_features`). Only new items are embedded: items whose content was embedded before
keep their row, at any position. TF-IDF and pixels are fitted on the first items; the fit is saved beside the
features and embeds later items. Features embedded while a server runs are stored in pieces (`Pieces`)
until the next start.

`MadeBy` embeds other items in the same way.
"""

import hashlib
import json
import os
import shutil
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.core.files import NO_ARRAY, read_file, write_atomically, write_file
from everylabel.core.files import VERSION as FILE_VERSION
from everylabel.data.cache import make_folder
from everylabel.data.classes import no_labels
from everylabel.data.digests import content_digest
from everylabel.data.display import Texts
from everylabel.data.items import Items, Options
from everylabel.log.database import PRIVATE
from everylabel.models.embedding import embed
from everylabel.models.embedding.embed import NoImage

AT_A_TIME = 16_384  # rows copied together
GROWN = 3  # growth factor of the items since the fit, above which a note is shown
FEATURES, RECORD, EMBEDDER = "features.npy", "features.json", "embedder.npz"
DIGESTS = "digests.npy"  # digest of the item of each row, and of broken items
VERSION = 2  # of the record
NEXT = "next"  # sub-folder of new features, which replace the old ones after a successful start
JOINED = "joined"  # sub-folder of features that were embedded while a server ran
OLD_PIECES = "joined.rows"  # one file of pieces, written by version 0.2
PIECE_FORMAT = "everylabel features of items that joined"
USUAL = {"text": "minilm", "image": "dinov2"}  # models used if none is named
Progress = Callable[[int, int], Any]  # rows done, rows in all


class Features(NamedTuple):
    """Features of the readable items, the positions of the unreadable ones, and the folder."""

    rows: np.ndarray
    broken: tuple[int, ...]
    place: Path
    notes: tuple[str, ...] = ()


class StoredRows(NamedTuple):
    """Features (n, d), and the row of each content digest."""

    rows: np.ndarray
    row_of: Mapping[str, int]

    @classmethod
    def of(cls, rows: np.ndarray, digests: Iterable[str]) -> "StoredRows":
        """Return features with the digest of each row's item."""
        return cls(rows, {digest: i for i, digest in enumerate(digests)})

    def with_digests(self, digests: Iterable[str]) -> np.ndarray:
        """Return the features of items with these digests, in this order."""
        return self.rows[[self.row_of[digest] for digest in digests]]


class MadeBy(NamedTuple):
    """The encoder of features: a pretrained model, or a fit of TF-IDF or pixels in a file."""

    kind: str  # of the items: "text" or "image"
    model: str | None
    fit: Path | None = None

    def embed(self, items: Any, trust_code: bool, progress: Progress | None = None) -> np.ndarray:
        """Return features of items; NaN for broken images."""
        return _embed_content(self.kind, self.model, trust_code, progress, items, fit=self.fit)


class What(msgspec.Struct, frozen=True):
    """The kind and the column of items that were embedded, and the model; None for the usual one."""

    kind: str
    model: str | None = None
    column: str | None = None


class Record(msgspec.Struct, frozen=True):
    """The record of the features in a folder.

    content : hash of all items
    broken : positions of unreadable images, which have no row
    fitted_on : number of items that the encoder was fitted on; 0 if it is pretrained
    """

    version: int
    content: str
    what: What
    broken: tuple[int, ...]
    fitted_on: int


def features_of(
    items: Items, options: Options, folder: Path, trust_code: bool, progress: Progress | None = None
) -> Features:
    """Return features of the items: from the folder if they match the model and the content, else embedded.

    TF-IDF and pixels are fitted again for another column, and for different items that nobody has labelled
    (`Items.replaced`).
    """
    n, kind, model = len(items), items.kind, options.model
    content = _content(kind, items.digests)
    for place in (folder, folder / NEXT):
        kept = _stored_features(place, content, model, n)
        if kept is not None:
            _write_digests(place, items.digests)
            return kept
    what, before = What(kind, model, options.text_column or options.image_column), record_of(folder)
    place = folder if before is None else make_folder(folder / NEXT)
    for name in (RECORD, DIGESTS, FEATURES, EMBEDDER):  # these are written again below
        (place / name).unlink(missing_ok=True)
    forget = before is not None and items.replaced and before.fitted_on
    kept_rows = None if before is None or forget else _comparable_rows(folder, before, what)
    later, fitted_on = Pieces(folder, kind, model).read(), 0
    if before is not None and kept_rows is not None:
        rows = _merged(items, [kept_rows, later], made_by(folder), trust_code, progress, place)
        fitted_on = before.fitted_on
        if fitted_on:
            shutil.copyfile(folder / EMBEDDER, place / EMBEDDER)
    elif before is None and later.row_of:  # a server was killed before it had embedded all items
        rows = _merged(items, [later], MadeBy(kind, model or USUAL[kind]), trust_code, progress, place)
    else:
        files = {"out": place / FEATURES, "fit_out": place / EMBEDDER}
        rows = _embed_content(kind, model, trust_code, progress, items.items, **files)
        fitted_on = n if (place / EMBEDDER).exists() else 0
    return _write_record(items, what, place, folder, rows, fitted_on)


def kept_items(folder: Path, options: Options) -> Items | None:
    """Return empty items in place of a source that is gone, one per feature row; None without features."""
    record, digests = record_of(folder), _read_digests(folder)
    if record is None or digests is None:
        return None
    kind, n = record.what.kind, len(digests)
    if _stored_features(folder, _content(kind, digests), options.model, n) is None:
        return None
    texts, ids = [""] * n, [str(i) for i in range(n)]
    return Items(texts, kind, ids, no_labels(n), display=Texts(texts), digests=digests)


def _write_record(
    items: Items, what: What, place: Path, folder: Path, rows: np.ndarray, fitted_on: int
) -> Features:
    """Write the record of the features to a folder, without rows of broken images; return the features."""
    broken = broken_rows(rows) if items.kind == "image" else ()
    if broken:
        whole = np.delete(rows, broken, axis=0)
        write_atomically(place / FEATURES, lambda file: np.save(file, whole))
        rows = np.load(place / FEATURES, mmap_mode="r")
    _write_digests(place, items.digests)
    record = Record(VERSION, _content(items.kind, items.digests), what, broken, fitted_on)
    for name in (FEATURES, EMBEDDER, DIGESTS):
        if (place / name).exists():
            (place / name).chmod(PRIVATE)
    write_atomically(place / RECORD, lambda file: file.write(msgspec.json.encode(record)), mode=PRIVATE)
    return Features(rows, broken, place, _note_if_outgrown(fitted_on, len(items), folder))


def _content(kind: str, digests: Sequence[str]) -> str:
    """Return one hash of all items."""
    return hashlib.sha256("\n".join([kind, *digests]).encode()).hexdigest()


def _embed_content(
    kind: str,
    model: str | None,
    trust_code: bool,
    progress: Progress | None,
    content: Any,
    **files: Path | None,
) -> np.ndarray:
    """Return features of the given content; files : those of `embed`, such as out and fit."""
    show = None if progress is None else lambda done: progress(done, len(content))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # the caller reports them
        how: dict[str, Any] = {"kind": kind, "progress": show, "trust_model_code": trust_code, **files}
        return embed(content, model, **how)


def _comparable_rows(folder: Path, record: Record, what: What) -> StoredRows | None:
    """Return the folder's features; None if new ones would not be comparable."""
    before, fitted = record.what, record.fitted_on
    alike = before == what if fitted else (before.kind, before.model) == (what.kind, what.model)
    if not alike or (fitted and not (folder / EMBEDDER).exists()):
        return None
    none = StoredRows(np.zeros((0, 0)), {}) if fitted else None  # reuse at least the fit
    rows, digests = load_features(folder), _read_digests(folder)
    if rows is None or digests is None:
        return none
    broken = set(record.broken)
    if _content(what.kind, digests) != record.content or len(rows) + len(broken) != len(digests):
        return none
    return StoredRows.of(rows, (digest for i, digest in enumerate(digests) if i not in broken))


def _merged(
    items: Items,
    kept: Sequence[StoredRows],
    made: MadeBy,
    trust_code: bool,
    progress: Progress | None,
    place: Path,
) -> np.ndarray:
    """Return features of all items, in a file: existing rows are reused, the others embedded."""
    digests = item_digests(items, range(len(items)))
    found: list[list[int]] = [[] for _ in (*kept, None)]  # positions of items, by where their features are
    for i, digest in enumerate(digests):
        where = next((j for j, stored in enumerate(kept) if digest in stored.row_of), len(kept))
        found[where].append(i)
    new = found.pop()
    d, embedded = max(stored.rows.shape[1] for stored in kept), np.zeros((0, 0))
    if new:
        try:
            embedded = made.embed(items.some(new), trust_code, progress)
            d = embedded.shape[1]
        except NoImage:  # all remaining images are broken
            embedded = np.full((len(new), d), np.nan, np.float32)
    rows = np.lib.format.open_memmap(place / FEATURES, mode="w+", dtype=np.float32, shape=(len(items), d))
    for stored, places in zip(kept, found, strict=True):
        for at in range(0, len(places), AT_A_TIME):
            some = places[at : at + AT_A_TIME]
            rows[some] = stored.with_digests(digests[i] for i in some)
    if new:
        rows[new] = embedded
    rows.flush()
    return rows


def _read_digests(place: Path) -> list[str] | None:
    """Return the digest of each item with a row, and of broken items; None if there are none.

    Older versions wrote no digests.
    """
    try:
        found: list[str] = np.load(place / DIGESTS, allow_pickle=False).astype(str).tolist()
    except NO_ARRAY:
        return None
    return found


def _write_digests(place: Path, digests: Sequence[str]) -> None:
    """Write the digest of each row's item; the record's hash confirms them."""
    if not (place / DIGESTS).exists():
        array = np.array(list(digests), dtype="S")
        write_atomically(place / DIGESTS, lambda file: np.save(file, array))


def _stored_features(place: Path, content: str, model: str | None, n: int) -> Features | None:
    """Return the features in a folder if they are of this content and model; else None."""
    record = record_of(place)
    if record is None or record.content != content or record.what.model != model:
        return None
    if record.fitted_on and not (place / EMBEDDER).exists():
        return None
    rows = load_features(place)
    if rows is None or len(rows) + len(record.broken) != n:
        return None
    return Features(rows, record.broken, place)


def _note_if_outgrown(fitted_on: int, n: int, folder: Path) -> tuple[str, ...]:
    """Return a note if the encoder was fitted on few of the present items; else ()."""
    if not fitted_on or n <= GROWN * fitted_on:
        return ()
    return (
        f"{n:,} items are embedded by an encoder fitted on the first {fitted_on:,}; to fit it on all, "
        f"remove {str(folder / EMBEDDER)!r} and start again",
    )


def broken_rows(rows: np.ndarray) -> tuple[int, ...]:
    """Return the positions of unreadable images."""
    return tuple(int(i) for i in np.flatnonzero(np.isnan(rows[:, 0])))


def made_by(place: Path) -> MadeBy:
    """Return the encoder of the features in a folder."""
    record = record_of(place)
    if record is None:
        raise FileNotFoundError(place / RECORD)
    kind, model = record.what.kind, record.what.model
    if record.fitted_on:
        return MadeBy(kind, None, place / EMBEDDER)
    return MadeBy(kind, USUAL[kind] if model is None else model)  # never another one, even if installed since


def record_of(place: Path) -> Record | None:
    """Return the record of the features in a folder; None if it is missing, damaged or of another version."""
    try:
        record = msgspec.json.decode((place / RECORD).read_bytes(), type=Record)
    except (OSError, ValueError, RecursionError):
        return None
    return record if record.version == VERSION else None


def load_features(place: Path) -> np.ndarray | None:
    """Return the features in a folder, memory-mapped; None if they are missing or cut short."""
    try:
        return np.load(place / FEATURES, mmap_mode="r", allow_pickle=False)
    except NO_ARRAY:
        return None


def is_begun(folder: Path) -> bool:
    """Return whether a folder has any features already."""
    return record_of(folder) is not None or (folder / NEXT).exists()


def replace_features(folder: Path, place: Path) -> None:
    """Move the features in use into the folder itself, and remove others in next/."""
    later = folder / NEXT
    if place == later:
        try:
            (later / FEATURES).replace(folder / FEATURES)
        except OSError:  # some systems cannot move a mapped file; it is found where it is
            return
        for name in (RECORD, EMBEDDER, DIGESTS):
            (folder / name).unlink(missing_ok=True)
        for name in (EMBEDDER, DIGESTS, RECORD):  # the record last: it confirms that the rest is complete
            if (later / name).exists():
                (later / name).replace(folder / name)
    shutil.rmtree(later, ignore_errors=True)
    shutil.rmtree(folder / JOINED, ignore_errors=True)  # merged into the features by now
    (folder / OLD_PIECES).unlink(missing_ok=True)


class Pieces:
    """Features embedded while a server runs: one file per piece, until the next start merges them.

    A file appears when it is complete, before its items join the pool: a killed server loses none.
    """

    def __init__(self, folder: Path, kind: str, model: str | None) -> None:
        self.folder, self.made_by = folder / JOINED, {"kind": kind, "model": model}

    def add(self, digests: Sequence[str], rows: np.ndarray) -> None:
        """Write the features of some items; they are on disk when this returns."""
        header = {"format": PIECE_FORMAT, "version": FILE_VERSION, **self.made_by}
        arrays = {"digests": np.array(list(digests), "S"), "rows": rows}
        path = make_folder(self.folder) / f"{time.time_ns():020}.npz"
        write_file(path, header, arrays, mode=PRIVATE)
        if hasattr(os, "O_DIRECTORY"):  # so that the name survives a power failure, too
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def read(self) -> StoredRows:
        """Return the features of this model and kind of items, without damaged files."""
        found = [self._old(), *(self._piece(path) for path in sorted(self.folder.glob("*.npz")))]
        pieces = [piece for piece in found if piece is not None]
        pieces = [piece for piece in pieces if piece[1].shape[1] == pieces[-1][1].shape[1]]
        if not pieces:
            return StoredRows(np.zeros((0, 0), np.float32), {})
        digests = (name.decode() for names, _ in pieces for name in names.tolist())
        return StoredRows.of(np.concatenate([rows for _, rows in pieces]), digests)

    def _piece(self, path: Path) -> tuple[np.ndarray, np.ndarray] | None:
        try:
            header, arrays = read_file(path, PIECE_FORMAT, "piece of features", "everylabel label")
            digests, rows = arrays["digests"], arrays["rows"]
        except (EverylabelError, KeyError):
            return None
        if {name: header.get(name) for name in self.made_by} != self.made_by:
            return None
        fits = digests.dtype.kind == "S" and rows.dtype == np.float32 and rows.ndim == 2
        return (digests, rows) if fits and digests.shape == rows.shape[:1] else None

    def _old(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the features in the file of version 0.2, without incomplete records."""
        try:
            with (self.folder.parent / OLD_PIECES).open("rb") as file:
                header, data = json.loads(file.readline()), file.read()
            fields = [("digest", "S16"), ("check", "<u4"), ("row", "<f4", (header.pop("width"),))]
            record = np.dtype(fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if header != {"version": 1, **self.made_by}:
            return None
        found = np.frombuffer(data, record, len(data) // record.itemsize)
        found = found[[zlib.crc32(one["row"].tobytes()) == one["check"] for one in found]]
        return found["digest"], found["row"]


def item_digests(items: Items, places: Sequence[int]) -> list[str]:
    """Return a hash of each item at these positions, even if the source has only one hash for all."""
    if len(items.digests) == len(items):
        return [items.digests[i] for i in places]
    return [content_digest(items.items[i]) for i in places]
