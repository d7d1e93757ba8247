"""Tables by scikit-learn's column transformer: numbers scaled, dates as numbers, the rest one-hot."""

import hashlib
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, need

MAX_CATEGORIES = 50  # categories of a column; the rarer ones share one column


class Table:
    """A column transformer, fitted on a sample of the rows."""

    chunk = 8192

    def __init__(self, key: str, transformer: Any) -> None:
        self.key, self.transformer = key, transformer

    @classmethod
    def fit(cls, sample: Any) -> "Table":
        """Return the transformer fitted on a sample of rows."""
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        if sample.shape[1] == 0 or len(sample) == 0:
            raise EverylabelError(f"items has shape {sample.shape}; expected a table with rows and columns")
        frame = _plain(sample)
        numeric = [name for name in frame if frame[name].dtype.kind == "f"]
        numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
        names = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False
        )
        columns = (numbers, numeric), (names, [name for name in frame if name not in numeric])
        key = f"table {hashlib.sha256(row_bytes(sample)).hexdigest()}"
        return cls(key, make_column_transformer(*columns).fit(frame))

    def encode(self, items: Any) -> np.ndarray:
        return np.asarray(self.transformer.transform(_plain(items)), dtype=np.float32)


def row_bytes(frame: Any) -> bytes:
    """Return bytes that identify a table: names and types of columns, empty cells, values."""
    pandas = need("pandas", "table", "embedding a table")
    hashes = pandas.util.hash_pandas_object(frame.astype(str), index=False).to_numpy()
    columns = [(name, str(dtype)) for name, dtype in zip(frame.columns, frame.dtypes, strict=True)]
    return repr(columns).encode() + frame.isna().to_numpy().tobytes() + hashes.tobytes()


def _plain(frame: Any) -> Any:
    """Return the table with every column as float or as text."""
    pandas = need("pandas", "table", "embedding a table")
    plain = {}
    for name in frame.columns:
        column = frame[name]
        if pandas.api.types.is_datetime64_any_dtype(column):
            column = (column - pandas.Timestamp(0, tz=column.dt.tz)) / pandas.Timedelta(days=1)
        if pandas.api.types.is_numeric_dtype(column):
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            plain[str(name)] = np.where(np.isfinite(numbers), numbers, np.nan)
        else:
            plain[str(name)] = column.astype(object).where(column.notna(), "").astype(str)
    return pandas.DataFrame(plain, index=frame.index)
