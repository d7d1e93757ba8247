"""A project's folder may come from anybody: what is in it is no link to a file of the user's."""

import os
from pathlib import Path

from everylabel.core.errors import EverylabelError

LATER = "next"  # the folder in it of features that take the place of older ones


def check_own_files(folder: Path) -> None:
    """Refuse a folder that holds links, pipes or devices: writing would go through them. It may be a link."""
    for place in (folder, folder / LATER):
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
