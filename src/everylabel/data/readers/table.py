"""Tables with a column of texts or images: which columns hold items, ids and labels, and their rows."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, listed, need
from everylabel.data.cells import is_missing, label_of, text_of
from everylabel.data.classes import (
    check_classes,
    column_list,
    indicator_text,
    label_numbers,
    label_sets,
    list_text,
    odd_labels,
)
from everylabel.data.digests import bytes_digest, image_digests, text_digests
from everylabel.data.display import Columns, Pictures, Texts
from everylabel.data.items import LONGEST_ID, MOST_FIELDS, Items, Options, row_numbers, unique_ids
from everylabel.data.media import SUFFIXES as IMAGES
from everylabel.data.media import are_paths, image_bytes, is_image, unpacked_image
from everylabel.data.readers.rows import check_columns, column_names, read_rows

LOOK_AT = 1000  # rows that a column is judged by
NEAR = 0.5  # share of the longest mean length; a column at least this long could be the text, too
USUAL = ("id", "_id", "uuid", "guid", "key")  # names of id columns, besides those that end in _id
NO_IDS = "none"  # --id-column none: the source has none


def read_table(path: Path, options: Options, plain: bool = False, base: Path | None = None) -> Items:
    """Return the rows of a file as items; content and id columns are detected unless they are named.

    plain : without detected ids, and without columns to show
    base : folder of relative image paths; default: the file's folder
    """
    columns = read_columns(path, wanted_columns(options), options, others=not plain)
    base, chosen, notes = base or path.parent, dict[str, str](), list[str]()
    if not plain:
        options, chosen, notes = detect(f"source {str(path)!r}", columns, options, base)
    return replace(items_of(str(path), columns, options, base, notes), chosen=chosen)


def detect(
    source: str, columns: Columns, options: Options, base: Path
) -> tuple[Options, dict[str, str], list[str]]:
    """Return options with the columns of items and of ids, those that were chosen, and notes about them."""
    chosen, notes = dict[str, str](), list[str]()
    if options.text_column is None and options.image_column is None:
        taken = (*label_columns(options), named_ids(options.id_column))
        kind, name = _choose(source, {n: columns[n] for n in columns if n not in taken}, list(columns), base)
        chosen[f"{kind}_column"] = name
        notes.append(f"column {name!r} is labelled (--{kind}-column chooses another)")
        options = replace(options, **chosen)  # type: ignore[arg-type]
    if options.id_column is None:
        found, note = choose_ids(columns, wanted_columns(options))
        notes += [] if note is None else [note]
        if found is not None:
            chosen["id_column"] = found
            options = replace(options, id_column=found)
    return options, chosen, notes


def _choose(source: str, columns: Columns, there: Sequence[str], base: Path) -> tuple[str, str]:
    """Return "text" or "image" and the only column that fits."""
    some = {name: list(values[:LOOK_AT]) for name, values in columns.items()}
    images = [name for name, values in some.items() if any(_is_stored_image(value) for value in values)]
    texts = {name: values for name, values in some.items() if name not in images and is_plain(columns[name])}
    if len(images) == 1:
        return "image", images[0]
    found = None if images else looks_like(source, texts, there, base)
    if found is None:
        names = listed([repr(name) for name in there], 30)
        why = "several hold images" if images else "none looks like text"
        raise EverylabelError(
            f"{source} has columns {names}, and {why}; pass --text-column or --image-column. For rows of "
            "numbers: everylabel embed TABLE -o rows.npy, then everylabel label rows.npy --show TABLE"
        )
    return found


def _is_stored_image(value: Any) -> bool:
    value = unpacked_image(value)
    return is_image(value) and not isinstance(value, Path)


def is_plain(values: Sequence[Any]) -> bool:
    """Return whether a column can be shown and exported: no images, no arrays."""
    first = next((value for value in values if not is_missing(value)), None)
    return not isinstance(first, bytes | dict | np.ndarray) and not is_image(first)


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
        raise EverylabelError(f"path {str(path)!r} is empty or not a table ({error})") from error


def image_paths(values: Sequence[Any], base: Path) -> list[Any]:
    """Return a column's image paths, relative to its file; None for a gap; other objects unchanged."""
    urls = [value for value in values if isinstance(value, str) and "://" in value]
    if urls:
        raise EverylabelError(
            f"--image-column holds {len(urls)} URLs such as {urls[0]!r:.80}; expected paths of files: "
            "nothing is fetched from the network, download them first"
        )
    return [_image(value, base) for value in values]


def pictures(images: Sequence[Any], fields: Columns, values: Sequence[Any] | None = None) -> dict[str, Any]:
    """Return display and digests of images: of files by names and sizes, of images in memory by content.

    values : what names the files; default: their paths
    """
    if all(image is None or isinstance(image, Path) for image in images):
        names = [text_of(value).strip() for value in (images if values is None else values)]
        return {"display": Pictures(images, names, fields), "digests": image_digests(images, names)}
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
    cells = columns[named[0]] if named else [None] * n
    return label_sets([list_text(cell, options.label_separator) for cell in cells], known)


def items_of(
    source: str, columns: dict[str, list[Any]], options: Options, base: Path, notes: list[str]
) -> Items:
    """Return the items of a table: its columns, read as the options say."""
    wanted = wanted_columns(options)
    values = columns[wanted[0]]
    if not values:
        raise EverylabelError(f"source {source!r:.80} has a header and no rows; expected at least one")
    id_column = named_ids(options.id_column)
    own = ids_of(columns, id_column)
    ids = row_numbers(len(values)) if own is None else own
    labels, classes = _labels(columns, options, len(values), notes)
    others = [name for name in columns if name not in wanted][:MOST_FIELDS]
    fields = {name: columns[name] for name in others}
    shown: dict[str, Any]
    known: dict[str, Any] = {"own_ids": own, "id_column": id_column, "columns": columns}
    known["notes"] = tuple(notes)
    if options.image_column is not None:
        images = image_paths(values, base)
        shown = pictures(images, fields, values)
        if any(not isinstance(value, str | Path) for value in values if not is_missing(value)):
            known["columns"] = {name: columns[name] for name in columns if name != options.image_column}
        return Items(images, "image", ids, labels, classes, **known, **shown)
    texts = [text_of(value) for value in values]
    empty = [i for i, text in enumerate(texts) if not text.strip()]
    if len(empty) == len(texts):
        raise EverylabelError("all texts are empty; expected another text_column (--text-column)")
    shown = {"display": Texts(texts, fields), "digests": text_digests(texts)}
    return Items(texts, "text", ids, labels, classes, **known, **shown).without(empty)


def read_columns(
    path: Path, wanted: Sequence[str | None], options: Options, others: bool = True
) -> dict[str, list[Any]]:
    """Return the columns of all rows, in the file's order; without `others` only the wanted ones."""
    named = list(dict.fromkeys(name for name in wanted if name is not None))
    columns: dict[str, list[Any]] = {}
    for row in read_rows(path, None if others else named, options.encoding, options.long_rows):
        if not columns:
            check_columns(path, list(row), named)
            columns = {name: [] for name in row}
        for name, column in columns.items():
            column.append(row[name])
    if not columns:
        raise EverylabelError(f"source {str(path)!r} has a header and no rows; expected at least one")
    return columns


def find_column(path: Path, taken: Sequence[str | None], options: Options) -> tuple[str, str] | None:
    """Return "text" or "image" and the one column that looks like it; an error if there are several."""
    rows = list(islice(read_rows(path, None, options.encoding, options.long_rows), LOOK_AT))
    if not rows:
        raise EverylabelError(f"source {str(path)!r} has no rows to label; expected a header and rows")
    there = list(rows[0])
    check_columns(path, there, [name for name in taken if name is not None])
    some = {name: [row[name] for row in rows] for name in there if name not in taken}
    return looks_like(f"source {str(path)!r}", some, there, path.parent)


def looks_like(
    source: str, some: Mapping[str, Sequence[Any]], there: Sequence[str], base: Path
) -> tuple[str, str] | None:
    """Return "text" or "image" and the one column that looks like it, by some of its values.

    there : all columns that the source has
    base : where paths of images start
    """
    columns = {name: [text_of(value).strip() for value in values] for name, values in some.items()}
    images = [name for name in columns if are_paths(list(filter(None, columns[name])), base)]
    texts = [name for name in _texts(columns) if name not in images]
    if len(texts) == 1:
        return "text", texts[0]
    if not texts:
        return ("image", images[0]) if len(images) == 1 else None
    found, many = (listed([repr(name) for name in names], 30) for names in (there, texts))
    raise EverylabelError(
        f"{source} has columns {found}, and {many} could all be the text; pass --text-column or "
        "--image-column"
    )


def _texts(columns: dict[str, list[str]]) -> list[str]:
    """Return the columns of words, or named text: the longest one, and all of similar length."""
    lengths = {
        name: sum(map(len, values)) / len(values)
        for name, values in columns.items()
        if len(columns) == 1 or name.lower() == "text" or _are_words(values)
    }
    longest = max(lengths.values(), default=0)
    return [name for name, length in lengths.items() if length and length >= NEAR * longest]


def _are_words(values: list[str]) -> bool:
    """Return whether most non-empty values contain a letter and a space, and are no image paths."""
    filled = [value for value in values if value]
    words = sum(" " in value and any(map(str.isalpha, value)) for value in filled)
    paths = sum(value.lower().endswith(tuple(IMAGES)) for value in filled)
    return bool(filled) and words > len(filled) / 2 and paths < len(filled) / 2


def named_ids(id_column: str | None) -> str | None:
    """Return the id column that the options name, if any."""
    return None if id_column == NO_IDS else id_column


def ids_of(columns: Mapping[str, Sequence[Any]], id_column: str | None) -> list[str] | None:
    """Return the rows' own ids: the values of a column; None without a column."""
    if id_column is None:
        return None
    ids = [text_of(value).strip() for value in columns[id_column]]
    if not all(ids):
        raise EverylabelError(
            f"--id-column {id_column!r} is empty in row {ids.index('') + 1}; expected a name in every row, "
            f"or --id-column {NO_IDS}: rows are then recognised by their content"
        )
    return unique_ids(ids)


def check_no_columns(options: Options, instead: str = "a table with this one") -> None:
    """Raise if the options name a column: the source has none."""
    named = {"text": options.text_column, "image": options.image_column}
    named |= {"label": options.label_column, "id": named_ids(options.id_column)}
    for kind, name in named.items():
        if name is not None:
            raise EverylabelError(
                f"--{kind}-column is {name!r} and the source has no columns; expected {instead}"
            )


def choose_ids(columns: Mapping[str, Sequence[Any]], taken: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the column that looks like ids, or None, and a note about the choice."""
    usual = sorted((name for name in columns if name.lower() in USUAL), key=lambda name: name.lower() != "id")
    ending = [name for name in columns if name.lower().endswith("_id") and name not in usual]
    named = [name for name in (*usual, *ending) if name not in taken]
    fit = [name for name in named if _name_rows(columns[name])]
    if fit and (fit[0] in usual or len(fit) == 1):
        note = f"column {fit[0]!r} holds the ids (--id-column chooses another, {NO_IDS!r} takes none)"
        return fit[0], note
    doubtful = [name for name in named if name in usual and name not in fit]
    if not doubtful:
        return None, None
    return None, (
        f"column {doubtful[0]!r} is not used for ids: it has gaps or duplicates; rows are recognised by "
        "their content"
    )


def _name_rows(values: Sequence[Any]) -> bool:
    """Return whether no value is empty or repeated."""
    names = {text_of(value).strip() for value in values}
    return len(names) == len(values) and "" not in names and max(map(len, names)) <= LONGEST_ID
