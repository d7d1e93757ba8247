"""Parquet files, row by row. A text that stands in many rows lies in the file once, and once in memory:
otherwise a file of some kilobytes could take all of it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, need

AT_A_TIME = 4096  # rows
HELD = 2**25  # bytes of a column, as they lie in one part of the file
# what pyarrow raises of a damaged file; its errors are subclasses of these
DAMAGED = (ValueError, OSError, RuntimeError, NotImplementedError, MemoryError)
TEXTS = ("string", "large_string", "binary", "large_binary")
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


def _is_small(file: Any, name: str) -> bool:
    """Return whether a column's values, each once, can be held: one that is large is read as it stands."""
    about = file.metadata
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    return all(chunk.total_uncompressed_size <= HELD for chunk in chunks if chunk.path_in_schema == name)


def _values(column: Any) -> list[Any]:
    """Return a column's values; those that are one in the file are one object."""
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    used = column.indices.unique().drop_null()
    known = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [known.get(at) for at in column.indices.to_pylist()]


def _opened(path: Path, columns: Sequence[str] = ()) -> Any:
    """Return a file; of these columns, texts are read once a value, not once a row."""
    parquet = need("pyarrow.parquet", "table", "reading Parquet")
    try:
        file = parquet.ParquetFile(path)
        kinds = {name: str(file.schema_arrow.field(name).type) for name in columns}
        texts = [name for name, kind in kinds.items() if kind in TEXTS and _is_small(file, name)]
        if not texts:
            return file
        file.close()
        return parquet.ParquetFile(path, read_dictionary=texts)
    except DAMAGED as error:
        raise EverylabelError(f"path {str(path)!r} is no Parquet file ({error})") from error
