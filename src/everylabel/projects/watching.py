"""A source that is looked at again and again: what has come since, as far as it is written to its end."""

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data.images import open_image
from everylabel.data.items import Items
from everylabel.data.options import Options
from everylabel.data.read import check_show
from everylabel.data.readers.folder import read_folder
from everylabel.data.readers.table import SUFFIXES, read_table
from everylabel.data.readers.whole_rows import whole_rows


class Look(NamedTuple):
    """A source at one moment; unfinished: it has a last row that somebody is writing."""

    items: Items
    unfinished: bool = False


def read_watched(source: str, options: Options) -> Items:
    """Return what a source holds that is written to its end, as `data.read.read` does of all."""
    path = _watchable(source)
    check_show(path, options)
    return _read(path, options).items


class Watched:
    """A table or a folder of images, to be looked at."""

    def __init__(self, source: str, options: Options) -> None:
        self.path, self.options = _watchable(source), options
        self._seen: object = None  # what it looked like when last read to its end
        self._sizes: dict[Path, tuple[int, int]] = {}  # of images that are not in the pool yet

    def look(self) -> Look | None:
        """Return the source, None if it is as it was at the last look; an error says why it is unreadable."""
        seen: object = None if self.path.is_dir() else _stamp(self.path)
        if seen is not None and seen == self._seen:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EverylabelWarning)  # told when the command began
            found = _read(self.path, self.options)
        if seen is None:
            seen = tuple(found.items.digests)
            if seen == self._seen:
                return None
        self._seen = None if found.unfinished else seen
        return found

    def again(self) -> None:
        """Have the next look see all, as if it had changed."""
        self._seen = None

    def whole(self, items: Items, places: Sequence[int]) -> list[int]:
        """Return those of these items that are whole: images as large as at the last look, and readable."""
        if items.kind != "image":
            return list(places)
        before, ready = self._sizes, list[int]()
        self._sizes = {}
        for i in places:
            path = items.items[i]
            size = _stamp(path) if isinstance(path, Path) else None
            if size is not None:
                self._sizes[path] = size
            if size is not None and before.get(path) == size and open_image(path) is not None:
                ready.append(i)
        if len(ready) < len(places):
            self.again()
        return ready


def _watchable(source: str) -> Path:
    path = Path(source)
    if not (path.is_absolute() and path.exists()) or not (path.is_dir() or path.suffix.lower() in SUFFIXES):
        raise EverylabelError(
            f"--watch goes with a table ({', '.join(SUFFIXES)}) or a folder of images; source is {source!r}"
        )
    return path


def _read(path: Path, options: Options) -> Look:
    if path.is_dir():
        return Look(read_folder(path, options))
    data, unfinished = whole_rows(path, options.encoding)
    with tempfile.TemporaryDirectory(prefix="everylabel-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        try:
            return Look(read_table(copy, options, base=path.parent), unfinished)
        except EverylabelError as error:
            raise EverylabelError(str(error).replace(str(copy), str(path))) from error


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns
