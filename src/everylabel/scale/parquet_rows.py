"""Rows of a Parquet file from any row on: only the row groups that hold them are read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from everylabel.core.errors import EverylabelError, need
from everylabel.data.readers.rows import check_columns
from everylabel.scale import places

AT_A_TIME = 1024  # rows in memory
BUFFER = 2**20  # bytes of a column that are read at once

# what pyarrow raises of a file that is damaged; its errors are subclasses of these
DAMAGED = (ValueError, RuntimeError, NotImplementedError, OSError)


def columns(file: str) -> list[str]:
    """Return the names of the columns."""
    with _parquet(file) as parquet:
        return [str(name) for name in parquet.schema_arrow.names]


def count(file: str, column: str) -> int:
    """Return how many rows there are; the column has to be there."""
    with _parquet(file) as parquet:
        check_columns(file, parquet.schema_arrow.names, [column])
        return int(parquet.metadata.num_rows)


def types(file: str) -> dict[str, type]:
    """Return what the values of each column are.

    Whole numbers (int), numbers (float), nothing at all (NoneType), bytes or several values (object), or
    anything else, which is text (str).
    """
    known = need("pyarrow.types", "table", "reading Parquet")
    packed = known.is_nested, known.is_binary, known.is_large_binary, known.is_fixed_size_binary

    def kind(one: Any) -> type:
        if known.is_null(one):
            return type(None)
        if any(is_one(one) for is_one in packed):
            return object
        return int if known.is_integer(one) else float if known.is_floating(one) else str

    with _parquet(file) as parquet:
        return {str(field.name): kind(field.type) for field in parquet.schema_arrow}


def cells(file: str, column: str, first: int, rows: int) -> Iterator[Any]:
    """Yield a column's values of so many rows, from one on; the column has to be there."""
    with _parquet(file) as parquet:
        check_columns(file, parquet.schema_arrow.names, [column])
        yield from (value for (value,) in _values(parquet, [column], first, rows))


def table(file: str, names: Sequence[str], first: int, rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield the values that some columns have in so many rows, from one on; None of one that is not there."""
    with _parquet(file) as parquet:
        there = set(parquet.schema_arrow.names)
        held = [name for name in names if name in there]
        if not held:
            yield from [(None,) * len(names)] * max(0, min(rows, parquet.metadata.num_rows - first))
            return
        for row in _values(parquet, held, first, rows):
            yield tuple(map(dict(zip(held, row, strict=True)).get, names))


def _values(parquet: Any, names: list[str], first: int, rows: int) -> Iterator[tuple[Any, ...]]:
    groups, before, at = [], 0, 0
    for group in range(parquet.metadata.num_row_groups):
        held = parquet.metadata.row_group(group).num_rows
        if at + held <= first:
            before = at + held  # rows of groups that need not be read
        elif at < first + rows:
            groups.append(group)
        at += held
    skip, left = first - before, rows
    for batch in parquet.iter_batches(batch_size=AT_A_TIME, row_groups=groups, columns=names):
        if skip >= len(batch):
            skip -= len(batch)
            continue
        there = batch.slice(skip, left)
        some = list(zip(*(there.column(name).to_pylist() for name in names), strict=True))
        skip, left = 0, left - len(some)
        yield from some
        if not left:
            return


@contextmanager
def _parquet(file: str) -> Iterator[Any]:
    library = need("pyarrow.parquet", "table", "reading Parquet")
    with places.opened(file) as stream:
        try:
            with library.ParquetFile(stream, buffer_size=BUFFER) as parquet:
                yield parquet
        except EverylabelError:
            raise
        except DAMAGED as error:
            raise EverylabelError(f"path {file!r} is no Parquet file, or damaged ({error})") from error
