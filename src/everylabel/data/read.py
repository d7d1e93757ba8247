"""Read a user's own data: `read` for the commands, `read_items` for the library.

`readers/` has one reader per format; each returns `Items`. `read_rows` reads sources that are embedded row by
row. A dataset's name gives its training items, with the true labels that a simulation needs.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning, listed, nearest
from everylabel.data.classes import check_classes, no_labels
from everylabel.data.datasets import read_dataset
from everylabel.data.datasets.catalog import CLASSES, DARKEST, NAMES, dataset_key, read_digits
from everylabel.data.digests import features_digest, image_digests, text_digests
from everylabel.data.display import Display, Pictures, Rows, Texts
from everylabel.data.items import Items, Options
from everylabel.data.media import open_image
from everylabel.data.readers import arrays, rows, table
from everylabel.data.readers.folder import FOLDER_LABELS, read_folder
from everylabel.data.readers.memory import class_names, frame_of, read_memory
from everylabel.data.readers.rows import Column, check_columns
from everylabel.data.readers.table import find_column

TABLES, ARRAYS = rows.SUFFIXES, arrays.SUFFIXES


def read(source: Any, options: Options, *, plain: bool = False) -> Items:
    """Return the items of a source.

    source : a file, a folder, a dataset's name, or data in memory
    plain : as `read_items`: no columns to show, and the labels of a folder or an .npz file without asking
    """
    if not isinstance(source, str | os.PathLike):
        return read_memory(source, options, plain=plain)
    path = Path(source)
    suffix = path.suffix.lower()
    check_show(path, options)
    if not plain and not (path.is_absolute() and path.exists()):
        return read_named(dataset_name(str(source)), options)
    if path.is_dir():
        return read_folder(path, replace(options, label_column=FOLDER_LABELS) if plain else options)
    if suffix in ARRAYS:
        return arrays.read_arrays(path, options, plain)
    if suffix in TABLES:
        return table.read_table(path, options, plain)
    raise EverylabelError(
        f"source {str(source)!r} has an unknown ending; expected {', '.join((*TABLES, *ARRAYS))}, or a folder"
    )


def check_show(source: Path, options: Options) -> None:
    """Refuse --show for a source that is not features: its items are shown themselves."""
    if options.show is not None and source.suffix.lower() not in ARRAYS:
        raise EverylabelError(f"--show goes with a .npy or .npz file of features; source is {str(source)!r}")


def read_items(
    source: Any,
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    encoding: str | None = None,
    classes: Sequence[str] | None = None,
    long_rows: str | None = None,
) -> Items:
    r"""Return your own data as items with labels, class names and ids.

    Parameters
    ----------
    source : path, table or list
        A CSV, TSV, JSON, JSONL, Excel (.xlsx) or Parquet file; a folder of images, whose sub-folders are
        their labels; a .npy or .npz file of features (X, and if there y, classes, ids); a table in memory
        (pandas, polars, Arrow, a split of a Hugging Face dataset, a list of dicts); a list of texts or of
        images (paths, PIL images, arrays of pixels); an array of images (n, h, w[, 3]) or features (n, d).
    text_column, image_column : str
        The column that holds the texts, or the images (paths, relative to the file).
    label_column, id_column : str, optional
        Columns of labels (empty: not labelled yet) and of unique names.
    encoding : str, optional
        Encoding of a text file that is not UTF-8.
    classes : sequence of str, optional
        The class names in the order of their numbers; a label outside them is an error. None keeps the
        order of a dataset's ClassLabel or of an .npz file's `classes`, and sorts the labels elsewhere.
    long_rows : {"join", "cut"}, optional
        How to treat rows of a CSV file that have more cells than its header: join the surplus cells to the
        last one, or cut them off. None refuses such rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("tickets.csv").write_text("body,team\nwhere is my card,cards\nsend me money,\n")
    >>> items = el.read_items("tickets.csv", text_column="body", label_column="team")
    >>> items.items[0], items.classes, items.labels  # -1: no label yet
    ('where is my card', ('cards',), array([ 0, -1]))
    """
    options = Options(text_column, image_column, label_column, id_column, check_classes(classes))
    options = replace(options, encoding=encoding, long_rows=long_rows)
    is_path = isinstance(source, str | os.PathLike)
    if is_path and not Path(source).exists():
        raise EverylabelError(f"source {str(source)!r} does not exist; expected a file or a folder")
    has_columns = frame_of(source) is not None
    if is_path:
        has_columns = not (Path(source).is_dir() or Path(source).suffix.lower() in ARRAYS)
    if has_columns and bool(text_column) == bool(image_column):
        raise EverylabelError("text_column or image_column is needed, and one only; expected a column's name")
    if not is_path and label_column and classes is None:
        options = replace(options, classes=class_names(source, label_column))
    items = read(source, options, plain=True)
    if items.skipped:
        _warn(
            f"{len(items.skipped)} of {len(items) + len(items.skipped)} texts are empty and were skipped: "
            f"{listed(list(items.skipped))}"
        )
    if items.kind == "image":
        items = _readable(items)
    for note in items.notes:
        _warn(note)
    if items.skipped and options.classes is None:  # only classes of the remaining items
        used = set(items.labels.tolist())
        items = items.renamed([name if i in used else None for i, name in enumerate(items.classes)])
    return items


def read_rows(source: Path, options: Options, *, whole: bool = True) -> Items:
    """Return the items to embed, one for each row of a file; texts are read lazily.

    Without a named column of texts or images, all columns are embedded or, with whole=False, the one column
    that looks like texts or images, if there is one. A folder gives its readable images.
    """
    table.wanted_columns(options)
    if source.is_dir():
        return read_items(source)
    text, image, notes = options.text_column, options.image_column, list[str]()
    if text is None and image is None and not whole:
        found = find_column(source, (options.label_column,), options)
        if found is not None:
            text, image = (found[1], None) if found[0] == "text" else (None, found[1])
            others = f"--{found[0]}-column chooses another, --whole-table takes all"
            notes.append(f"column {found[1]!r} is embedded ({others})")
    if text is not None or image is not None:
        column = Column(source, text or image or "", options.encoding, options.long_rows)
        content = column if image is None else table.image_paths(list(column), source.parent)
        kind = "text" if image is None else "image"
        return Items(content, kind, (), no_labels(len(content)), notes=tuple(notes))
    frame = table.read_whole(source, options.encoding, options.long_rows)
    out = [name for name in (options.label_column,) if name is not None]
    check_columns(source, [str(name) for name in frame.columns], out)
    return Items(frame.drop(columns=out), "table", (), no_labels(len(frame)))


def dataset_name(name: str) -> str:
    """Return the catalogue's name of a dataset; an error lists what a source can be."""
    key = dataset_key(name)
    if key is None:
        raise EverylabelError(
            f"source {name!r} does not exist; expected a file ({', '.join((*TABLES, *ARRAYS))}), a folder of "
            f"images or of shards, or one of {', '.join(NAMES)}{_beside(Path(name))}"
        )
    return key


def _beside(path: Path) -> str:
    """Return files with similar names, as the end of a sentence."""
    try:
        near = nearest(path.name, (each.name for each in path.parent.iterdir()))
    except (OSError, ValueError):  # not a folder, or an invalid name
        near = None
    return "" if near is None else f"; did you mean {str(path.with_name(near))!r}?"


def _readable(items: Items) -> Items:
    """Return the readable images and their classes; a warning counts and lists the others."""
    broken = [i for i, image in enumerate(items.items) if open_image(image) is None]
    names = [str(items.items[i]) for i in broken]
    if broken:
        _warn(f"{len(broken)} of {len(items)} images cannot be read and were skipped: {listed(names)}")
    if len(broken) == len(items):
        raise EverylabelError(f"none of the {len(items)} images can be read: {listed(names)}")
    return items.without(broken)


def _warn(text: str) -> None:
    warnings.warn(text, EverylabelWarning, stacklevel=3)


def read_named(name: str, options: Options) -> Items:
    """Return a dataset's training split with its true labels; nothing is downloaded."""
    found = _digits() if name == "digits" else _training_split(name, options.model)
    if options.classes is not None and options.classes != found.classes:
        raise EverylabelError(f"--classes is for own data; {name} has {listed(list(found.classes), 12)}")
    return found


def _digits() -> Items:
    ink, labels = read_digits()
    ids = [str(i) for i in range(len(labels))]
    pixels = 255 - (ink * 15.9375).astype(np.uint8).reshape(-1, 8, 8)
    features = (ink / DARKEST).astype(np.float32)
    return Items(
        pixels,
        "image",
        ids,
        no_labels(len(ids)),
        CLASSES,
        features=features,
        display=Pictures(pixels, ids),
        digests=[features_digest(features)],
        truth=labels,
    )


def _training_split(name: str, model: str | None) -> Items:
    """Return the training items; for texts stored as features, `model` defaults to the one that made them."""
    data = read_dataset(name, download=False)
    split = data.train
    ids = [str(i) for i in range(len(split))]
    unknown = model is not None or data.model is None or data.kind != "text" or split.features is None
    return Items(
        split.features if split.items is None else split.items,
        "features" if split.items is None else data.kind,
        ids,
        no_labels(len(split)),
        data.classes,
        features=split.features,
        display=_display(data.kind, split.items, ids),
        digests=_digests(split.features if split.features is not None else split.items, ids, data.kind),
        truth=split.labels,
        chosen={} if unknown else {"model": str(data.model)},
    )


def _display(kind: str, content: Any, ids: Sequence[str]) -> Display:
    if content is None:
        return Rows(ids)
    if kind == "text":
        return Texts(content)
    if isinstance(content, np.ndarray):
        return Pictures(content, ids)
    return Pictures(content, [str(path) for path in content])


def _digests(content: Any, ids: Sequence[str], kind: str) -> Sequence[str]:
    if isinstance(content, np.ndarray):
        return [features_digest(content)]
    return text_digests(content) if kind == "text" else image_digests(content, ids)
