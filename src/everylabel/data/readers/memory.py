"""Objects in memory: tables, lists of texts or images, arrays of pixels or of features.

Tables are pandas, polars, Arrow, Hugging Face datasets, dicts of rows or of columns. None of these
libraries is imported: a table is recognised by its methods. A table that only offers Arrow's PyCapsule
interface (such as DuckDB's results) is read by pyarrow.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError, listed, need
from everylabel.data.cells import is_missing, text_of
from everylabel.data.classes import Names, check_classes, no_labels
from everylabel.data.digests import content_digest, text_digests
from everylabel.data.display import Pictures, Texts
from everylabel.data.items import Items, Options
from everylabel.data.media import are_paths, is_image, unpacked_image
from everylabel.data.readers.arrays import check_rows, read_features
from everylabel.data.readers.rows import check_columns
from everylabel.data.readers.table import (
    check_no_columns,
    detect,
    is_plain,
    items_of,
    pictures,
    wanted_columns,
)

EXPECTED = (
    "texts, images (paths, PIL images, arrays of pixels), features (n, d), or a table (pandas, polars, "
    "Arrow, a dataset's split, a list of dicts)"
)


class Frame(NamedTuple):
    """A table in memory: its columns, their values as plain Python, and the number of rows."""

    names: list[str]
    column: Callable[[str], list[Any]]
    kind: str  # "pandas", "polars", "arrow", "dataset", "dicts" or "columns"
    rows: int


def frame_of(source: Any) -> Frame | None:
    """Return a table in memory as columns; None if it is none."""
    if isinstance(source, list | tuple):
        return _dicts(source) if source and all(isinstance(row, dict) for row in source) else None
    if is_pandas(source):
        own = {str(name): name for name in source.columns}
        if len(own) < len(source.columns):
            raise EverylabelError("two columns of the table have the same name; expected each once")
        return Frame(list(own), lambda name: source[own[name]].tolist(), "pandas", len(source))
    if hasattr(source, "column_names") and hasattr(source, "__iter__") and not hasattr(source, "__len__"):
        raise EverylabelError(
            f"source is a {type(source).__name__}, which streams its rows; expected rows in memory, such "
            "as list(source.take(1000)), or the dataset without streaming=True"
        )
    names = getattr(source, "column_names", None)
    if isinstance(names, list | tuple) and hasattr(source, "schema"):
        return Frame(list(names), lambda name: source.column(name).to_pylist(), "arrow", len(source))
    if names is not None and not isinstance(names, dict):
        return Frame(list(names), lambda name: _dataset_column(source, name), "dataset", len(source))
    if isinstance(source, dict):
        return _columns(source)
    if hasattr(source, "get_column") and hasattr(source, "columns"):
        return Frame(
            list(source.columns), lambda name: source.get_column(name).to_list(), "polars", len(source)
        )
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):
        raise EverylabelError("source is a lazy frame; expected its rows: pass source.collect()")
    if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "to_list"):  # a column has that
        arrow = need("pyarrow", "table", "reading a table that speaks Arrow")
        return frame_of(arrow.table(source))
    return None


def is_pandas(source: Any) -> bool:
    """Return whether an object is a pandas data frame, or like one."""
    return hasattr(source, "columns") and hasattr(source, "iloc")


def as_pandas(source: Any) -> Any:
    """Return a table in memory as a pandas data frame, the form in which tables are embedded."""
    frame = frame_of(source)
    if frame is None or frame.kind == "pandas":
        return source
    pandas = need("pandas", "table", "embedding a table")
    return pandas.DataFrame({name: frame.column(name) for name in frame.names})


def class_names(source: Any, name: str) -> Names | None:
    """Return the class names, in order, of a column whose type knows them.

    Such types are ClassLabel of a Hugging Face dataset, lists of these, and categorical columns of pandas.
    """
    features = getattr(source, "features", None)
    feature = features.get(name) if isinstance(features, dict) else None
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None and is_pandas(source) and name in source.columns:
        names = getattr(source[name].dtype, "categories", None)
    return None if names is None else tuple(str(label).strip() for label in names)


def _dataset_column(dataset: Any, name: str) -> list[Any]:
    """Return a column of a Hugging Face dataset: class numbers as their names, images not decoded yet."""
    feature: Any = getattr(dataset, "features", {}).get(name)
    if type(feature).__name__ == "Image" and hasattr(dataset, "cast_column"):
        dataset = dataset.cast_column(name, type(feature)(decode=False))
    values, names = list(dataset[name]), class_names(dataset, name)
    if names is None:
        return values

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [names[number] for number in value]
        return None if value is None or value < 0 else names[value]

    return [named(value) for value in values]


def _columns(source: dict[Any, Any]) -> Frame | None:
    """Return a dict of columns (lists, arrays or Series); None for a dict of splits."""
    if not source or not all(map(_is_column, source.values())):
        return None
    sizes = {str(name): len(values) for name, values in source.items()}
    if len(set(sizes.values())) > 1:
        sizes_text = listed([f"{name!r} has {size:,}" for name, size in sizes.items()])
        raise EverylabelError(
            f"columns of the dict differ in length: {sizes_text}; expected the same number of rows in each"
        )
    own = {str(name): name for name in source}
    return Frame(list(own), lambda name: _values(source[own[name]]), "columns", max(sizes.values()))


LISTING = ("tolist", "to_list", "to_pylist")  # methods of columns that return a list


def _values(column: Any) -> list[Any]:
    way = next((getattr(column, name) for name in LISTING if hasattr(column, name)), None)
    return list(column if way is None else way())


def _is_column(values: Any) -> bool:
    has_values = isinstance(values, list | tuple) or any(hasattr(values, name) for name in LISTING)
    is_table = hasattr(values, "column_names")
    return has_values and not is_table and getattr(values, "ndim", 1) == 1


def _dicts(rows: list[dict[Any, Any]] | tuple[dict[Any, Any], ...]) -> Frame:
    own = {str(name): name for row in rows for name in row}
    return Frame(list(own), lambda name: [row.get(own[name]) for row in rows], "dicts", len(rows))


def read_memory(source: Any, options: Options, *, plain: bool = False, show: Any = None) -> Items:
    """Return objects in memory as items.

    plain : read only the named columns of a table, as `read_items` does; else all, and detect unnamed ones
    show : the content of rows of features: a table, texts or images, one for each row
    """
    if isinstance(source, Items):
        more = [name for name in options.classes or () if name not in source.classes]
        return replace(source, classes=(*source.classes, *more))
    frame = frame_of(source)
    if frame is None:
        content = _contents(source)
        if isinstance(content, np.ndarray) and content.ndim == 2:
            return _features(content, options, show)
    if show is not None:
        raise EverylabelError("--show goes with an array of features (n, d); the source is none")
    if frame is not None:
        return _table(source, frame, options, plain)
    check_no_columns(options)
    items = _listed(content)
    empty = [i for i, text in enumerate(items.items) if not text.strip()] if items.kind == "text" else []
    if len(empty) == len(items):
        raise EverylabelError("all texts are empty; expected at least one with words")
    return replace(items, classes=check_classes(options.classes) or ()).without(empty)


def _table(source: Any, frame: Frame, options: Options, plain: bool) -> Items:
    """Return the rows of a table in memory."""
    if not frame.rows:
        raise EverylabelError("the table has no rows; expected at least one")
    check_columns("the table", frame.names, wanted_columns(options))
    read = {name: frame.column(name) for name in (wanted_columns(options) if plain else frame.names)}
    chosen, notes = dict[str, str](), list[str]()
    if not plain:
        options, chosen, notes = detect("the table", read, options, Path())
    if not plain and options.classes is None:
        options, note = _with_classes(source, frame, options)
        notes += [] if note is None else [note]
    shown = {
        name: values for name, values in read.items() if name == options.image_column or is_plain(values)
    }
    return replace(items_of("the table", shown, options, Path(), notes), chosen=chosen)


def _with_classes(source: Any, frame: Frame, options: Options) -> tuple[Options, str | None]:
    """Return options with the classes of a typed column: the label column, or the only typed one."""
    if options.label_column is not None:
        return replace(options, classes=class_names(source, options.label_column)), None
    if frame.kind != "dataset":
        return options, None
    known = {name: class_names(source, name) for name in frame.names}
    typed = [name for name, names in known.items() if names is not None]
    if len(typed) != 1:
        return options, None
    note = f"the classes are those of column {typed[0]!r} (--label-column {typed[0]} also imports its labels)"
    return replace(options, classes=known[typed[0]]), note


def _features(content: np.ndarray, options: Options, show: Any) -> Items:
    """Return rows of features with their content."""
    if show is None:
        check_no_columns(options)
        return read_features(content, options, {})
    frame = frame_of(show)
    if frame is not None:
        return read_features(content, options, {name: frame.column(name) for name in frame.names})
    check_no_columns(options)
    seen = _listed(_contents(show))
    check_rows("--show", len(seen), len(content))
    found = read_features(content, options, {})
    return replace(found, items=seen.items, kind=seen.kind, display=seen.display, advice=())


def _listed(content: Any) -> Items:
    """Return texts or images, nothing left out."""
    n = len(content)
    ids, none = [str(i) for i in range(n)], no_labels(n)
    if isinstance(content, np.ndarray):
        pixels, digests = as_pixels(content), [content_digest(each) for each in as_pixels(content)]
        return Items(pixels, "image", ids, none, display=Pictures(pixels, ids), digests=digests)
    there = [item for item in content if not is_missing(item)]
    if not there:
        raise EverylabelError(f"source is empty; expected {EXPECTED}")
    if all(isinstance(item, str) for item in there) and not are_paths(there):
        texts = [text_of(item) for item in content]
        return Items(texts, "text", ids, none, display=Texts(texts), digests=text_digests(texts))
    images = [None if is_missing(item) else _image(item, i) for i, item in enumerate(content)]
    arrays = [image for image in images if isinstance(image, np.ndarray)]
    top = max((float(array.max()) for array in arrays if array.size), default=0.0)
    images = [as_pixels(i[None], top)[0] if isinstance(i, np.ndarray) else i for i in images]
    return Items(images, "image", ids, none, **pictures(images, {}))


def _image(item: Any, at: int) -> Any:
    item = Path(item) if isinstance(item, str) else unpacked_image(item)
    if isinstance(item, list | tuple) and item and all(isinstance(each, int | float) for each in item):
        raise EverylabelError(f"source[{at}] is a list of numbers ({item!r:.60}); pass np.array(source)")
    if not is_image(item):
        raise EverylabelError(f"source[{at}] is a {type(item).__name__} ({item!r:.60}); expected {EXPECTED}")
    return item


def as_pixels(images: np.ndarray, top: float | None = None) -> np.ndarray:
    """Return images (n, h, w) or (n, h, w, 3 or 4) in 8 bits; numbers up to 1 are shares of white.

    top : the largest number of all images, if these are only some of them
    """
    grey = images[..., 0] if images.ndim == 4 and images.shape[-1] == 1 else images
    if grey.ndim not in (3, 4) or (grey.ndim == 4 and grey.shape[-1] not in (3, 4)) or not grey.size:
        turn = "; channels go last: np.moveaxis(images, 1, -1)" if images.ndim == 4 else ""
        raise EverylabelError(f"images have shape {images.shape}; expected (n, h, w) or (n, h, w, 3){turn}")
    if grey.dtype == np.uint8:
        return np.ascontiguousarray(grey)
    low, high = float(grey.min()), float(grey.max()) if top is None else top
    if not (low >= 0 and high <= 255):  # NaN is neither
        raise EverylabelError(
            f"images hold numbers from {low:g} to {high:g}; expected 0 to 1 or 0 to 255: bring them there"
        )
    shares = grey.dtype.kind == "b" or (grey.dtype.kind == "f" and high <= 1)
    return np.round(grey.astype(np.float32) * (255 if shares else 1)).astype(np.uint8)


def _contents(source: Any) -> Any:
    """Return a list, or an array of features or pixels."""
    if hasattr(source, "toarray"):
        what = f"a sparse {type(source).__name__}"
        raise EverylabelError(f"source is {what}; expected features (n, d) in full: pass source.toarray()")
    if isinstance(source, dict):
        splits = f"{type(source).__name__} with splits {', '.join(map(str, source))}; pass one of them"
        raise EverylabelError(f"source is a {splits}; expected {EXPECTED}")
    if hasattr(source, "detach") or (hasattr(source, "__array__") and not hasattr(source, "to_list")):
        source = to_numpy(source)
    if isinstance(source, np.ndarray):
        if source.dtype.kind in "UOT":
            return source.tolist()
        if source.dtype.kind not in "biuf" or source.ndim not in (2, 3, 4) or not len(source):
            what = f"an array {source.shape} of {source.dtype}"
            raise EverylabelError(f"source is {what}; expected features (n, d) or images (n, h, w[, 3])")
        return source
    if isinstance(source, str | bytes) or not isinstance(source, Iterable) or hasattr(source, "convert"):
        raise EverylabelError(f"source is a {type(source).__name__}; expected {EXPECTED}")
    content = source if isinstance(source, list) else list(source)
    flat = [isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "iuf" for row in content]
    if content and all(flat) and len({len(row) for row in content}) == 1:
        return np.stack(content)
    return content
