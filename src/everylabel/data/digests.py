"""What tells whether a source is the one that was labelled last time.

One short hash an item: of a text, or of an image's path and size. Features have one hash in all, over
shape, type and some rows, so that a large file costs nothing.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.items import Items

SAMPLED = 64  # rows of features that are hashed


@dataclass(frozen=True)
class Change:
    """Ids that were appended, that are gone, and whose content is another one, since last time."""

    appended: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.appended or self.gone or self.changed)

    @property
    def only_appended(self) -> bool:
        return not (self.gone or self.changed)

    def __str__(self) -> str:
        parts = ((self.appended, "new"), (self.gone, "gone"), (self.changed, "with other content"))
        return "; ".join(f"{len(ids):,} {what}: {listed(list(ids))}" for ids, what in parts if ids)

    def check(self, source: str, accept: bool = False, cause: str = "") -> str | None:
        """Return a note on what changed, None if nothing did; raise if labels may not fit any more.

        cause : what was another way last time, if it is known
        """
        if not self:
            return None
        if self.only_appended or accept:
            return f"{source} has changed since last time ({self})"
        advice = "Put the old file back; or, if rows were moved, name them by --id-column; or"
        if cause:
            advice = f"Last time {cause}: leave that as it was; or"
        elif Path(source).is_dir():
            advice = "Put the files back under their old names; or"
        raise EverylabelError(
            f"source {source!r} is not what was labelled last time ({self}). {advice} go on by everylabel "
            "label --accept-changes: labels of ids that are gone are kept and not used, other content keeps "
            "its label"
        )


def compare(old_ids: Sequence[str], old_digests: Sequence[str], items: Items) -> Change:
    """Return what changed since `old_ids` and `old_digests` were noted; both empty: nothing did."""
    if not old_ids or (list(old_digests) == list(items.digests) and list(old_ids) == list(items.ids)):
        return Change()
    ids = items.ids
    now, before = set(ids), set(old_ids)
    appended = () if len(now) == len(before) and now == before else tuple(i for i in ids if i not in before)
    gone = tuple(name for name in old_ids if name not in now)
    if len(old_digests) != len(old_ids) or len(items.digests) != len(ids):  # one hash in all
        rows = items.items if items.features is None else items.features
        same = isinstance(rows, np.ndarray) and list(old_digests) == [features_digest(rows[: len(old_ids)])]
        return Change(appended, gone, () if gone or same else tuple(old_ids))
    digest = dict(zip(ids, items.digests, strict=True))
    pairs = zip(old_ids, old_digests, strict=True)
    return Change(appended, gone, tuple(i for i, old in pairs if digest.get(i, old) != old))


def text_digests(texts: Iterable[str]) -> list[str]:
    """Return a hash of each text."""
    return [_hash(text.encode("utf-8", "surrogatepass")) for text in texts]


def image_digests(paths: Iterable[Any], names: Iterable[str]) -> list[str]:
    """Return a hash of each image's name and size; of one that is no file, of its name."""
    return [_hash(f"{name}\0{_size(path)}".encode()) for path, name in zip(paths, names, strict=True)]


def features_digest(features: np.ndarray) -> str:
    """Return one hash over shape, type and rows that are spread evenly."""
    n = len(features)
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.int64))
    some = np.ascontiguousarray(features[rows])
    return _hash(f"{features.shape} {features.dtype.str}".encode() + some.tobytes())


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _size(path: Any) -> int:
    try:
        return path.stat().st_size if isinstance(path, Path) else -1
    except OSError:
        return -1
