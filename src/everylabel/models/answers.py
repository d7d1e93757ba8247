"""Several classes per item in scikit-learn's form: an indicator matrix, with NaN for no answer."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from everylabel.core import EverylabelError
from everylabel.core.checks import check_answers


def are_answers(y: Any) -> bool:
    """Return whether labels have one column per class; a single column holds class labels."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y, object).shape
    return len(shape) == 2 and shape[1] != 1


def as_answers(y: Any, n: int) -> np.ndarray:
    """Return an indicator matrix, dense, sparse or a table, as float64 (n, k) of 1, 0 and NaN."""
    dense = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    return np.asarray(check_answers(dense, n, dense.shape[1], np.zeros(1), "y"))


def columns_of(y: Any, k: int, classes: Any, names: Mapping[Any, Any] | None) -> np.ndarray:
    """Return the classes of the columns of y, in column order.

    These are `classes`; or the columns of a table; or `names`, if there are k of them; or numbers.
    """
    if classes is None and hasattr(y, "columns"):
        classes = list(y.columns)
    if classes is None and names is not None and len(names) == k:
        classes = list(names)
    found = np.arange(k) if classes is None else np.asarray(classes)
    if found.shape != (k,) or len(np.unique(found)) < k:
        raise EverylabelError(
            f"classes is {classes!r:.80}; expected {k} different names, one for each column of y"
        )
    return found


def spread(y: np.ndarray, columns: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the answers for `columns` as answers for all `classes`; NaN for the others."""
    at = {name: c for c, name in enumerate(classes.tolist())}
    whole = np.full((len(y), len(classes)), np.nan)
    whole[:, [at[name] for name in columns.tolist()]] = y
    return whole


def name_answers(labels: np.ndarray, k: int) -> np.ndarray:
    """Return the labels of class-name rows as answers: yes for the name's class, no for all others."""
    return np.eye(k)[labels]
