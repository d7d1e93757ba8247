"""Files of a dataset: downloads that are checked and resumed, and unpacked archives.

A file or a folder appears in its place whole or not at all. While a download runs, FILE.part grows beside
FILE; FILE.part.tag holds the server's version of it, so that the download of a changed file starts over.
pooch, the usual library, starts over after each broken connection and, if no sum is known, accepts a log-in
page as the file.
"""

import hashlib
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.data.cache import make_folder

BLOCK = 2**20
Progress = Callable[[int, int | None], object]


class NotThere(EverylabelError):
    """A folder lacks the requested files."""


SUFFIXES = (".tar.gz", ".tgz", ".zip")


def unpacked_to(archive: Path) -> Path:
    """Return where an archive is unpacked to."""
    return archive.with_name(archive.name + ".unpacked")


def unpacked(archive: Path) -> Path:
    """Return the folder beside an archive with its content; unpack it if necessary."""
    folder = unpacked_to(archive)
    if folder.is_dir():
        return folder
    part = Path(tempfile.mkdtemp(dir=archive.parent, suffix=".part"))
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as file:
                file.extractall(part)  # takes no path out of the folder
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(part, filter="data")
        part.replace(folder)
    except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
        raise EverylabelError(
            f"path {str(archive)!r} cannot be unpacked ({error}); delete it and fetch it again"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def locate(folder: Path, *names: str) -> Path:
    """Return the folder, this one or one inside it, that holds all the named files."""
    first = Path(names[0])
    for path in (folder / first, *sorted(folder.rglob(first.name))):
        root = path.parents[len(first.parts) - 1]
        if all((root / name).exists() for name in names):
            return root
    raise NotThere(f"folder {str(folder)!r} is incomplete; expected {', '.join(names)}")


def fetch(url: str, path: Path, sha256: str | None = None, progress: Progress | None = None) -> Path:
    """Return `path`; download the file if it is missing, check it otherwise.

    Without a known sum, the sum of the first download is kept in FILE.sha256 and checked later.
    """
    known = sha256 or recorded(path)
    if path.exists():
        check_sum(path, known)
        return path
    make_folder(path.parent)
    part = path.with_name(path.name + ".part")
    try:
        _download(url, part, progress)
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        if isinstance(error, EverylabelError):
            raise
        raise EverylabelError(
            f"{url} cannot be downloaded ({getattr(error, 'reason', None) or error}); put {path.name} into "
            f"{str(path.parent)!r}, or pass source= its folder; a proxy is taken from HTTPS_PROXY"
        ) from error
    try:
        with part.open("rb") as file:
            start = file.read(512).lower()
        if b"<html" in start or b"<!doctype" in start:  # a proxy's or log-in page
            raise _page(url)
        check_sum(part, known)
    except EverylabelError:
        part.unlink()
        raise
    finally:
        _tag(part).unlink(missing_ok=True)
    if known is None:
        write_atomically(_record(path), lambda file: file.write(sum_of(part).encode()))
    part.replace(path)
    return path


def recorded(path: Path) -> str | None:
    """Return the sum recorded at the first download of a file."""
    return _record(path).read_text().strip() if _record(path).exists() else None


def forget(path: Path) -> None:
    """Remove a downloaded file and its recorded sum."""
    for file in (path, _record(path)):
        file.unlink(missing_ok=True)


def check_sum(path: Path, sha256: str | None) -> None:
    """Raise if a file has another sum."""
    found = sha256 and sum_of(path)
    if found != sha256:
        raise EverylabelError(
            f"{path.name.removesuffix('.part')} has SHA-256 {found}; expected {sha256}: it is damaged or "
            f"another version; delete {str(path)!r} and fetch it again"
        )


def sum_of(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(url: str, part: Path, progress: Progress | None) -> None:
    """Append to `part` until the file is complete."""
    if not url.startswith(("http://", "https://")):
        raise EverylabelError(f"source is {url!r}; expected a path, or a URL that starts with https://")
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "everylabel", "Accept-Encoding": "identity"}
    if have and _tag(part).exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": _tag(part).read_text()}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        if response.headers.get_content_type() == "text/html":
            raise _page(url)
        have = have if response.status == 206 else 0  # continue, or start over
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        version = response.headers.get("ETag") or response.headers.get("Last-Modified")
        _tag(part).unlink(missing_ok=True)
        if version:  # a server without versions: start over the next time
            _tag(part).write_text(version)
        with part.open("ab" if have else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                if progress is not None:
                    progress(file.tell(), total)
    size = part.stat().st_size
    if total is not None and size < total:
        raise ValueError(f"the connection ended after {size:,} of {total:,} bytes; call again to continue")


def _page(url: str) -> EverylabelError:
    return EverylabelError(
        f"{url} answered with a web page instead of the file; open it in a browser, and pass source= "
        "the file you get there"
    )


def _tag(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
