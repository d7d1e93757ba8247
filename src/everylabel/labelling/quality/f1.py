"""F1 of a multi-label model, from items that were drawn at random.

An item has answers (k,) of 1, 0 and nan, and is predicted without them, by thresholds that the pool chose. Of
its k classes, t are present and predicted, and u are present, predicted or both; m is the item's weight:
    J = sum m t / sum m u (Jaccard's index),   F1 = 2 J / (1 + J)
F1 grows with J, so an interval of J gives one of F1. The classes of one item depend on each other, so the
interval is Wilson's for J (1 - J) / v_J pairs of item and class, but for at most sum m u. v_J is the variance
of J, sum (m t - J m u)^2 / (sum m u)^2. For the F1 of a single class, u is at most 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from everylabel.labelling.quality.accuracy import FEWEST, wilson
from everylabel.labelling.quality.by_class import FEWEST_OF_CLASS, class_figures, share


def set_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> dict[str, Any]:
    """Return F1 over all pairs (micro), the mean F1 of classes (macro), exact match, and figures by class.

    truth : (n, k) of 1, 0 and nan (not answered); guess : (n, k) whether each class is predicted
    """
    known = ~np.isnan(truth)
    present, predicted = truth == 1.0, guess & known
    either = (present | predicted).sum(axis=0).tolist()
    rows = [
        {
            **row,
            "true_or_predicted": n,
            "f1": f1(present[:, [j]], predicted[:, [j]], weights) if n >= FEWEST_OF_CLASS else None,
        }
        for j, (row, n) in enumerate(zip(class_figures(truth, guess, weights, classes), either, strict=True))
    ]
    each = [row["f1"]["estimate"] for row in rows if row["f1"] is not None]
    whole = known.all(axis=1)
    right = (present == predicted).all(axis=1)
    return {
        "micro": f1(present, predicted, weights) if len(truth) >= FEWEST else None,
        "macro": {"estimate": float(np.mean(each)), "classes": len(each)} if each else None,
        "exact": share(right, whole, weights, FEWEST),  # items whose classes are all right
        "classes": rows,
        "confusion": [],
    }


def f1(present: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return F1 over pairs (n, k) of items and classes with its interval; None if there are no pairs."""
    hits = weights * (present & predicted).sum(axis=1)  # m t
    pairs = weights * (present | predicted).sum(axis=1)  # m u
    total = float(pairs.sum())
    if not total:
        return None
    j = float(hits.sum()) / total
    v = float(np.sum((hits - j * pairs) ** 2)) / total**2
    n = np.count_nonzero(pairs)
    of = wilson(j, min(j * (1.0 - j) / v, total) if v > 0.0 and 0.0 < j < 1.0 else float(n))
    return {name: 2.0 * value / (1.0 + value) for name, value in of._asdict().items()}
