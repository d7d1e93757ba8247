"""Measures of a model after some labels: on test data, and on the unlabelled items of the pool."""

import itertools
from typing import Any

import numpy as np

from benchmarks.labels.sets import Data

BUDGETS = (0, 10, 25, 50, 100, 200, 400)
STOPS = tuple(sorted({5, *BUDGETS, *range(0, 401, 10)}))  # where curves are measured, and batches end
Point = dict[str, Any]


def batches() -> list[tuple[int, int]]:
    """Return, for each stop except the last, the number of labels and of those until the next stop."""
    return [(n, then - n) for n, then in itertools.pairwise(STOPS)]


def measured(data: Data, labelled: np.ndarray, on_test: np.ndarray, on_pool: np.ndarray) -> Point:
    """Return a point of the curve from the predicted class numbers of all instances."""
    left = np.setdiff1d(np.arange(len(data.y)), labelled)
    hits = int(np.sum((on_test == 1) & (data.y_test == 1)))
    point: Point = {
        "n": len(labelled),
        "test": round(float(np.mean(on_test == data.y_test)), 5),
        "left": round(float(np.mean(on_pool[left] == data.y[left])), 5),
    }
    if data.k == 2:
        point["positives"] = int(np.sum(data.y[labelled] == 1))
        point["f1"] = round(2 * hits / max(1, int(np.sum(on_test == 1) + np.sum(data.y_test == 1))), 5)
    return point


def guesses(weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the most probable classes of features (n, d) by a linear head (d + 1, k)."""
    return np.asarray(np.argmax(features @ weights[:-1] + weights[-1], axis=1))
