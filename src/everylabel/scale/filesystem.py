"""Files of this machine, and of any other store that fsspec knows (s3://, gs://, abfs://, memory:// ...).

A file is written whole or not at all: under another name first, then renamed.
"""

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from everylabel.core.errors import EverylabelError, need
from everylabel.core.files import write_atomically
from everylabel.data.cache import make_folder


class Stamp(NamedTuple):
    """The name, size and time of a file; once it was read, also its digest and number of rows."""

    name: str
    size: int
    changed: str
    digest: str = ""
    rows: int = 0


def is_remote(place: str) -> bool:
    """Return whether a place is the address of another store."""
    return "://" in place


def absolute(place: str) -> str:
    """Return a place as workers with another working directory find it."""
    return place if is_remote(place) else str(Path(place).absolute())


def base_name(place: str) -> str:
    """Return the last part of a place."""
    return place.rstrip("/").rsplit("/", 1)[-1]


def inside(folder: str, name: str) -> str:
    """Return the place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def is_folder(place: str) -> bool:
    """Return whether a place is a folder."""
    return bool(_files(place).isdir(place)) if is_remote(place) else Path(place).is_dir()


def exists(place: str) -> bool:
    """Return whether a place is a file or a folder."""
    return bool(_files(place).exists(place)) if is_remote(place) else Path(place).exists()


def is_file(place: str) -> bool:
    """Return whether a regular file is there: reading a pipe or device may never end."""
    return bool(_files(place).isfile(place)) if is_remote(place) else Path(place).is_file()


def list_files(folder: str) -> list[str]:
    """Return the names of the files in a folder, sorted; none if there is no folder."""
    if not is_folder(folder):
        return []
    if not is_remote(folder):
        return sorted(path.name for path in Path(folder).iterdir() if path.is_file())
    found = _files(folder).ls(folder, detail=True)
    return sorted(base_name(str(one["name"])) for one in found if one["type"] == "file")


def opened(place: str) -> IO[bytes]:
    """Open a file for reading."""
    if is_remote(place):
        file: IO[bytes] = _files(place).open(place, "rb")
        return file
    return Path(place).open("rb")


@contextmanager
def local_copy(place: str, most: int = -1) -> Iterator[Path]:
    """Yield a path on this machine: a temporary copy (of the first `most` bytes) if the file is elsewhere."""
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
    """Return the stamp of a file, without reading it; for another store the time is its own content mark."""
    if is_remote(place):
        files = _files(place)
        return Stamp(base_name(place), int(files.size(place) or 0), str(files.ukey(place)))
    about = Path(place).stat()
    return Stamp(base_name(place), about.st_size, str(about.st_mtime_ns))


def digest(place: str) -> str:
    """Return a hash of a file's content; for another store its own content mark."""
    if is_remote(place):
        return str(_files(place).ukey(place))
    with Path(place).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def write(place: str, fill: Callable[[Any], Any]) -> None:
    """Write a file by `fill(file)`; it is in place once it is whole, never before."""
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
            f"{place!r} cannot be reached ({error}); expected a file or folder on this machine, or an "
            "address that fsspec knows"
        ) from error
