"""Labels back into the table that was labelled: the same kind of table, with a column more."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.readers.memory import frame_of

Column = Sequence[str | None]


def with_column(table: Any, name: str, values: Column, replace: bool = False) -> Any:
    """Return a table in memory with a column of texts; None where there is none.

    replace : a column of this name may be there, and is replaced
    """
    frame = frame_of(table)
    if frame is None:
        raise EverylabelError(
            f"table is a {type(table).__name__}; expected one of pandas, polars, Arrow or datasets, or dicts"
        )
    there = name in frame.names
    if there and not replace:
        raise EverylabelError(
            f"the table has a column {name!r} already (its columns are {listed(frame.names, 12)}); expected "
            "column= with another name"
        )
    if frame.rows != len(values):
        raise EverylabelError(
            f"the table has {frame.rows:,} rows, and what is labelled {len(values):,}; expected the same rows"
        )
    return _ADD[frame.kind](table, name, list(values), there)


def _pandas(table: Any, name: str, values: list[Any], there: bool) -> Any:
    return table.assign(**{name: values})


def _polars(table: Any, name: str, values: list[Any], there: bool) -> Any:
    polars = _library(table)
    return table.with_columns(polars.Series(name, values, dtype=polars.String))


def _arrow(table: Any, name: str, values: list[Any], there: bool) -> Any:
    arrow = _library(table)
    array = arrow.array(values, arrow.string())
    if there:
        return table.set_column(table.column_names.index(name), name, array)
    return table.append_column(name, array)


def _dataset(table: Any, name: str, values: list[Any], there: bool) -> Any:
    kept = table.remove_columns([name]) if there else table
    return kept.add_column(name, values, feature=_library(table).Value("string"))


def _dicts(table: Any, name: str, values: list[Any], there: bool) -> Any:
    return [{**row, name: value} for row, value in zip(table, values, strict=True)]


def _columns(table: Any, name: str, values: list[Any], there: bool) -> Any:
    return {**table, name: values}


def _library(table: Any) -> Any:
    """Return the library that a table is of, which is imported already."""
    return import_module(type(table).__module__.partition(".")[0])


_ADD = {
    "pandas": _pandas,
    "polars": _polars,
    "arrow": _arrow,
    "dataset": _dataset,
    "dicts": _dicts,
    "columns": _columns,
}
