"""Files of this machine, and of any other store that fsspec knows (s3://, gs://, abfs://, memory:// ...).

A file is written whole or not at all: here as `core/files.py` does it, elsewhere under another name first.
"""

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from everylabel.core.errors import EverylabelError, need
from everylabel.core.files import write_atomically
from everylabel.data.cache import make_folder


class Stamp(NamedTuple):
    """How a file is recognised: name, size and time; once it was read, its digest and number of rows."""

    name: str
    size: int
    changed: str
    digest: str = ""
    rows: int = 0

    def same_file(self, other: "Stamp") -> bool:
        """Return whether name, size and time are the same."""
        return self[:3] == other[:3]


def is_remote(place: str) -> bool:
    """Return whether a place is the address of another store."""
    return "://" in place


def absolute(place: str) -> str:
    """Return a place as workers in another folder can find it."""
    return place if is_remote(place) else str(Path(place).absolute())


def base_name(place: str) -> str:
    """Return the last part of a place."""
    return place.rstrip("/").rsplit("/", 1)[-1]


def inside(folder: str, name: str) -> str:
    """Return the place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def is_folder(place: str) -> bool:
    """Return whether a folder is there."""
    return bool(_files(place).isdir(place)) if is_remote(place) else Path(place).is_dir()


def exists(place: str) -> bool:
    """Return whether a file or a folder is there."""
    return bool(_files(place).exists(place)) if is_remote(place) else Path(place).exists()


def is_plain(place: str) -> bool:
    """Return whether a file with content is there; a pipe, a device or a file of /proc may have no end."""
    if is_remote(place):
        return bool(_files(place).isfile(place)) and bool(_files(place).size(place))
    try:
        about = Path(place).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(about.st_mode) and about.st_size > 0


def list_files(folder: str) -> list[str]:
    """Return the names of the files in a folder, sorted; none if it is not there."""
    if not is_folder(folder):
        return []
    if not is_remote(folder):
        return sorted(path.name for path in Path(folder).iterdir() if path.is_file())
    found = _files(folder).ls(folder, detail=True)
    return sorted(base_name(str(one["name"])) for one in found if one["type"] == "file")


def opened(place: str) -> IO[bytes]:
    """Return a file that is open for reading."""
    if is_remote(place):
        file: IO[bytes] = _files(place).open(place, "rb")
        return file
    return Path(place).open("rb")


@contextmanager
def local_copy(place: str, most: int = -1) -> Iterator[Path]:
    """Yield a path on this machine; of another store's file a temporary copy, of its first bytes if given."""
    if not is_remote(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory() as folder, opened(place) as file:
        path = Path(folder) / base_name(place)
        with path.open("wb") as copy:
            if most < 0:
                shutil.copyfileobj(file, copy)
            else:
                copy.write(file.read(most))
        yield path


def stamp(place: str) -> Stamp:
    """Return how a file is recognised, without reading it; another store has its own mark of the content."""
    if is_remote(place):
        files = _files(place)
        return Stamp(base_name(place), int(files.size(place) or 0), str(files.ukey(place)))
    about = Path(place).stat()
    return Stamp(base_name(place), about.st_size, str(about.st_mtime_ns))


def digest(place: str) -> str:
    """Return a hash of a file's content; another store has its own mark of it."""
    if is_remote(place):
        return str(_files(place).ukey(place))
    with Path(place).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def write(place: str, fill: Callable[[Any], Any]) -> None:
    """Write a file by `fill(file)`, and put it in place once it is whole."""
    if not is_remote(place):
        make_folder(Path(place).parent)
        write_atomically(Path(place), fill)
        return
    files, other = _files(place), f"{place}.{secrets.token_hex(6)}.part"
    handle, here = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "w+b") as file:
            fill(file)
        files.makedirs(place.rstrip("/").rsplit("/", 1)[0], exist_ok=True)
        files.put_file(here, other)
        files.mv(other, place)
    finally:
        Path(here).unlink()


def _files(place: str) -> Any:
    fsspec = need("fsspec", "ray", f"reading {place!r}")
    try:
        return fsspec.core.url_to_fs(place)[0]
    except (ImportError, ValueError) as error:
        raise EverylabelError(
            f"{place!r} cannot be reached ({error}); expected a file or folder here, or an address that "
            "fsspec knows"
        ) from error
