"""Tables in memory as columns: pandas, polars, Arrow, Hugging Face datasets, dicts of rows or of columns.

None of these libraries is imported: a table is known by what it can do. What only speaks Arrow (its PyCapsule
interface, such as DuckDB's results) is read by pyarrow.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, listed, need
from everylabel.data.classes import Names


class Frame(NamedTuple):
    """A table in memory: its columns, the values of each as plain Python, and how many rows it has."""

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
            f"source is a {type(source).__name__}, whose rows are not here yet; expected some of them, such "
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
    """Return whether something is a pandas data frame, or like one."""
    return hasattr(source, "columns") and hasattr(source, "iloc")


def as_pandas(source: Any) -> Any:
    """Return a table in memory as a pandas data frame, which is what a table is embedded as."""
    frame = frame_of(source)
    if frame is None or frame.kind == "pandas":
        return source
    pandas = need("pandas", "table", "embedding a table")
    return pandas.DataFrame({name: frame.column(name) for name in frame.names})


def class_names(source: Any, name: str) -> Names | None:
    """Return the names, in their order, of a column whose type knows its classes.

    That is a ClassLabel of a Hugging Face dataset, or a categorical column of pandas.
    """
    features = getattr(source, "features", None)
    names = getattr(features.get(name), "names", None) if isinstance(features, dict) else None
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
    return [None if value is None or value < 0 else names[value] for value in values]


def _columns(source: dict[Any, Any]) -> Frame | None:
    """Return a dict of columns, lists or arrays or Series; None if it is one of splits."""
    if not source or not all(map(_is_column, source.values())):
        return None
    sizes = {str(name): len(values) for name, values in source.items()}
    if len(set(sizes.values())) > 1:
        told = listed([f"{name!r} has {size:,}" for name, size in sizes.items()])
        raise EverylabelError(f"columns of the dict differ in their rows: {told}; expected as many in each")
    own = {str(name): name for name in source}
    return Frame(list(own), lambda name: _plain_list(source[own[name]]), "columns", max(sizes.values()))


def _is_column(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return True
    is_table = hasattr(values, "columns") or hasattr(values, "column_names")
    return not is_table and getattr(values, "ndim", 1) == 1 and _way(values) is not None


def _way(values: Any) -> str | None:
    """Return the method by which a column of some library becomes a list."""
    return next((way for way in ("to_list", "to_pylist", "tolist") if hasattr(values, way)), None)


def _plain_list(values: Any) -> list[Any]:
    way = None if isinstance(values, list | tuple) else _way(values)
    return list(values) if way is None else list(getattr(values, way)())


def _dicts(rows: list[dict[Any, Any]] | tuple[dict[Any, Any], ...]) -> Frame:
    own = {str(name): name for row in rows for name in row}
    return Frame(list(own), lambda name: [row.get(own[name]) for row in rows], "dicts", len(rows))
