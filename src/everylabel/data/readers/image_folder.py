"""A folder of images."""

from pathlib import Path

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.items import label_numbers
from everylabel.data.options import Options
from everylabel.data.readers.folder import find_images
from everylabel.data.source import Source, image_source, known_classes

FOLDER_LABELS = "folder"  # --label-column folder: an image's sub-folder is its label


def read_folder(path: Path, options: Options) -> Source:
    """Return the images of a folder; the names of its sub-folders are labels if that is asked for."""
    if options.label_column not in (None, FOLDER_LABELS):
        raise EverylabelError(
            f"--label-column is {options.label_column!r}; a folder of images has no columns: expected "
            f"{FOLDER_LABELS!r}, which takes the names of its sub-folders as labels"
        )
    paths, parents = find_images(path)
    names = [image.relative_to(path).as_posix() for image in paths]
    notes = []
    if options.label_column is None and any(parents):
        inside = sorted({str(name) for name in parents if name})
        notes.append(
            f"images lie in sub-folders ({listed(inside)}); --label-column {FOLDER_LABELS} takes these names "
            "as their labels"
        )
    raw = parents if options.label_column else [None] * len(paths)
    labels, classes = label_numbers(raw, known_classes(options))
    return image_source(paths, names, names, labels, classes, {"file": names}, notes)
