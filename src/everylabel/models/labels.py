"""The user's labels: as class numbers, as an indicator matrix of several classes, and with their features.

An indicator matrix has one column per class, of 1, 0 or NaN (no answer).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from everylabel.core import EverylabelError
from everylabel.core.checks import check_answers

Examples = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels, weights


def encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return labels as positions in `classes`, which may be in any order; an indicator matrix stays."""
    if y.ndim == 2:
        return y
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes[order], y)])


def check_one_kind(y: np.ndarray) -> None:
    """Raise if labels mix types that cannot be sorted, such as text and None."""
    kinds = {type(label).__name__ for label in y} if y.dtype == object else {""}
    if "NoneType" in kinds or len(kinds & {"str", "int", "float"}) > 1:
        raise EverylabelError(
            f"y holds labels of different kinds ({', '.join(sorted(kinds))}); expected all text or all "
            "numbers: leave out instances that have no label"
        )


def with_named(labels: np.ndarray, names: Mapping[Any, Any] | None) -> np.ndarray:
    """Return the sorted classes that have a label or a name."""
    if names is None:
        return labels
    named = np.asarray(list(names))
    if len(labels) and (named.dtype.kind in "OUS") != (labels.dtype.kind in "OUS"):
        raise EverylabelError(
            f"names is of classes such as {named[:1].tolist()} and y of {labels[:1].tolist()}; expected "
            "labels of one kind"
        )
    return np.union1d(labels, named) if len(labels) else np.unique(named)


def named_classes(
    given: Any, y: np.ndarray, classes: Any, names: Mapping[Any, Any] | None, known: np.ndarray | None = None
) -> np.ndarray:
    """Return the classes that a call names: those of the columns of y, or of its labels, and of `names`.

    given : y as the user passed it; a table names its columns
    known : classes learned before
    """
    if y.ndim == 2:
        if known is not None and classes is None and not hasattr(given, "columns"):
            if y.shape[1] == len(known):
                return known
            if names is None:
                raise EverylabelError(
                    f"y has {y.shape[1]} columns without names, and {len(known)} classes are known; "
                    "expected a column for each of them, or classes= with the name of each column"
                )
        return columns_of(given, y.shape[1], classes, names)
    named = with_named(np.unique(y if classes is None else classes), names)
    if classes is not None:
        _check_known(y, named if known is None else np.union1d(named, known))
    return named


def _check_known(y: np.ndarray, classes: np.ndarray) -> None:
    """Raise if a label is not one of these classes."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise EverylabelError(
            f"y holds labels that are not in classes: {unknown[:5].tolist()}; expected labels from classes"
        )


def class_factors(class_weight: Any, y: np.ndarray) -> np.ndarray:
    """Return the weight of each label's class."""
    return np.array([1.0 if class_weight is None else class_weight.get(label, 1.0) for label in y.tolist()])


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


def joined(examples: list[Examples]) -> Examples:
    """Return several sets of examples as one."""
    X, y, weights = (np.concatenate(part) for part in zip(*examples, strict=True))
    return X, y, weights


def rows(examples: Examples, at: np.ndarray) -> Examples:
    """Return the examples at these positions."""
    X, y, weights = examples
    return X[at], y[at], weights[at]


def positions(examples: Examples, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the positions of the pairs (X, y), the latest match of each first."""
    free = np.ones(len(examples[1]), dtype=bool)
    for row, label in zip(X, y, strict=True):
        alike = examples[1] == label
        if alike.ndim == 2:  # answers; NaN equals NaN
            alike = np.all(alike | (np.isnan(examples[1]) & np.isnan(label)), axis=1)
        same = free & alike & np.all(examples[0] == row, axis=1)
        if not same.any():
            raise EverylabelError(
                f"X and y hold an instance with label {label} that was never learned; "
                "expected pairs given to fit or partial_fit before; nothing was forgotten"
            )
        free[np.flatnonzero(same)[-1]] = False
    return np.flatnonzero(~free)
