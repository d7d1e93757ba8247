"""Tables with a column of texts or images: files, and the items of tables in memory."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, need
from everylabel.data.cells import label_of, text_of
from everylabel.data.classes import check_classes, column_list, label_numbers
from everylabel.data.digests import bytes_digest, image_digests, text_digests
from everylabel.data.display import Columns, Images, Pictures, Texts
from everylabel.data.items import Items
from everylabel.data.label_lists import indicator_text, label_sets, list_text, odd_labels
from everylabel.data.media import image_bytes, is_image, unpacked_image
from everylabel.data.options import Options
from everylabel.data.readers.columns import (
    check_ids_there,
    choose_column,
    choose_ids,
    ids_of,
    named_ids,
    read_columns,
)
from everylabel.data.readers.rows import column_names, read_rows

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".parquet")
MOST_FIELDS = 12  # columns shown beside the item


def read_table(path: Path, options: Options, plain: bool = False, base: Path | None = None) -> Items:
    """Return the rows of a file as items; content and id columns are detected unless they are named.

    plain : without detected ids, and without columns to show
    base : folder of relative image paths; default: the file's folder
    """
    chosen, notes = {}, []
    named = named_ids(options.id_column)
    if named is not None:
        check_ids_there(path, column_names(path, options.encoding), named)
    if options.text_column is None and options.image_column is None:
        taken = (*label_columns(options), named)
        kind, name = choose_column(path, taken, options)
        chosen = {f"{kind}_column": name}
        notes.append(f"column {name!r} is labelled (--{kind}-column chooses another)")
        options = replace(options, **chosen)  # type: ignore[arg-type]
    wanted = wanted_columns(options)
    columns = read_columns(path, wanted, options, others=not plain)
    if options.id_column is None and not plain:
        ids, note = choose_ids(columns, wanted)
        notes += [] if note is None else [note]
        if ids is not None:
            chosen["id_column"] = ids
            options = replace(options, id_column=ids)
    return replace(items_of(str(path), columns, options, base or path.parent, notes), chosen=chosen)


def read_whole(path: Path, encoding: str | None = None, long_rows: str | None = None) -> Any:
    """Return a table's file as a data frame, for the column transformer."""
    pandas = need("pandas", "table", "reading a table")
    try:
        if path.suffix.lower() == ".parquet":
            return pandas.read_parquet(path)
        names = column_names(path, encoding)
        rows = read_rows(path, list(dict.fromkeys(names)), encoding, long_rows)
        if path.suffix.lower() not in (".csv", ".tsv"):
            return pandas.DataFrame(list(rows), columns=names)
        clean = io.StringIO()
        writer = csv.DictWriter(clean, dict.fromkeys(names))
        writer.writeheader()
        writer.writerows(rows)
        clean.seek(0)
        return pandas.read_csv(clean)  # pandas detects numbers
    except EverylabelError:
        raise
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # pandas' and pyarrow's parsers raise its subclasses
        raise EverylabelError(f"path {str(path)!r} is empty or no table ({error})") from error


def image_paths(values: Sequence[Any], base: Path) -> list[Any]:
    """Return a column's image paths, relative to its file; None for a gap; other objects unchanged."""
    urls = [value for value in values if isinstance(value, str) and "://" in value]
    if urls:
        raise EverylabelError(
            f"--image-column holds {len(urls)} URLs such as {urls[0]!r:.80}; expected paths of files: "
            "nothing is fetched from the network, download them first"
        )
    return [_image(value, base) for value in values]


def pictures(images: Sequence[Any], fields: Columns) -> dict[str, Any]:
    """Return display and digests of images in memory."""
    names = [str(image) if isinstance(image, Path) else f"image {i}" for i, image in enumerate(images)]
    digests = [bytes_digest(image_bytes(image)) for image in images]
    return {"display": Pictures(images, names, fields), "digests": digests}


def _image(value: Any, base: Path) -> Any:
    value = unpacked_image(value)
    if is_image(value) and not isinstance(value, Path):
        return value
    name = text_of(value).strip()
    return base / name if name else None


def wanted_columns(options: Options) -> list[str]:
    """Return the named columns, the labelled one first."""
    text, image = options.text_column, options.image_column
    if text is not None and image is not None:
        raise EverylabelError(f"--text-column is {text!r} and --image-column {image!r}; expected one only")
    named = (text or image, *label_columns(options), named_ids(options.id_column))
    return [name for name in named if name is not None]


def label_columns(options: Options) -> list[str]:
    """Return the columns of labels: one, or in a multi-label source a column of 0 and 1 for each class."""
    if options.label_column is None:
        return []
    if options.label_separator is None:
        return [options.label_column]
    return column_list(options.label_column) or [options.label_column]


def _labels(columns: dict[str, list[Any]], options: Options, n: int, notes: list[str]) -> Any:
    """Return the labels of rows as numbers, and the classes."""
    named, known = label_columns(options), check_classes(options.classes)
    if options.label_separator is None:
        raw = columns[named[0]] if named else [None] * n
        notes += odd_labels([label_of(value).strip() for value in raw])
        return label_numbers(raw, known, notes)
    if len(named) > 1:
        rows = zip(*(columns[name] for name in named), strict=True)
        return label_sets([indicator_text(dict(zip(named, row, strict=True))) for row in rows], known)
    return label_sets([list_text(v, options.label_separator) for name in named for v in columns[name]]
                      if named else [""] * n, known)  # fmt: skip


def items_of(
    source: str, columns: dict[str, list[Any]], options: Options, base: Path, notes: list[str]
) -> Items:
    """Return the items of a table: its columns, read as the options say."""
    wanted = wanted_columns(options)
    values = columns[wanted[0]]
    if not values:
        raise EverylabelError(f"source {source!r:.80} has a header and no rows; expected at least one")
    ids, own, id_column = ids_of(columns, named_ids(options.id_column))
    labels, classes = _labels(columns, options, len(values), notes)
    others = [name for name in columns if name not in wanted][:MOST_FIELDS]
    fields = {name: columns[name] for name in others}
    shown: dict[str, Any]
    known: dict[str, Any] = {"own_ids": own, "id_column": id_column, "columns": columns}
    known["notes"] = tuple(notes)
    if options.image_column is not None:
        images = image_paths(values, base)
        if all(image is None or isinstance(image, Path) for image in images):
            names = [text_of(value).strip() for value in values]
            shown = {"display": Images(images, names, fields), "digests": image_digests(images, names)}
        else:
            known["columns"] = {name: columns[name] for name in columns if name != options.image_column}
            shown = pictures(images, fields)
        return Items(images, "image", ids, labels, classes, **known, **shown)
    texts = [text_of(value) for value in values]
    empty = [i for i, text in enumerate(texts) if not text.strip()]
    if len(empty) == len(texts):
        raise EverylabelError("all texts are empty; expected another text_column (--text-column)")
    shown = {"display": Texts(texts, fields), "digests": text_digests(texts)}
    return Items(texts, "text", ids, labels, classes, **known, **shown).without(empty)
