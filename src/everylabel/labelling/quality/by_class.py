"""How good the model is on one class: precision, recall and what it is taken for, on answers it did not know.

n instances drawn at random, with truth, guess and weight m (1 unless a class is tested more than by chance).
    precision of c = sum m [truth = guess = c] / sum m [guess = c],   recall = the same / sum m [truth = c]
Intervals are Wilson's, as of (sum m)^2 / sum m^2 instances. Below FEWEST instances a share says nothing.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from everylabel.labelling.quality.accuracy import wilson

FEWEST = 10  # instances of a class that its figures need


def class_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return for each of these classes its precision and recall, and on how many instances each rests."""
    return [
        {
            "class": c,
            "predicted": int(np.sum(guess == c)),
            "precision": _share(truth == c, guess == c, weights),
            "true": int(np.sum(truth == c)),
            "recall": _share(guess == c, truth == c, weights),
        }
        for c in classes
    ]


def confusion(truth: np.ndarray, guess: np.ndarray) -> list[dict[str, int]]:
    """Return how many instances of which class are taken for which, without the pairs that never came."""
    counts = Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    return [{"true": t, "guess": g, "count": counts[t, g]} for t, g in sorted(counts)]


def _share(hit: np.ndarray, among: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return the share of hits among some, with its interval; None of too few."""
    if np.sum(among) < FEWEST:
        return None
    m = weights[among]
    return wilson(float(m @ hit[among] / m.sum()), float(m.sum() ** 2 / (m @ m)))._asdict()
