"""The files that a project's features lie in, and the record of what they are of."""

import json
import shutil
from pathlib import Path
from typing import Any

from everylabel.projects.journal import JOURNAL

FEATURES, RECORD, EMBEDDER, NEXT = "features.npy", "features.json", "embedder.npz", "next"
DIGESTS = "digests.npy"  # of the item that each row is of, and of those that are broken
VERSION = 2
USUAL = {"text": "minilm", "image": "dinov2"}  # models where none is named


def record_of(place: Path) -> dict[str, Any] | None:
    """Return what is known of the features in a place."""
    try:
        record = json.loads((place / RECORD).read_text())
        whole = {"content", "what", "broken", "fitted_on"} <= set(record) and record["what"]["kind"]
        ours = record["version"] == VERSION and whole
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if ours else None


def is_fit(place: Path) -> bool:
    """Return whether what was learned from the items lies in a place."""
    return (place / EMBEDDER).exists()


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
