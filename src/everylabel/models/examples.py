"""Labelled examples of a classifier: features, the user's labels, weights."""

import numpy as np

from everylabel.core import EverylabelError

Examples = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels, weights


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
