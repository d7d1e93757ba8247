"""The best of many scores, and what a tie is."""

import numpy as np

TIE = 1e-6  # scores closer than this part of the largest are a tie; the lowest position wins


def best(scores: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n highest scores; of ties, the lowest positions."""
    usable = np.where(np.isnan(scores), -np.inf, scores)
    finite = usable[np.isfinite(usable)]
    size = max(-float(finite.min()), float(finite.max())) if finite.size else 0.0
    if n == 1:
        return np.asarray([np.argmax(usable >= usable.max() - TIE * size)])
    if size > 0.0:
        usable = np.where(np.isfinite(usable), np.round(usable / (TIE * size)), usable)
    return np.argsort(-usable, kind="stable")[:n]


def smallest(values: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n smallest values, in order; of equals, the lowest positions."""
    if n == 0:
        return np.empty(0, dtype=np.int64)
    least = np.flatnonzero(values <= np.partition(values, n - 1)[n - 1])  # n, and equals of the last
    return least[np.argsort(values[least], kind="stable")][:n]
