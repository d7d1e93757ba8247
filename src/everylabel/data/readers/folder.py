"""A folder of images; the names of its sub-folders can be their labels."""

import os
from pathlib import Path

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.classes import check_classes, label_numbers
from everylabel.data.digests import image_digests
from everylabel.data.display import Pictures
from everylabel.data.items import Items, Options, unique_ids
from everylabel.data.media import SUFFIXES

FOLDER_LABELS = "folder"  # --label-column folder: an image's sub-folder is its label


def read_folder(folder: Path, options: Options) -> Items:
    """Return the images of a folder, sorted by name, with labels if requested."""
    if options.label_column not in (None, FOLDER_LABELS):
        raise EverylabelError(
            f"--label-column is {options.label_column!r}; a folder of images has no columns: expected "
            f"{FOLDER_LABELS!r}, which takes the names of its sub-folders as labels"
        )
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise EverylabelError(
            f"folder {str(folder)!r} holds no images; expected files that end in one of {sorted(SUFFIXES)}"
        )
    inside = [path.relative_to(folder) for path in paths]
    names = unique_ids([os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace") for path in inside])
    parents = [name.split("/")[0] if "/" in name else None for name in names]
    notes: list[str] = []
    advice: tuple[str, ...] = ()
    if options.label_column is None and any(parents):
        advice = (
            f"images lie in sub-folders ({listed(sorted({name for name in parents if name}))}); "
            f"--label-column {FOLDER_LABELS} takes these names as their labels",
        )
        parents = [None] * len(paths)
    labels, classes = label_numbers(parents, check_classes(options.classes), notes)
    return Items(
        paths,
        "image",
        names,
        labels,
        classes,
        display=Pictures(paths, names, {"file": names}),
        digests=image_digests(paths, names),
        notes=tuple(notes),
        advice=advice,
        own_ids=names,
        id_column="file",
    )
