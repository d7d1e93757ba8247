"""What a classifier was taught: features, labels as the user names them, weights."""

import numpy as np

from everylabel.core import EverylabelError

Taught = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels, weights


def joined(taught: list[Taught]) -> Taught:
    """Return all that was taught as one."""
    X, y, weights = (np.concatenate(part) for part in zip(*taught, strict=True))
    return X, y, weights


def rows(taught: Taught, at: np.ndarray) -> Taught:
    """Return some of it."""
    X, y, weights = taught
    return X[at], y[at], weights[at]


def positions(taught: Taught, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return where these pairs were taught, the latest of each first."""
    free = np.ones(len(taught[1]), dtype=bool)
    for row, label in zip(X, y, strict=True):
        same = free & (taught[1] == label) & np.all(taught[0] == row, axis=1)
        if not same.any():
            raise EverylabelError(
                f"X and y hold an instance with label {label} that was never learned; "
                "expected pairs given to fit or partial_fit before; nothing was forgotten"
            )
        free[np.flatnonzero(same)[-1]] = False
    return np.flatnonzero(~free)
