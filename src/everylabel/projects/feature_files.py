"""The files that a project's features lie in, and the record of what they are of."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import NO_ARRAY
from everylabel.projects.journal import JOURNAL
from everylabel.projects.own_files import LATER
from everylabel.projects.sealed_files import file_digest, read_sealed

FEATURES, RECORD, EMBEDDER, NEXT = "features.npy", "features.json", "embedder.npz", LATER
DIGESTS = "digests.npy"  # of the item that each row is of, and of those that are broken
VERSION = 2
USUAL = {"text": "minilm", "image": "dinov2"}  # models where none is named


def record_of(place: Path) -> dict[str, Any] | None:
    """Return what is known of the features in a place."""
    try:
        record = read_sealed(place / RECORD)
        whole = {"content", "what", "broken", "fitted_on"} <= set(record) and record["what"]["kind"]
        ours = record["version"] == VERSION and whole
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if ours else None


def files_digests(place: Path) -> dict[str, str]:
    """Return the digests of the files that a record is of."""
    return {name: file_digest(place / name) for name in (FEATURES, EMBEDDER) if (place / name).exists()}


def is_as_written(place: Path, record: dict[str, Any], name: str) -> bool:
    """Return whether a file is what the record says; versions before noted nothing."""
    noted = record.get("files", {}).get(name)
    try:
        return noted is None or noted == file_digest(place / name)
    except OSError:
        return False


def load_features(place: Path, record: dict[str, Any]) -> np.ndarray | None:
    """Return the features in a place, mapped; None if they are not there, or not what was written."""
    if not is_as_written(place, record, FEATURES):
        return None
    try:
        return np.load(place / FEATURES, mmap_mode="r", allow_pickle=False)
    except NO_ARRAY:
        return None


def is_fit(place: Path) -> bool:
    """Return whether what was learned from the items lies in a place."""
    return (place / EMBEDDER).exists()


def check_fit(place: Path, record: dict[str, Any]) -> None:
    """Refuse what was learned from the items if it has changed since."""
    if not is_as_written(place, record, EMBEDDER):
        raise EverylabelError(
            f"path {str(place / EMBEDDER)!r} is not what was written: it is damaged; put it back from a "
            "copy, or remove it: then the features are learned anew from all items"
        )


def find_changed(folder: Path) -> list[str]:
    """Return what is wrong with the features of a folder, in sentences."""
    if not (folder / RECORD).exists():
        return []
    record = record_of(folder)
    if record is None:
        return [f"{str(folder / RECORD)!r} is damaged: the next start embeds the items again"]
    found = []
    if not is_as_written(folder, record, FEATURES):
        found.append(f"{str(folder / FEATURES)!r} is not what was written: the next start embeds them again")
    if record["fitted_on"] and not is_as_written(folder, record, EMBEDDER):
        found.append(
            f"{str(folder / EMBEDDER)!r} is not what was written: put it back from a copy, or remove it, and "
            "the features are learned anew"
        )
    return found


def is_begun(folder: Path) -> bool:
    """Return whether a folder has features already, of whatever."""
    return record_of(folder) is not None or (folder / NEXT).exists()


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
    (folder / JOURNAL).unlink(missing_ok=True)  # all that is in it is among the features now
