"""Files of this machine, and of any other store that fsspec knows (s3://, gs://, abfs://, memory:// ...).

A file is written whole or not at all: under another name first, then renamed.
"""

import hashlib
import secrets
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


def is_file(place: str) -> bool:
    """Return whether a regular file is there: reading a pipe or device may never end."""
    return bool(_files(place).isfile(place)) if is_remote(place) else Path(place).is_file()


def list_files(folder: str) -> list[str]:
    """Return the names of the files in a folder, sorted; none if there is no folder."""
    if is_remote(folder):
        return sorted(base_name(name) for name in _files(folder).find(folder, maxdepth=1))
    return sorted(path.name for path in Path(folder).glob("*") if path.is_file())


def opened(place: str) -> IO[bytes]:
    """Open a file for reading."""
    return _files(place).open(place, "rb") if is_remote(place) else Path(place).open("rb")


@contextmanager
def local_copy(place: str) -> Iterator[Path]:
    """Yield a path on this machine: a temporary copy if the file is elsewhere."""
    if not is_remote(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / base_name(place)
        _files(place).get_file(place, str(path))
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
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / base_name(place)
        with here.open("w+b") as file:
            fill(file)
        files.makedirs(place.rsplit("/", 1)[0], exist_ok=True)
        files.put_file(str(here), other)
        files.mv(other, place)


def _files(place: str) -> Any:
    fsspec = need("fsspec", "ray", f"reading {place!r}")
    try:
        return fsspec.core.url_to_fs(place)[0]
    except (ImportError, ValueError) as error:
        raise EverylabelError(
            f"{place!r} cannot be reached ({error}); expected a file or folder on this machine, or an "
            "address that fsspec knows"
        ) from error
