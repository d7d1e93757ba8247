"""Files of a dataset: downloads and unpacked archives. Each appears in its place whole or not at all."""

import hashlib
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from everylabel.core.errors import EverylabelError
from everylabel.data.cache import make_folder

BLOCK = 2**20
Progress = Callable[[int, int | None], object]


class NotThere(EverylabelError):
    """A folder lacks the requested files."""


SUFFIXES = (".tar.gz", ".tgz", ".zip")


def unpacked(archive: Path) -> Path:
    """Return the folder beside an archive with its content; unpack it if necessary."""
    folder = archive.with_name(f"{archive.name}.unpacked")
    if folder.is_dir():
        return folder
    part = Path(tempfile.mkdtemp(dir=archive.parent, suffix=".part"))
    try:
        options = {} if archive.suffix == ".zip" else {"filter": "data"}  # nothing outside of the folder
        shutil.unpack_archive(archive, part, **options)  # type: ignore[arg-type]
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
    """Return `path`; download the file if it is missing, check it otherwise."""
    if path.exists():
        check_sum(path, sha256)
        return path
    if not url.startswith(("http://", "https://")):
        raise EverylabelError(f"source is {url!r}; expected a path, or a URL that starts with https://")
    make_folder(path.parent)
    part = path.with_name(f"{path.name}.part")
    try:
        _download(url, part, progress)
        check_sum(part, sha256)
        part.replace(path)
    except (HTTPException, OSError) as error:
        raise EverylabelError(
            f"{url} cannot be downloaded ({getattr(error, 'reason', None) or error}); put {path.name} into "
            f"{str(path.parent)!r}, or pass source= its folder; a proxy is taken from HTTPS_PROXY"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return path


def _download(url: str, part: Path, progress: Progress | None) -> None:
    request = Request(url, headers={"User-Agent": "everylabel"})
    with urlopen(request, timeout=30) as response, part.open("wb") as file:
        if response.headers.get_content_type() == "text/html":
            raise EverylabelError(
                f"{url} answered with a web page instead of the file; open it in a browser, and pass source= "
                "the file you get there"
            )
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        while block := response.read(BLOCK):
            file.write(block)
            if progress is not None:
                progress(file.tell(), total)
        if total is not None and file.tell() < total:
            raise OSError(f"the connection ended after {file.tell():,} of {total:,} bytes")


def check_sum(path: Path, sha256: str | None) -> None:
    """Raise if a file has another sum."""
    if sha256 is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise EverylabelError(
            f"{path.name.removesuffix('.part')} has SHA-256 {found}; expected {sha256}: it is damaged or "
            f"another version; delete {str(path)!r} and fetch it again"
        )
