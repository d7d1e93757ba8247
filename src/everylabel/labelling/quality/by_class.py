"""Precision and recall of each class, from items that were drawn at random.

Each item has a truth (its label), a guess (the prediction) and a weight m:
    precision of c = sum m [truth = guess = c] / sum m [guess = c],   recall = the same / sum m [truth = c]
Intervals are Wilson's for (sum m)^2 / sum m^2 items. A share of fewer than FEWEST_OF_CLASS items is not
reported. The weights correct for classes that were checked more than others: n checks are drawn among all
free items, and n_c more among the items predicted as c, which are a share s_c of the free ones. Each check
has the weight (the balance heuristic, Veach & Guibas 1995)
    m = n / (n + sum_c n_c / s_c)
summed over the classes c that its item was predicted as: one, or any number in a multi-label project.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from everylabel.labelling.quality.accuracy import wilson
from everylabel.labelling.state.types import Check

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


def check_weights(checks: Sequence[Check]) -> dict[int, float]:
    """Return the weight m of each checked item; see the module's head."""
    n = sum(check.among is None for check in checks)
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for check in checks:
        if check.among is not None:
            shares[check.among].append(check.share)
    more = {c: len(some) ** 2 / sum(some) for c, some in shares.items()}  # n_c / s_c, s_c the mean share
    weights = {}
    for check in checks:
        if isinstance(check.guess, tuple):  # the classes that the item was predicted as
            guess = {*check.guess} if check.among is None else {*check.guess, check.among}
        else:
            guess = {check.guess if check.among is None else check.among}
        by_class = sum(more.get(c, 0.0) for c in guess)
        weights[check.item] = n / (n + by_class) if by_class else 1.0
    return weights
