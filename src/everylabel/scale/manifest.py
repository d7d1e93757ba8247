"""A folder that is filled part by part; a job that was killed at any moment continues.

A manifest, written first, records how the parts are made: the model, the options, the source's files, and the
rows of each part. A part is in the folder whole or not at all, under a name that follows from its number, so
a part without a file is missing. If the source or an option has changed, the job is refused.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed
from everylabel.projects.folder import ENDING, IN_MEMORY, check_source, remembered
from everylabel.scale import filesystem
from everylabel.scale.filesystem import Stamp

MANIFEST = "manifest.json"
BESIDE_TABLES = "_manifest.json"  # readers of a folder of tables skip names with an underscore
SHARDS = ".npy"  # the ending of features
ROWS = "rows.parquet"  # the rows of a CSV or JSONL source
FORMAT, VERSION = "everylabel parts", 2
CURE = "name another folder with -o, or delete this one to start over"


class Part(NamedTuple):
    """Consecutive rows of the source that become one file."""

    number: int
    first: int  # its first row in the source, from 0
    rows: int


@dataclass(frozen=True)
class Manifest:
    """A folder, and the recipe of its parts."""

    folder: str
    about: Mapping[str, Any]  # the options that the parts depend on, by their names on the command line
    ending: str
    parts: Sequence[Part]
    files: Sequence[Stamp]  # files of the source
    source: str = ""

    @property
    def rows(self) -> int:
        """The number of rows in all parts."""
        return sum(part.rows for part in self.parts)

    def place(self, part: Part) -> str:
        """Return the place of a part's file."""
        return filesystem.inside(self.folder, self.name(part))

    def name(self, part: Part) -> str:
        """Return the name of a part's file; names sort in the order of rows."""
        return f"part-{part.number:06d}{self.ending}"

    def missing(self) -> list[Part]:
        """Return the parts that have no file yet."""
        there = set(filesystem.list_files(self.folder))
        return [part for part in self.parts if self.name(part) not in there]


def open_or_create(
    folder: str,
    about: Mapping[str, Any],
    ending: str,
    source: str,
    files: Sequence[str],
    counts: Callable[[], list[int]],
    size: int = 0,
) -> Manifest:
    """Return the manifest of a new folder, or of one started with the same model, options and source.

    counts : returns the rows of each file
    size : rows of a part; 0 makes a part of each file
    """
    before = read_manifest(folder)
    if before is not None:
        _check_about(before, about, ending)
        _check_files(before, source, files)
        return before
    others = filesystem.list_files(folder)
    if others not in ([], [ROWS]):
        raise EverylabelError(
            f"folder {folder!r} holds other files ({listed(others, 3)}) and no {MANIFEST} that "
            f"everylabel wrote; {CURE}"
        )
    rows = counts()
    stamps = [
        filesystem.stamp(file)._replace(digest=filesystem.digest(file), rows=n)
        for file, n in zip(files, rows, strict=True)
    ]
    n = sum(rows)
    sizes = [min(size, n - at) for at in range(0, n, size)] if size else rows
    if not sizes:
        raise EverylabelError(f"source {source!r} has no rows; expected at least one")
    made = Manifest(folder, about, ending, parts_of(sizes), stamps, filesystem.absolute(source))
    _write(made)
    return made


def parts_of(sizes: Sequence[int]) -> list[Part]:
    """Return parts with these numbers of rows."""
    firsts = accumulate(sizes, initial=0)
    return [Part(i, first, n) for i, (first, n) in enumerate(zip(firsts, sizes, strict=False))]


def read_manifest(folder: str) -> Manifest | None:
    """Return a folder's manifest; None if there is none, or only another program's."""
    stored = _stored(folder)
    if stored is None:
        return None
    if stored["version"] not in (1, VERSION):
        raise EverylabelError(
            f"the manifest of {folder!r} has version {stored['version']!r}; expected {VERSION}, of this "
            f"version of everylabel: {CURE}"
        )
    files, sizes = [Stamp(**one) for one in stored["files"]], stored["parts"]
    if stored["version"] == 1:  # first row, rows, and stretches of files: (file, start, rows)
        for file, _, n in (stretch for _, _, stretches in sizes for stretch in stretches):
            files[file] = files[file]._replace(rows=files[file].rows + n)
        sizes = [n for _, n, _ in sizes]
    about, ending, source = stored["about"], stored["ending"], stored.get("source", "")
    return Manifest(folder, about, ending, parts_of(sizes), files, source)


def is_changed(file: str, then: Stamp, content: bool = True) -> bool:
    """Return whether a file has another size or content; its time may change."""
    now = filesystem.stamp(file)
    if now.size != then.size or not content:
        return now.size != then.size
    return now[:3] != then[:3] and filesystem.digest(file) != then.digest


def is_shards(place: str) -> bool:
    """Return whether a place is a folder that `embed_shards` has made or started."""
    try:
        return _stored(place) is not None
    except (EverylabelError, OSError):
        return False


def shards_behind(source: str) -> str | None:
    """Return the folder of shards to label: the source itself, or the source of a project's folder."""
    if is_shards(source):
        return source
    path = Path(source)
    before = remembered(path) if path.is_dir() and path.name.endswith(ENDING) else None
    if before is None or before.source == IN_MEMORY:
        return None
    check_source(path, before.source, reading=True)  # opening the project checks more
    return before.source if is_shards(before.source) else None


def finished_shards(folder: str) -> Manifest:
    """Return the manifest of a folder of features, or raise while shards are missing."""
    manifest = read_manifest(folder)
    if manifest is None or manifest.ending != SHARDS:
        raise EverylabelError(
            f"folder {folder!r} holds no shards; expected one that everylabel embed -o wrote"
        )
    missing = [manifest.name(part) for part in manifest.missing()]
    if missing:
        raise EverylabelError(
            f"folder {folder!r} lacks {len(missing):,} of {len(manifest.parts):,} shards "
            f"({listed(missing, 3)}); expected all: run the command that started it again"
        )
    return manifest


def _stored(folder: str) -> dict[str, Any] | None:
    """Return the content of a folder's manifest; other programs' files of this name are ignored."""
    for name in (MANIFEST, BESIDE_TABLES):
        place = filesystem.inside(folder, name)
        if filesystem.is_file(place):
            with filesystem.opened(place) as file, suppress(ValueError, RecursionError):
                stored = json.loads(file.read().decode("utf-8", "surrogateescape"))
                if isinstance(stored, dict) and stored.get("format") == FORMAT:
                    return stored
    return None


def _write(manifest: Manifest) -> None:
    stored = {
        "format": FORMAT,
        "version": VERSION,
        "about": dict(manifest.about),
        "ending": manifest.ending,
        "rows": manifest.rows,
        "source": manifest.source,
        "files": [one._asdict() for one in manifest.files],
        "parts": [part.rows for part in manifest.parts],
    }
    text = json.dumps(stored, ensure_ascii=False).encode("utf-8", "surrogateescape")
    name = MANIFEST if manifest.ending == SHARDS else BESIDE_TABLES
    filesystem.write(filesystem.inside(manifest.folder, name), lambda file: file.write(text))


def _check_about(before: Manifest, about: Mapping[str, Any], ending: str) -> None:
    now, was = {**about, "--format": ending}, {**before.about, "--format": before.ending}
    for name in dict.fromkeys([*was, *now]):
        if was.get(name) != now.get(name):
            raise EverylabelError(
                f"folder {before.folder!r} was started with {name} {was.get(name)}; this is {name} "
                f"{now.get(name)}: {CURE}"
            )


def _check_files(before: Manifest, source: str, files: Sequence[str]) -> None:
    """Raise if the content of a file has changed since the folder was started."""
    was, now = [one.name for one in before.files], [filesystem.base_name(file) for file in files]
    if was != now:
        raise EverylabelError(
            f"folder {before.folder!r} was started with {len(was)} file(s) ({listed(was, 3)}); "
            f"source {source!r} has {len(now)} ({listed(now, 3)}) now: {CURE}"
        )
    for file, then in zip(files, before.files, strict=True):
        if is_changed(file, then):
            raise EverylabelError(
                f"source {file!r} has changed since folder {before.folder!r} was started: {CURE}"
            )
