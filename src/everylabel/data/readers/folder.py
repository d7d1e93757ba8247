"""A folder of images: labels from its sub-folders, broken files left out and told."""

import warnings
from pathlib import Path

from everylabel.core.errors import EverylabelError, EverylabelWarning, listed
from everylabel.data.images import SUFFIXES, open_image


def find_images(folder: Path) -> tuple[list[Path], list[str | None]]:
    """Return the images of a folder in the order of their names, each with its sub-folder's name."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise EverylabelError(
            f"folder {str(folder)!r} holds no images; expected files that end in one of {sorted(SUFFIXES)}"
        )
    labels = [path.relative_to(folder).parts[:-1] for path in paths]
    return paths, [parts[0] if parts else None for parts in labels]


def readable(paths: list[Path]) -> list[bool]:
    """Return which images can be opened; a warning counts and lists the others."""
    good = [open_image(path) is not None for path in paths]
    broken = [str(path) for path, fine in zip(paths, good, strict=True) if not fine]
    if broken:
        warnings.warn(
            f"{len(broken)} of {len(paths)} images cannot be read and were skipped: {listed(broken)}",
            EverylabelWarning,
            stacklevel=4,
        )
    if len(broken) == len(paths):
        raise EverylabelError(f"none of the {len(paths)} images can be read: {listed(broken)}")
    return good
