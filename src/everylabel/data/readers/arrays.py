"""Existing features (.npy, .npz), with a table that shows the content of each row (--show)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import NO_ARRAY
from everylabel.data.cells import text_of
from everylabel.data.classes import Names, check_classes, label_numbers, no_labels
from everylabel.data.digests import features_digest, row_digests
from everylabel.data.display import Columns, Rows, Texts, some_rows
from everylabel.data.items import MOST_FIELDS, Items, Options, row_numbers, unique_ids
from everylabel.data.readers.rows import SUFFIXES as TABLES
from everylabel.data.readers.rows import check_columns
from everylabel.data.readers.table import (
    check_no_columns,
    ids_of,
    image_paths,
    named_ids,
    pictures,
    read_columns,
)

SUFFIXES = (".npy", ".npz")
LARGEST = np.float32(1e18)  # largest feature: its square must not overflow (float16 would make it inf)
FEATURES, LABELS = ("X", "features", "embeddings"), ("y", "labels")
KNOWN = (*FEATURES, *LABELS, "ids", "classes")


class Stored(NamedTuple):
    """The content of a file: features (n, d), labels as stored, names of class numbers, ids if any."""

    features: np.ndarray
    labels: Any
    classes: Names | None
    ids: list[str] | None


def read_arrays(path: Path, options: Options, plain: bool = False) -> Items:
    """Return rows of features with the columns of a table.

    plain : use the file's own labels by default, and keep class numbers as they are
    """
    stored = open_arrays(path)
    advice, columns = list[str](), dict[str, list[Any]]()
    if plain:
        asked = None if stored.labels is None else LABELS[0]
        return _items(
            stored, replace(options, label_column=asked), columns, [features_digest(stored.features)]
        )
    _check_finite(path, stored.features)
    if options.show is None:
        named = replace(options, label_column=None)  # the file's own labels have a name
        check_no_columns(named, "--show with the table that has it, a row for each row of features")
        advice.append("the page can only show row numbers; --show meta.csv adds what to see of each row")
    else:
        columns = _shown(Path(options.show), options, stored)
    if stored.labels is not None and options.label_column is None:
        advice.append("the file holds labels; --label-column y takes them")
    return _items(stored, options, columns, row_digests(stored.features), advice)


def read_features(features: np.ndarray, options: Options, columns: Columns) -> Items:
    """Return rows of features in memory, with columns that show their content, if any."""
    if columns:
        wanted = (options.text_column, options.image_column, options.label_column)
        named = [name for name in (*wanted, named_ids(options.id_column)) if name is not None]
        check_columns("--show", list(columns), named)
        check_rows("--show", len(next(iter(columns.values()))), len(features))
    features = np.ascontiguousarray(features, None if features.dtype.kind == "f" else np.float32)
    _check_finite("the features", features)
    advice = [] if columns else ["the page can only show row numbers; --show adds what to see of each row"]
    return _items(Stored(features, None, None, None), options, columns, row_digests(features), advice)


def _items(
    stored: Stored, options: Options, columns: Columns, digests: list[str], advice: Sequence[str] = ()
) -> Items:
    notes, features = list[str](), stored.features
    own, id_column = (None, None) if stored.ids is None else (unique_ids(stored.ids), "ids")
    if columns and named_ids(options.id_column) is not None:
        id_column = named_ids(options.id_column)
        own = ids_of(columns, id_column)
    ids = row_numbers(len(features)) if own is None else own
    labels, classes = _labels(stored, options.label_column, check_classes(options.classes), columns, notes)
    kind, content, display = _described(options, ids, columns)
    return Items(
        features if content is None else content,
        kind,
        ids,
        labels,
        classes,
        features=features,
        display=display,
        digests=digests,
        notes=tuple(notes),
        advice=tuple(advice),
        own_ids=own,
        id_column=id_column,
        columns=columns,
    )


def open_arrays(path: Path) -> Stored:
    """Return the arrays of a file: features are memory-mapped from a .npy file."""
    held = ["X"]
    try:
        if path.suffix.lower() == ".npy":
            arrays: dict[str, np.ndarray] = {"X": np.load(path, mmap_mode="r", allow_pickle=False)}
        else:
            with np.load(path, allow_pickle=False) as file:
                held = list(file.files)
                arrays = {name: file[name] for name in held if name in KNOWN}
    except (*NO_ARRAY, KeyError, TypeError, NotImplementedError, RuntimeError) as error:
        raise EverylabelError(f"path {str(path)!r} is empty or damaged ({error}); expected arrays") from error
    features = next((arrays[name] for name in FEATURES if name in arrays), None)
    if features is None or features.ndim != 2 or features.dtype.kind not in "fiu" or not len(features):
        shapes = {name: f" {array.shape}" for name, array in arrays.items()}
        there = ", ".join(f"{name}{shapes.get(name, '')}" for name in held)
        raise EverylabelError(
            f"path {str(path)!r} holds {there}; expected numbers X (n, d), one row per instance"
        )
    n = len(features)
    labels = next((arrays[name] for name in LABELS if name in arrays), None)
    ids = arrays.get("ids")
    if any(array is not None and array.shape != (n,) for array in (labels, ids)):
        raise EverylabelError(f"path {str(path)!r} holds labels or ids of another length than X's {n} rows")
    classes = None if labels is None else _class_names(path, labels, arrays.get("classes"))
    names = None if ids is None else [str(name) for name in ids.tolist()]
    return Stored(features, labels, classes, names)


def _class_names(path: Path, labels: np.ndarray, classes: Any) -> Names | None:
    """Return class names of labels that are numbers; None if the labels are names."""
    if labels.dtype.kind not in "iu":
        return None
    k = int(labels.max()) + 1 if classes is None else len(classes)
    if labels.min() < -1 or labels.max() >= k:
        raise EverylabelError(
            f"path {str(path)!r} holds labels from {labels.min()} to {labels.max()} and {k} classes; "
            f"expected -1 (not labelled) to {k - 1}"
        )
    return tuple(str(name) for name in (range(k) if classes is None else classes))


def _labels(
    stored: Stored, asked: str | None, known: Names | None, columns: Columns, notes: list[str]
) -> tuple[np.ndarray, Names]:
    """Return labels from the table's column, or from the file's own y if requested."""
    if asked is None:
        return no_labels(len(stored.features)), (stored.classes if known is None else known) or ()
    if asked in columns:
        return label_numbers(columns[asked], known, notes)
    if asked not in LABELS or stored.labels is None:
        raise EverylabelError(
            f"--label-column is {asked!r}; expected a column of --show, or 'y' for labels in an .npz file"
        )
    if stored.classes is None:
        return label_numbers(stored.labels.tolist(), known, notes)
    if known is None:
        return np.asarray(stored.labels, np.int64), stored.classes
    return label_numbers([stored.classes[i] if i >= 0 else None for i in stored.labels], known, notes)


def _check_finite(path: Path | str, features: np.ndarray) -> None:
    if features.dtype.kind != "f":
        return
    for at in range(0, len(features), 16_384):
        part = features[at : at + 16_384]
        good = np.abs(part) <= LARGEST  # NaN is not
        if not good.all():
            row = at + int(np.flatnonzero(~good.all(axis=1))[0])
            raise EverylabelError(
                f"source {str(path)!r} holds NaN or infinity, first in row {row}; expected numbers "
                f"up to {LARGEST:g}: remove such rows (and theirs of --show)"
            )


def _shown(show: Path, options: Options, stored: Stored) -> dict[str, list[Any]]:
    """Return the columns of the table, a row for each row of features."""
    if not show.exists():
        raise EverylabelError(f"--show {str(show)!r} does not exist; expected a table's file, such as .csv")
    if show.suffix.lower() not in TABLES:
        raise EverylabelError(
            f"--show {str(show)!r} is not a table; expected a row for each row of features: "
            f"{', '.join(TABLES)}"
        )
    id_column = named_ids(options.id_column)
    own = stored.labels is not None and options.label_column in LABELS  # the table need not have them
    labels = None if own else options.label_column
    wanted = (options.text_column, options.image_column, labels, id_column)
    columns = read_columns(show, wanted, options)
    given = ids_of(columns, id_column) or []
    if stored.ids is not None and given and set(stored.ids) <= set(given):  # matched by name, in any order
        at = {name: i for i, name in enumerate(given)}
        return some_rows(columns, [at[name] for name in stored.ids])
    check_rows(f"--show {str(show)!r}", len(next(iter(columns.values()))), len(stored.features))
    return columns


def check_rows(show: str, rows: int, n: int) -> None:
    """Raise if there is not one row for each row of features."""
    if rows != n:
        raise EverylabelError(
            f"{show} has {rows:,} rows and the features {n:,}; expected one row for each, in the same order, "
            "or an .npz file with ids and --id-column to match them by name"
        )


def _described(options: Options, names: Sequence[str], columns: Columns) -> tuple[str, Any, Any]:
    """Return kind, content and display of rows of features: a text, an image, or all columns alike."""
    hidden = (options.text_column, options.image_column, options.label_column, options.id_column)
    beside = [name for name in columns if name not in hidden][:MOST_FIELDS]
    others = {name: columns[name] for name in beside}
    if options.text_column is not None and columns:
        texts = [text_of(value) for value in columns[options.text_column]]
        return "text", texts, Texts(texts, others)
    if options.image_column is not None and columns:
        values = columns[options.image_column]
        images = image_paths(values, Path(str(options.show)).parent)
        return "image", images, pictures(images, others, values)["display"]
    return "features", None, Rows(names, others)
