"""Features of texts and images, kept in a project's folder: embedded once, found again at the next start."""

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.store import write_atomically
from everylabel.models.embedding import embed
from everylabel.models.places import EverylabelWarning

FEATURES, RECORD = "features.npy", "features.json"
Progress = Callable[[int, int], Any]  # rows done, rows in all


class Embedded(NamedTuple):
    """Features of the items that could be read, and the positions of those that could not."""

    features: np.ndarray
    broken: tuple[int, ...]


def embedded(
    items: Any,
    kind: str,
    n: int,
    digests: Sequence[str],
    model: str | None,
    folder: Path,
    progress: Progress | None = None,
) -> Embedded:
    """Return features of the items: from the folder if they are of these items and this model."""
    content = hashlib.sha256("\n".join([kind, *digests]).encode()).hexdigest()
    found = _found(folder, content, model, n)
    if found is not None:
        return found
    (folder / RECORD).unlink(missing_ok=True)
    path = folder / FEATURES
    show = None if progress is None else lambda done: progress(done, n)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # they are left out, and told
        features = embed(items, model, kind=kind, out=path, progress=show)
    broken = _broken(features) if kind == "image" else ()
    if broken:
        whole = np.delete(features, broken, axis=0)
        write_atomically(path, lambda file: np.save(file, whole))
        features = np.load(path, mmap_mode="r")
    record = {"content": content, "model": model, "broken": broken}
    write_atomically(folder / RECORD, lambda file: file.write(json.dumps(record).encode()))
    return Embedded(features, broken)


def _found(folder: Path, content: str, model: str | None, n: int) -> Embedded | None:
    try:
        record = json.loads((folder / RECORD).read_text())
        features = np.load(folder / FEATURES, mmap_mode="r", allow_pickle=False)
        broken = tuple(int(i) for i in record["broken"])
        if record["content"] != content or record["model"] != model or len(features) + len(broken) != n:
            return None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None
    return Embedded(features, broken)


def _broken(features: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.flatnonzero(np.isnan(features[:, 0])))
