"""Users' labels as class numbers, their class weights, and classes known only by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from everylabel.core import EverylabelError


def encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return class numbers: positions in `classes`, which may be in any order."""
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


def check_known(y: np.ndarray, classes: np.ndarray) -> None:
    """Raise if a label is not one of these classes."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise EverylabelError(
            f"y holds labels that are not in classes: {unknown[:5].tolist()}; expected labels from classes"
        )


def class_factors(class_weight: Any, y: np.ndarray) -> np.ndarray:
    """Return the weight of each label's class."""
    return np.array([1.0 if class_weight is None else class_weight.get(label, 1.0) for label in y.tolist()])
