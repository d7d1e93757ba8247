"""Whole tables as data frames, for the column transformer."""

import io
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, need
from everylabel.data.readers.rows import delimiter_of, read_lines


def read_table(path: Path, encoding: str | None = None) -> Any:
    """Return a CSV, TSV or Parquet file as a data frame."""
    pandas = need("pandas", "table", "reading a table")
    try:
        if path.suffix.lower() == ".parquet":
            return pandas.read_parquet(path)
        lines = list(read_lines(path, encoding))
        return pandas.read_csv(io.StringIO("".join(lines)), sep=delimiter_of(lines[0] if lines else ""))
    except EverylabelError:
        raise
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # pandas' and pyarrow's parsers raise its subclasses
        raise EverylabelError(f"path {str(path)!r} is empty or no table ({error})") from error
