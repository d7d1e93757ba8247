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
    """Return what the values of each column are: whole numbers, numbers, or anything else, which is text."""
    known = need("pyarrow.types", "table", "reading Parquet")

    def kind(one: Any) -> type:
        return int if known.is_integer(one) else float if known.is_floating(one) else str

    with _parquet(file) as parquet:
        return {str(field.name): kind(field.type) for field in parquet.schema_arrow}


def cells(file: str, column: str, first: int, rows: int) -> Iterator[Any]:
    """Yield a column's values of so many rows, from one on."""
    return (value for (value,) in table(file, [column], first, rows))


def table(file: str, names: Sequence[str], first: int, rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield the values that some columns have in so many rows, from one on."""
    with _parquet(file) as parquet:
        groups, before, at = [], 0, 0
        for group in range(parquet.metadata.num_row_groups):
            held = parquet.metadata.row_group(group).num_rows
            if at + held <= first:
                before = at + held  # rows of groups that need not be read
            elif at < first + rows:
                groups.append(group)
            at += held
        skip, left = first - before, rows
        for batch in parquet.iter_batches(batch_size=AT_A_TIME, row_groups=groups, columns=list(names)):
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
