"""Files of a project's folder that say whether they are what was written.

A JSON object holds a digest over all else in it; that of features names the digests of the files beside it.
What versions before wrote holds none, and is taken as it is.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.projects.database.chain import digest

DIGEST = "digest"
OWN = 0o600  # a file that nobody else on this machine reads


class Unsealed(EverylabelError):
    """A file is not what was written."""

    def __init__(self) -> None:
        super().__init__(
            f"its {DIGEST!r} is not that of what it says; take that line out if you changed it on purpose"
        )


def write_sealed(path: Path, about: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON object with its digest, for its owner's eyes only."""
    sealed = {**about, DIGEST: _digest(about)}
    text = json.dumps(sealed, indent=indent, ensure_ascii=False)
    write_atomically(path, lambda file: file.write(text.encode()), mode=OWN)


def read_sealed(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raise if it is not what was written."""
    about = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(about, dict):
        raise ValueError("it is no JSON object")
    if about.pop(DIGEST, None) not in (None, _digest(about)):
        raise Unsealed
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
