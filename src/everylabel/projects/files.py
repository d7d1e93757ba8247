"""Files of a project's folder: plain files, private to their owner, with digests that show damage.

`project.json` notes source, name, id and options for the next start (`remember`, `remembered`).

The folder may come from anybody, so links in it are refused. A JSON object holds a digest over all else in
it; the record of features also names the digests of the files beside it. Version 0.1 wrote no digests; such
files are read as they are.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.data.options import Options
from everylabel.log.engines import PRIVATE
from everylabel.log.integrity import digest

DIGEST = "digest"
LATER = "next"  # the folder in it of features that replace older ones
JOINED = "joined"  # the folder in it of features that were embedded beside a server
FILE = "project.json"


def check_own_files(folder: Path) -> None:
    """Refuse a folder that holds links, pipes or devices: writing would go through them. It may be a link."""
    for place in (folder, folder / LATER, folder / JOINED):
        if not place.is_dir():
            continue
        with os.scandir(place) as entries:
            odd = sorted(entry.path for entry in entries if not _is_own(entry))
        if odd:
            raise EverylabelError(
                f"{odd[0]!r} is a link or no plain file, and in a project's folder would be written through; "
                "expected plain files only: if it is yours put the file itself there, else remove it"
            )


def _is_own(entry: "os.DirEntry[str]") -> bool:
    """Return whether it is a file or folder by itself, or an editor's note that a file is being written."""
    plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return plain or entry.name.startswith(".#")  # a name that we never write


class OtherDigest(EverylabelError):
    """A file is not what was written."""

    def __init__(self) -> None:
        super().__init__(
            f"its {DIGEST!r} is not that of what it says; take that line out if you changed it on purpose"
        )


def write_json(path: Path, about: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON object with its digest, for its owner's eyes only."""
    text = json.dumps({**about, DIGEST: _digest(about)}, indent=indent, ensure_ascii=False)
    write_atomically(path, lambda file: file.write(text.encode()), mode=PRIVATE)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raise if it is not what was written."""
    about = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(about, dict):
        raise ValueError("it is no JSON object")
    if about.pop(DIGEST, None) not in (None, _digest(about)):
        raise OtherDigest
    return about


def file_digest(path: Path) -> str:
    """Return a hash of a file's content."""
    about = path.stat()
    return _file_digest(path, about.st_ino, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)
def _file_digest(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(about: dict[str, Any]) -> str:
    return digest(json.dumps(about, sort_keys=True))


class Remembered(NamedTuple):
    """What a folder knows of its project. Its log goes by `name`, whatever the source is called later.

    `id` tells it from others of that name, in a store they share. `log` tells the log in the folder from
    others, by when it was begun; "" where none was, or by an earlier version.
    """

    source: str
    name: str
    options: Options
    id: str = ""
    log: str = ""


def remember(folder: Path, project: Remembered) -> None:
    """Note a project's source, name and options in its folder."""
    about = {"source": project.source, "name": project.name, "id": project.id, "log": project.log}
    about |= asdict(project.options)
    write_json(folder / FILE, about, indent=1)


def remembered(folder: Path) -> Remembered | None:
    """Return what was noted last time, None where nothing was; a folder that holds links is refused."""
    check_own_files(folder)
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = read_json(path)
        stored_options = {field.name: stored.get(field.name) for field in fields(Options)}
        classes: Sequence[str] | None = stored_options.pop("classes")
        options = Options(**stored_options, classes=None if classes is None else tuple(classes))
        known = (str(stored.get(name) or "") for name in ("id", "log"))
        return Remembered(str(stored["source"]), str(stored["name"]), options, *known)
    except OtherDigest as error:
        raise EverylabelError(f"project file {str(path)!r} is damaged: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EverylabelError(
            f"project file {str(path)!r} is damaged ({error!r}); remove it and pass the source's options "
            "again: labels are kept elsewhere"
        ) from error
