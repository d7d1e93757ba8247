"""Precision and recall of each class, from items that were drawn at random.

Each item has a truth (its label), a guess (the prediction) and a weight m:
    precision of c = sum m [truth = guess = c] / sum m [guess = c],   recall = the same / sum m [truth = c]
Intervals are Wilson's for (sum m)^2 / sum m^2 items. A share of fewer than FEWEST_OF_CLASS items is not
reported. The weights correct for classes that were checked more than others (`check_weights`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from everylabel.labelling.quality.accuracy import wilson

FEWEST_OF_CLASS = 10  # items that a class needs for its figures


def class_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return each class's precision and recall, and the number of items that each is based on.

    truth : (n, k) of 1, 0 and nan (not answered); guess : (n, k) whether each class is predicted
    """
    present, predicted = truth == 1.0, guess & ~np.isnan(truth)
    return [
        {
            "class": c,
            "predicted": int(predicted[:, j].sum()),
            "precision": share(present[:, j], predicted[:, j], weights),
            "true": int(present[:, j].sum()),
            "recall": share(predicted[:, j], present[:, j], weights),
        }
        for j, c in enumerate(classes)
    ]


def confusion(truth: np.ndarray, guess: np.ndarray) -> list[dict[str, int]]:
    """Return the count of each pair of true and guessed class; pairs that never occur are omitted."""
    counts = Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    return [{"true": t, "guess": g, "count": counts[t, g]} for t, g in sorted(counts)]


def share(
    hit: np.ndarray, among: np.ndarray, weights: np.ndarray, fewest: int = FEWEST_OF_CLASS
) -> dict[str, float] | None:
    """Return the weighted share of hits among some items, with its interval; None if they are too few."""
    if np.sum(among) < fewest:
        return None
    m = weights[among]
    return wilson(float(m @ hit[among] / m.sum()), float(m.sum() ** 2 / (m @ m)))._asdict()
