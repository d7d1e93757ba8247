"""A folder that is filled part by part, and can be gone on with after a kill at any moment.

A manifest, written first, says what the parts are made of and by: the model, the options, the source's files,
and which rows each part has. A part is in the folder whole or not at all, under a name that the manifest
gives it, so what is missing is what is not there. What has changed since is refused, never mixed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from everylabel.core.errors import EverylabelError, listed
from everylabel.scale import places
from everylabel.scale.places import Stamp
from everylabel.scale.sources import Part, Stretch

MANIFEST = "manifest.json"
BESIDE_TABLES = "_manifest.json"  # readers of a folder of tables leave out what begins so
SHARDS = ".npy"  # the ending of features
FORMAT, VERSION = "everylabel parts", 1
HEAD, MARK = 4096, re.compile(rb'"format"\s*:\s*"everylabel parts"')  # bytes that tell a manifest as ours
LARGEST = 2**26  # bytes of a manifest: some 400,000 files
CURE = "name another folder with -o, or delete this one to begin anew"


class Parts(Protocol):
    """What is cut into parts."""

    @property
    def place(self) -> str:
        """Return where it lies."""

    @property
    def files(self) -> Sequence[str]:
        """Return its files."""

    def stamps(self) -> list[Stamp]:
        """Return what its files are known by, without reading them."""

    def planned(self, size: int) -> tuple[list[Part], list[Stamp]]:
        """Return its parts, and what its files hold."""


@dataclass(frozen=True)
class Parted:
    """A folder and its manifest."""

    folder: str
    about: Mapping[str, Any]  # what the parts depend on beside the source, by what a user calls it
    ending: str
    parts: Sequence[Part]
    files: Sequence[Stamp]
    source: str = ""  # where the source lay; earlier versions did not note it

    @property
    def rows(self) -> int:
        """How many rows there are in all parts."""
        return sum(part.rows for part in self.parts)

    def place(self, part: Part) -> str:
        """Return where a part lies, or will."""
        return places.inside(self.folder, self.name(part))

    def name(self, part: Part) -> str:
        """Return the name of a part's file; by name, they sort as their rows do."""
        return f"part-{part.number:06d}{self.ending}"

    def missing(self) -> list[Part]:
        """Return the parts that are not there yet."""
        there = set(places.listed_in(self.folder))
        return [part for part in self.parts if self.name(part) not in there]


def begun(folder: str, about: Mapping[str, Any], ending: str, source: Parts, size: int) -> Parted:
    """Return a folder to fill: a new one, or one that was begun by the same model, options and source."""
    before = read_parted(folder)
    if before is None:
        others = places.listed_in(folder)
        if others:
            raise EverylabelError(
                f"folder {folder!r} holds other files ({listed(others, 3)}) and no {MANIFEST} that "
                f"everylabel wrote; {CURE}"
            )
        parts, files = source.planned(size)
        fresh = Parted(folder, about, ending, parts, files, places.whole(source.place))
        _write(fresh)
        return fresh
    _check_about(before, about, ending)
    _check_files(before, source)
    return before


def read_parted(folder: str) -> Parted | None:
    """Return what a folder's manifest says; None if it has none, or that of another program."""
    place = _manifest(folder)
    if place is None:
        return None
    try:
        return _parted(folder, _stored(place))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise _unreadable(place, error) from error


def is_shards(place: str) -> bool:
    """Return whether a place is a folder that `embed_shards` has made or begun, by its manifest's mark."""
    try:
        return places.is_folder(place) and _manifest(place) is not None
    except (EverylabelError, OSError):
        return False


def _manifest(folder: str) -> str | None:
    """Return where a folder's manifest is: a plain file that says at its beginning that it is one of ours."""
    for name in (MANIFEST, BESIDE_TABLES):
        place = places.inside(folder, name)
        try:
            if places.is_plain(place):
                with places.opened(place) as file:
                    head = file.read(HEAD)
                if head.lstrip().startswith(b"{") and MARK.search(head):
                    return place
        except OSError as error:
            raise _unreadable(place, error) from error
    return None


def _stored(place: str) -> dict[str, Any]:
    with places.opened(place) as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    stored: dict[str, Any] = json.loads(text.decode("utf-8", "surrogateescape"))
    if stored["format"] != FORMAT or stored["version"] != VERSION:
        raise ValueError(f"it is {stored['format']!r}, version {stored['version']!r}")
    return stored


def _parted(folder: str, stored: Mapping[str, Any]) -> Parted:
    files = [Stamp(**one) for one in stored["files"]]
    parts = [
        Part(number, first, rows, tuple(Stretch(*stretch) for stretch in stretches))
        for number, (first, rows, stretches) in enumerate(stored["parts"])
    ]
    _check_parts(parts, len(files))
    known = dict(stored["about"]), str(stored["ending"]), parts, files, str(stored.get("source") or "")
    return Parted(folder, *known)


def _check_parts(parts: Sequence[Part], n_files: int) -> None:
    """Refuse no parts, parts that do not follow each other, and stretches that are not what a part has."""
    if not parts:
        raise ValueError("it names no parts")
    at = 0
    for part in parts:
        numbers = part.first, part.rows, *chain.from_iterable(part.stretches)
        if not all(isinstance(one, int) and 0 <= one < 2**63 for one in numbers):
            raise ValueError(f"part {part.number} has other than whole numbers")
        if part.first != at or part.rows == 0:
            raise ValueError(
                f"part {part.number} has {part.rows} rows from {part.first} on, not from {at} on"
            )
        if sum(one.rows for one in part.stretches) != part.rows:
            raise ValueError(f"part {part.number} has {part.rows} rows, and its stretches others")
        if any(one.file >= n_files for one in part.stretches):
            raise ValueError(f"part {part.number} is of files that it does not name")
        at += part.rows


def _unreadable(place: str, error: BaseException) -> EverylabelError:
    return EverylabelError(
        f"{place!r} cannot be read ({error}); expected a manifest that this everylabel writes: {CURE}"
    )


def finished_shards(folder: str) -> Parted:
    """Return the manifest of a folder of features, if all shards are there."""
    parted = read_parted(folder)
    if parted is None or parted.ending != SHARDS:
        raise EverylabelError(
            f"folder {folder!r} holds no shards; expected one that everylabel embed -o wrote"
        )
    return complete(parted)


def complete(parted: Parted) -> Parted:
    """Return a folder and its manifest, if all parts are there."""
    missing = parted.missing()
    if missing:
        names = listed([parted.name(part) for part in missing], 3)
        raise EverylabelError(
            f"folder {parted.folder!r} lacks {len(missing):,} of {len(parted.parts):,} shards ({names}); "
            "expected all: run the command that began it once more"
        )
    return parted


def _write(parted: Parted) -> None:
    stored = {
        "format": FORMAT,
        "version": VERSION,
        "about": dict(parted.about),
        "ending": parted.ending,
        "rows": parted.rows,
        "source": parted.source,
        "files": [one._asdict() for one in parted.files],
        "parts": [part[1:] for part in parted.parts],  # first row, rows, stretches
    }
    text = json.dumps(stored, ensure_ascii=False).encode("utf-8", "surrogateescape")
    if len(text) > LARGEST:
        raise EverylabelError(
            f"a manifest of the {len(parted.files):,} files and {len(parted.parts):,} parts of "
            f"{parted.source!r} has {len(text):,} bytes; expected at most {LARGEST:,}: fewer, larger files"
        )
    name = MANIFEST if parted.ending == SHARDS else BESIDE_TABLES
    places.write(places.inside(parted.folder, name), lambda file: file.write(text))


def _check_about(before: Parted, about: Mapping[str, Any], ending: str) -> None:
    now, was = ({**one, "--format": end} for one, end in ((about, ending), (before.about, before.ending)))
    other = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    if other:
        name = other[0]
        raise EverylabelError(
            f"folder {before.folder!r} was begun with {name} {was.get(name)}; this is {name} "
            f"{now.get(name)}: {CURE}"
        )


def _check_files(before: Parted, source: Parts) -> None:
    """Refuse files that hold else than when the folder was begun; another time alone is no reason."""
    stamps = source.stamps()
    if [one.name for one in stamps] != [one.name for one in before.files]:
        raise EverylabelError(
            f"folder {before.folder!r} was begun with {len(before.files)} file(s) ({_names(before.files)}); "
            f"source {source.place!r} has {len(stamps)} ({_names(stamps)}) now: {CURE}"
        )
    for file, now, was in zip(source.files, stamps, before.files, strict=True):
        if now.same_file(was) or (now.size == was.size and places.digest(file) == was.digest):
            continue
        raise EverylabelError(f"source {file!r} has changed since folder {before.folder!r} was begun: {CURE}")


def _names(files: Sequence[Stamp]) -> str:
    return listed([one.name for one in files], 3)
