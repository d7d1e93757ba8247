"""Parquet files, row by row. A text that stands in many rows lies in the file once, and once in memory:
otherwise a file of some kilobytes could take all of it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, need

AT_A_TIME = 4096  # rows
HELD = 2**25  # bytes of a column, as they lie in one part of the file
# what pyarrow raises of a damaged file; its errors are subclasses of these
DAMAGED = (ValueError, OSError, RuntimeError, NotImplementedError, MemoryError)
Row = dict[str, Any]


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def read_parquet(path: Path, columns: list[str]) -> Iterator[Row]:
    """Yield the named columns of each row, never all in memory."""
    with _opened(path, columns) as file:
        batches = file.iter_batches(batch_size=AT_A_TIME, columns=columns)
        while (batch := _next(path, batches)) is not None:
            values, names = [_values(column) for column in batch.columns], batch.schema.names
            yield from (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _next(path: Path, batches: Iterator[Any]) -> Any:
    try:
        return next(batches, None)
    except DAMAGED as error:
        raise EverylabelError(f"path {str(path)!r} is damaged ({error}); expected a Parquet file") from error


def _texts(file: Any) -> list[str]:
    """Return where texts lie, also in lists and structs, whose values, each once, can be held.

    A column that is large is read as it stands.
    """
    about, schema = file.metadata, file.schema
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    leaves = [schema.column(i) for i in range(len(schema))]
    texts = [
        i
        for i, leaf in enumerate(leaves)
        if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in ("STRING", "NONE")
    ]
    small = [i for i in texts if all(g.column(i).total_uncompressed_size <= HELD for g in groups)]
    return [leaves[i].path for i in small]


def _values(column: Any) -> list[Any]:
    """Return a column's values; those that are one in the file are one object."""
    if hasattr(column, "dictionary"):
        used = column.indices.unique().drop_null()
        known = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
        return [known.get(at) for at in column.indices.to_pylist()]
    kind = str(column.type)
    if kind.startswith("struct<"):
        names = [field.name for field in column.type]
        rows = zip(*map(_values, column.flatten()), strict=True)
        there = column.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if is_ else None for row, is_ in zip(rows, there, strict=True)
        ]
    if kind.startswith(("list<", "large_list<")):
        inside = iter(_values(column.flatten()))
        return [None if n is None else list(islice(inside, n)) for n in column.value_lengths().to_pylist()]
    return list(column.to_pylist())


def _opened(path: Path, columns: Sequence[str] = ()) -> Any:
    """Return a file; if columns of it are to be read, texts are read once a value, not once a row."""
    parquet = need("pyarrow.parquet", "table", "reading Parquet")
    try:
        file = parquet.ParquetFile(path)
        texts = _texts(file) if columns else []
        if not texts:
            return file
        file.close()
        return parquet.ParquetFile(path, read_dictionary=texts)
    except DAMAGED as error:
        raise EverylabelError(f"path {str(path)!r} is no Parquet file ({error})") from error
