"""Features that are there already, with a second file that says what is seen of each row."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import features_digest
from everylabel.data.display import Columns, Contents, Images, Rows, Texts
from everylabel.data.items import label_numbers, unique_ids
from everylabel.data.options import Options
from everylabel.data.readers import arrays
from everylabel.data.readers.columns import read_columns
from everylabel.data.readers.rows import text_of
from everylabel.data.source import Source, check_no_urls, ids_of, known_classes, only


def read_arrays(path: Path, options: Options) -> Source:
    """Return rows of features, with what a second file says of them (--show)."""
    features, raw, stored, names = arrays.read_arrays(path)
    _check_finite(path, features)
    notes: list[str] = []
    columns: dict[str, list[Any]] = {}
    if options.show is not None:
        columns = _shown(Path(options.show), options, names, len(features), path.suffix.lower() == ".npz")
        names = ids_of(columns, options.id_column) if options.id_column else names
    else:
        _check_no_columns(path, options)
        notes.append("the page can only show row numbers; --show meta.csv adds what to see of each row")
    labels, classes = _array_labels(options, raw, stored, columns, notes)
    digests = [features_digest(features)]
    kind, contents = _described(options, unique_ids(names), columns)
    return Source(kind, names, contents, labels, classes, digests, features, notes=notes)


def _check_no_columns(path: Path, options: Options) -> None:
    named = {"text": options.text_column, "image": options.image_column, "id": options.id_column}
    for kind, name in named.items():
        if name is not None:
            raise EverylabelError(
                f"--{kind}-column is {name!r} and source {path.name!r} has no columns; expected --show with "
                "the table that has this column, a row for each row of features"
            )


def _check_finite(path: Path, features: np.ndarray) -> None:
    if features.dtype.kind != "f":
        return
    for at in range(0, len(features), 16_384):
        good = np.isfinite(features[at : at + 16_384])
        if not good.all():
            row = at + int(np.flatnonzero(~good.all(axis=1))[0])
            raise EverylabelError(
                f"source {str(path)!r} holds NaN or infinity, first in row {row}; expected numbers: "
                "remove such rows (and theirs of --show)"
            )


def _shown(show: Path, options: Options, names: list[str], n: int, has_ids: bool) -> dict[str, list[Any]]:
    """Return the columns of the second file, a row for each row of features."""
    if not show.exists():
        raise EverylabelError(f"--show {str(show)!r} is not there; expected a CSV, JSONL or Parquet file")
    wanted = (options.text_column, options.image_column, options.label_column, options.id_column)
    columns = read_columns(show, wanted, options.encoding)
    rows = len(next(iter(columns.values())))
    given = ids_of(columns, options.id_column) if options.id_column else []
    if has_ids and given and set(names) <= set(given):  # matched by name, in any order
        at = {name: i for i, name in enumerate(given)}
        return only(columns, [at[name] for name in names])
    if rows != n:
        raise EverylabelError(
            f"--show {str(show)!r} has {rows:,} rows and the features {n:,}; expected one row for each, in "
            "the same order, or an .npz file with ids and --id-column to match them by name"
        )
    return columns


def _array_labels(
    options: Options, raw: Any, stored: tuple[str, ...] | None, columns: Columns, notes: list[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels of the second file's column, or of the .npz file's own y if that is asked for."""
    known, asked = known_classes(options), options.label_column
    if asked is not None and asked in columns:
        return label_numbers(columns[asked], known)
    has = any(label is not None for label in raw) if stored is None else True
    if asked is not None and (asked not in arrays.LABELS or not has):
        raise EverylabelError(
            f"--label-column is {asked!r}; expected a column of --show, or 'y' for labels in an .npz file"
        )
    if asked is None:
        if has:
            notes.append("the file holds labels; --label-column y takes them")
        named = tuple(stored) if stored is not None and known is None else known or ()
        return np.full(len(raw), -1, dtype=np.int64), named
    names = raw if stored is None else [stored[i] if i >= 0 else None for i in raw]
    return label_numbers(names, known if known is not None else stored)


def _described(options: Options, names: Sequence[str], columns: Columns) -> tuple[str, Contents]:
    """Return what is shown of rows of features: a text, an image, or all the columns alike."""
    hidden = (options.text_column, options.image_column, options.label_column, options.id_column)
    others = {name: column for name, column in columns.items() if name not in hidden}
    if options.text_column is not None and columns:
        return "text", Texts([text_of(value) for value in columns[options.text_column]], others)
    if options.image_column is not None and columns:
        values = [text_of(value).strip() for value in columns[options.image_column]]
        check_no_urls(values)
        base = Path(str(options.show)).parent
        return "image", Images([base / value for value in values], values, others)
    return "features", Rows(names, others)
