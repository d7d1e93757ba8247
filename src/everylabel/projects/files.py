"""Files of a project's folder: plain files, private to their owner, with digests; and which to trust.

`project.json` saves source, name, id and options for the next start (`remember`, `remembered`).

The folder may come from anybody, so links in it are refused. Each JSON object holds a digest of its other
content; the record of features also holds the digests of the files beside it. Version 0.1 wrote no digests;
its files are read without that check.

Features are an array, a record that describes it, and pieces that joined since.

The folder also remembers a model; loading a model can mean running its code.
So a local model is loaded only if the user names it, now or when the project was labelled on this machine
before. `models.json` among the user's own files records that together with the project's folder and id, so
that a different folder in the same place is not trusted. A name on the hub is as safe as any other.
The folder also remembers a source and a table to show. These are read only if they lie beside the project's
folder, or are named now. Otherwise a stranger's folder could show any file to the people who label, or call
any address.
"""

import hashlib
import json
import os
import shlex
import shutil
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from platformdirs import user_state_path

from everylabel.core.errors import EverylabelError
from everylabel.core.files import NO_ARRAY, read_file, write_atomically, write_file
from everylabel.core.files import VERSION as FILE_VERSION
from everylabel.data.cache import make_folder
from everylabel.data.datasets.catalog import dataset_key
from everylabel.data.digests import content_digest
from everylabel.data.items import Items, Options
from everylabel.log.database import PRIVATE, digest
from everylabel.models.embedding.choose import local_place

DIGEST = "digest"
NEXT = "next"  # sub-folder of new features, which replace the old ones after a successful start
JOINED = "joined"  # sub-folder of features that were embedded while a server ran
FILE = "project.json"
FEATURES, RECORD, EMBEDDER = "features.npy", "features.json", "embedder.npz"
DIGESTS = "digests.npy"  # digest of the item of each row, and of broken items
VERSION = 2
USUAL = {"text": "minilm", "image": "dinov2"}  # models used if none is named
OLD_PIECES = "joined.rows"  # one file of pieces, written by version 0.2
PIECE_FORMAT = "everylabel features of items that joined"


def check_own_files(folder: Path) -> None:
    """Refuse a folder with links, pipes or devices, which could redirect writes; it may itself be a link."""
    for place in (folder, folder / NEXT, folder / JOINED):
        if not place.is_dir():
            continue
        with os.scandir(place) as entries:
            odd = sorted(entry.path for entry in entries if not _is_own(entry))
        if odd:
            raise EverylabelError(
                f"{odd[0]!r} is a link or no plain file, which everylabel would write through; "
                "expected plain files only: if it is yours put the file itself there, else remove it"
            )


def _is_own(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a plain file or folder, or an editor's lock file."""
    plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return plain or entry.name.startswith(".#")  # a name that we never write


class OtherDigest(EverylabelError):
    """A file differs from what was written."""

    def __init__(self) -> None:
        super().__init__(
            f"its {DIGEST!r} does not match its content; if you edited the file on purpose, remove that line"
        )


def write_json(path: Path, about: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON object with its digest, readable only by its owner."""
    text = json.dumps({**about, DIGEST: _digest(about)}, indent=indent, ensure_ascii=False)
    write_atomically(path, lambda file: file.write(text.encode()), mode=PRIVATE)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raise if its digest does not match."""
    about = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(about, dict):
        raise ValueError("it is no JSON object")
    if about.pop(DIGEST, None) not in (None, _digest(about)):
        raise OtherDigest
    return about


def file_digest(path: Path) -> str:
    """Return a hash of a file's content."""
    about = path.stat()
    return _file_digest(path, about.st_ino, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)
def _file_digest(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(about: dict[str, Any]) -> str:
    return digest(json.dumps(about, sort_keys=True))


class Remembered(NamedTuple):
    """The saved data of a project's folder. The log is found by `name`, even if the source is renamed.

    `id` distinguishes projects of the same name in a shared store. `log` identifies the log in the folder by
    the time it was begun; "" if there is none, or if an earlier version began it. `stored` identifies the log
    in the last named store in the same way, after a hash of the store's address, which may contain a
    password.
    """

    source: str
    name: str
    options: Options
    id: str = ""
    log: str = ""
    stored: str = ""

    def log_in(self, store: str | None) -> str:
        """Return the mark that identifies the log in a store; "" if that store was not the last one used."""
        if store is None:
            return self.log
        name, _, mark = self.stored.partition(" ")
        return mark if name == digest(store) else ""

    def with_log(self, store: str | None, mark: str) -> "Remembered":
        """Return the same data with the log in use now."""
        return self._replace(log=mark) if store is None else self._replace(stored=f"{digest(store)} {mark}")


def remember(folder: Path, project: Remembered) -> None:
    """Save a project's source, name and options in its folder."""
    about = {"source": project.source, "name": project.name, "id": project.id, "log": project.log}
    about |= {"stored": project.stored} | asdict(project.options)
    write_json(folder / FILE, about, indent=1)


def remembered(folder: Path) -> Remembered | None:
    """Return the saved data of a folder, None if there is none; a folder that contains links is refused."""
    check_own_files(folder)
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = read_json(path)
        stored_options = {field.name: stored.get(field.name) for field in fields(Options)}
        classes: Sequence[str] | None = stored_options.pop("classes")
        options = Options(**stored_options, classes=None if classes is None else tuple(classes))
        known = (str(stored.get(name) or "") for name in ("id", "log", "stored"))
        return Remembered(str(stored["source"]), str(stored["name"]), options, *known)
    except OtherDigest as error:
        raise EverylabelError(f"project file {str(path)!r} is damaged: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EverylabelError(
            f"project file {str(path)!r} is damaged ({error!r}); remove it and pass the source's options "
            "again: labels are kept elsewhere"
        ) from error


def record_of(place: Path) -> dict[str, Any] | None:
    """Return the record of the features in a folder; None if it is missing, damaged or of another version."""
    try:
        record = read_json(place / RECORD)
        whole = {"content", "what", "broken", "fitted_on"} <= set(record) and record["what"]["kind"]
        ours = record["version"] == VERSION and whole
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if ours else None


def files_digests(place: Path) -> dict[str, str]:
    """Return the digests of the files that a record describes."""
    return {name: file_digest(place / name) for name in (FEATURES, EMBEDDER) if (place / name).exists()}


def is_as_written(place: Path, record: dict[str, Any], name: str) -> bool:
    """Return whether a file matches its record; older versions recorded no digest."""
    noted = record.get("files", {}).get(name)
    try:
        return noted is None or noted == file_digest(place / name)
    except OSError:
        return False


def load_features(place: Path, record: dict[str, Any]) -> np.ndarray | None:
    """Return the features in a folder, memory-mapped; None if they are missing or changed."""
    if not is_as_written(place, record, FEATURES):
        return None
    try:
        return np.load(place / FEATURES, mmap_mode="r", allow_pickle=False)
    except NO_ARRAY:
        return None


def is_fit(place: Path) -> bool:
    """Return whether a folder contains a fitted embedder (TF-IDF or pixels)."""
    return (place / EMBEDDER).exists()


def check_fit(place: Path, record: dict[str, Any]) -> None:
    """Refuse a fitted embedder that has changed since it was written."""
    if not is_as_written(place, record, EMBEDDER):
        raise EverylabelError(
            f"path {str(place / EMBEDDER)!r} has changed on disk: it is damaged; put it back from a "
            "copy, or remove it: the features are then learned again from all items"
        )


def find_changed(folder: Path) -> list[str]:
    """Return the problems with the features of a folder, as sentences."""
    if not (folder / RECORD).exists():
        return []
    record = record_of(folder)
    if record is None:
        return [f"{str(folder / RECORD)!r} is damaged: the next start embeds the items again"]
    found = []
    if not is_as_written(folder, record, FEATURES):
        found.append(f"{str(folder / FEATURES)!r} has changed on disk: the next start embeds them again")
    if record["fitted_on"] and not is_as_written(folder, record, EMBEDDER):
        found.append(
            f"{str(folder / EMBEDDER)!r} has changed on disk: restore it from a copy, or remove it "
            "to learn the features again"
        )
    return found


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


class Kept(NamedTuple):
    """Rows of features, and the row of each content digest."""

    rows: np.ndarray
    at: dict[str, int]


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

    def read(self) -> Kept:
        """Return the features of this model and kind of items, without damaged files."""
        found = [self._old(), *(self._piece(path) for path in sorted(self.folder.glob("*.npz")))]
        pieces = [piece for piece in found if piece is not None]
        pieces = [piece for piece in pieces if piece[1].shape[1] == pieces[-1][1].shape[1]]
        if not pieces:
            return Kept(np.zeros((0, 0), np.float32), {})
        digests = [name.decode() for names, _ in pieces for name in names.tolist()]
        return Kept(np.concatenate([rows for _, rows in pieces]), {name: i for i, name in enumerate(digests)})

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


class Trust(NamedTuple):
    """The model that the user names now, and whether it may run its own code."""

    model: str | None = None
    code: bool = False

    def check(self, model: str | None) -> None:
        """Refuse a local model unless the user names it."""
        if model is None or model == self.model or local_place(model) is None:
            return
        raise EverylabelError(
            f"the project remembers the model {model!r}, which lies on this machine and is not named by you; "
            f"expected --model {shlex.quote(model)} (model=) with label or predict, if you know what it is"
        )


NONE_NAMED = Trust()


def note_trust(folder: Path, project: str, trust: Trust) -> None:
    """Record that the user named a project's model; if that fails, they are asked again."""
    place = _record_path()
    if trust.model is None or local_place(trust.model) is None or trusted_before(folder, project) == trust:
        return
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = json.dumps({**_record(), _key(folder, project): [*trust]}, indent=1)
        write_atomically(place, lambda file: file.write(known.encode()), mode=PRIVATE)


def trusted_before(folder: Path, project: str) -> Trust:
    """Return the model that the user named for this project before on this machine."""
    known = _record().get(_key(folder, project))
    return (
        Trust(str(known[0]), known[1] is True) if isinstance(known, list) and len(known) == 2 else NONE_NAMED
    )


def _key(folder: Path, project: str) -> str:
    return f"{project} {_real(folder) or folder}"


def _record_path() -> Path:
    return user_state_path("everylabel", appauthor=False) / "models.json"


def _record() -> dict[str, Any]:
    try:
        known = json.loads(_record_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def check_source(folder: Path, source: str, *, private: bool = False) -> None:
    """Refuse a remembered source that is not beside the project's folder; an address never is.

    private : nobody else sees it, so that only sources that are not full local paths are refused
    """
    if not _may_be_read(source, [folder.absolute().parent], private) and dataset_key(source) is None:
        now, command = _now(source, folder), "" if private else "everylabel label "
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the source {source!r}, which {_where(source)} and is not "
            f"named by you; {_why(private)}. If that is meant, name both: "
            f"{command}{now} --project {shlex.quote(str(folder))}"
        )


def check_show(folder: Path, source: str, show: str, *, private: bool = False) -> None:
    """Refuse a remembered table to show that is neither beside the folder nor beside the source."""
    homes = [folder.absolute().parent, *([Path(source).parent] if Path(source).is_absolute() else [])]
    if not _may_be_read(show, homes, private):
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the table {show!r} to show, which {_where(show)} and "
            f"is not named by you; {_why(private)}. If that is meant, add "
            f"--show {_now(show, folder)}"
        )


def _may_be_read(place: str, homes: Sequence[Path], private: bool) -> bool:
    """Return whether a remembered path is absolute and, unless `private`, lies in one of these folders."""
    if not Path(place).is_absolute():  # an address, or relative to the current directory
        return False
    return private or lies_in(Path(place), [home for home in map(_real, homes) if home is not None])


def lies_in(place: Path, homes: Sequence[Path]) -> bool:
    """Return whether a path lies in one of these resolved folders after following all links."""
    real = _real(place)
    return real is not None and any(real.is_relative_to(home) for home in homes)


def _real(place: Path) -> Path | None:
    try:
        return place.resolve()
    except (OSError, RuntimeError, ValueError):  # a link to itself, or an invalid name
        return None


def _why(private: bool) -> str:
    return "everylabel would contact that address" if private else "everybody who labels would see it"


def _where(place: str) -> str:
    return "lies elsewhere" if "://" in place or os.path.lexists(place) else "is not there any more"


def _now(place: str, folder: Path) -> str:
    """Return the path to name: the file of that name beside the project, if the original has moved."""
    beside = folder.absolute().parent / Path(place).name
    moved = "://" not in place and not os.path.lexists(place) and os.path.lexists(beside)
    return shlex.quote(str(beside) if moved else place)
