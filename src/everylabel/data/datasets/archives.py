"""Archives and what is in them: unpacked whole or not at all, found wherever they lie in a folder."""

import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from everylabel.core.errors import EverylabelError


class NotThere(EverylabelError):
    """A folder does not hold what was looked for."""


SUFFIXES = (".tar.gz", ".tgz", ".zip")


def unpacked_to(archive: Path) -> Path:
    """Return where an archive is unpacked to."""
    return archive.with_name(archive.name + ".unpacked")


def unpacked(archive: Path) -> Path:
    """Return the folder an archive is unpacked to, beside it; unpack it if that has not been done."""
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
    raise NotThere(f"folder {str(folder)!r} lacks what belongs there; expected {', '.join(names)}")
