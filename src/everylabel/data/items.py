"""`read_items`: a user's own data, from whatever it is kept in, with labels, names and ids checked."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning, listed
from everylabel.data.readers import arrays, folder, rows

UNLABELLED = -1
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Items:
    """Own data, one entry an instance in all of its lists.

    items : texts, image paths, or rows of features (n, d)
    kind : "text", "image" or "features"
    ids : a name for each, unique
    labels : class numbers into `classes`; -1 where there is no label
    skipped : ids of what was left out
    """

    items: Any
    kind: str
    ids: Sequence[str]
    labels: np.ndarray
    classes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        labelled = int(np.sum(self.labels >= 0))
        return f"Items({len(self)} of kind {self.kind!r}, {labelled} labelled, {len(self.classes)} classes)"


def read_items(
    source: Any,
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    encoding: str | None = None,
    classes: Sequence[str] | None = None,
) -> Items:
    """Return your own data as items with labels, class names and ids.

    Parameters
    ----------
    source : path, DataFrame or datasets.Dataset
        A CSV, TSV, JSONL or Parquet file; a folder of images, whose sub-folders are their labels;
        a .npy or .npz file of features (X, and if there y, classes, ids); a data frame; or a split
        of a Hugging Face dataset.
    text_column, image_column : str
        The column that holds the texts, or the images (paths, relative to the file).
    label_column, id_column : str, optional
        Columns of labels (empty: not labelled yet) and of unique names.
    encoding : str, optional
        Of a text file that is not UTF-8.
    classes : sequence of str, optional
        The class names in the order of their numbers; a label outside them is an error. None keeps the
        order of a dataset's ClassLabel or of an .npz file's `classes`, and sorts the labels elsewhere.
    """
    known = None if classes is None else check_classes(classes)
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.exists():
            raise EverylabelError(f"source {str(path)!r} is not there; expected a file or a folder")
        if path.is_dir():
            paths, parents = folder.find_images(path)
            return _images(paths, parents, [str(image.relative_to(path)) for image in paths], known)
        if path.suffix.lower() in (".npy", ".npz"):
            features, raw, stored, names = arrays.read_arrays(path)
            if stored is not None:
                if known is None:
                    return Items(features, "features", unique_ids(names), np.asarray(raw, np.int64), stored)
                raw = [stored[i] if i >= 0 else None for i in raw]
            return Items(features, "features", unique_ids(names), *label_numbers(raw, known))
    value = text_column or image_column
    if value is None or (text_column and image_column):
        raise EverylabelError("text_column or image_column is needed, and one only; expected a column's name")
    wanted = [name for name in (value, label_column, id_column) if name is not None]
    table = _columns(source, wanted, encoding)
    labels = table[label_column] if label_column else [None] * len(table[value])
    ids = table[id_column] if id_column else list(range(len(table[value])))
    if label_column and known is None:
        known = arrays.class_names(source, label_column)
    if image_column:
        base = Path(source).parent if isinstance(source, (str, os.PathLike)) else Path()
        return _images([_image(base, item) for item in table[value]], labels, ids, known)
    return _texts([rows.text_of(item) for item in table[value]], labels, ids, known)


def _columns(source: Any, wanted: list[str], encoding: str | None) -> dict[str, list[Any]]:
    """Return columns by name, from a file, a data frame or a dataset."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        table: dict[str, list[Any]] = {name: [] for name in wanted}
        for row in rows.read_rows(path, wanted, encoding):
            for name in wanted:
                table[name].append(row[name])
    elif hasattr(source, "column_names") and not isinstance(source.column_names, dict):
        rows.check_columns("the dataset", list(source.column_names), wanted)
        table = {name: arrays.dataset_column(source, name) for name in wanted}
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        rows.check_columns("the table", [str(name) for name in source.columns], wanted)
        table = {name: source[name].tolist() for name in wanted}
    else:
        splits = f" with splits {', '.join(source)}; pass one of them" if isinstance(source, dict) else ""
        raise EverylabelError(
            f"source is a {type(source).__name__}{splits}; expected a path, a data frame or a dataset's split"
        )
    if not table[wanted[0]]:
        raise EverylabelError(f"source {source!r:.80} has a header and no rows; expected at least one")
    return table


def _texts(texts: list[str], labels: list[Any], ids: list[Any], classes: Names | None) -> Items:
    good = [bool(text.strip()) for text in texts]
    if not any(good):
        raise EverylabelError("all texts are empty; expected another text_column")
    if not all(good):
        empty = [str(name) for name, fine in zip(ids, good, strict=True) if not fine]
        warnings.warn(
            f"{len(empty)} of {len(texts)} texts are empty and were skipped: {listed(empty)}",
            EverylabelWarning,
            stacklevel=3,
        )
    return _kept(texts, "text", labels, ids, good, classes)


def _images(images: list[Any], labels: Sequence[Any], ids: Sequence[Any], classes: Names | None) -> Items:
    return _kept(images, "image", labels, ids, folder.readable(images), classes)


def _image(base: Path, item: Any) -> Any:
    return base / str(item) if isinstance(item, (str, Path)) else item


def _kept(
    items: list[Any],
    kind: str,
    labels: Sequence[Any],
    ids: Sequence[Any],
    good: list[bool],
    known: Names | None,
) -> Items:
    names = unique_ids([rows.text_of(name).strip() for name in ids])
    keep = [i for i, fine in enumerate(good) if fine]
    skipped = tuple(name for name, fine in zip(names, good, strict=True) if not fine)
    numbers, classes = label_numbers([labels[i] for i in keep], known)
    return Items([items[i] for i in keep], kind, [names[i] for i in keep], numbers, classes, skipped)


def unique_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids, or say which occur more than once."""
    seen: set[str] = set()
    twice = [name for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise EverylabelError(
            f"ids are not unique, {len(twice)} occur again: {listed(twice)}; drop the duplicates or "
            "choose another id_column"
        )
    return list(ids)


def check_classes(classes: Sequence[str]) -> Names:
    """Return class names without white space around them, or say what is wrong with them."""
    names = () if isinstance(classes, str) else tuple(rows.label_of(name).strip() for name in classes)
    if not names or not all(names) or len(set(names)) < len(names):
        raise EverylabelError(f"classes is {classes!r:.80}; expected a list of different names")
    return names


def label_numbers(raw: Any, known: Names | None) -> tuple[np.ndarray, Names]:
    """Return class numbers and class names; stray white space is taken off and counted."""
    texts = [rows.label_of(label) for label in raw]
    clean = [text.strip() for text in texts]
    stray = sum(a != b for a, b in zip(texts, clean, strict=True))
    if stray:
        warnings.warn(
            f"{stray} label(s) had white space around them, which was taken off",
            EverylabelWarning,
            stacklevel=4,
        )
    there = sorted({label for label in clean if label})
    classes = tuple(there) if known is None else known
    number = {label: i for i, label in enumerate(classes)}
    outside = [repr(label) for label in there if label not in number]
    if outside:
        raise EverylabelError(f"labels hold {listed(outside)}; expected classes {listed(list(classes))}")
    return np.array([number.get(label, UNLABELLED) for label in clean], dtype=np.int64), classes
