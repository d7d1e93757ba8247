"""The model's accuracy on the unlabelled items: an estimate that is valid at any time of a run.

A verdict is the prediction of a labelled item by a model that does not know its label. Each item has two:
- by the current model without this label, in closed form (`core.leave_one_out`). This verdict is pessimistic,
  since a label of the very class in question is missing.
- by the model just before it learned the label. This verdict lacks that bias, but is about an earlier, worse
  model.
Each verdict counts half; if the second one is unknown, the first one counts in full. g is the largest
probability of a verdict, which is right if that class is the label. Items that a strategy chose are harder
than the unlabelled ones, but at the same g the model is right about equally often. Random checks estimate the
remaining difference:
    P(right) = sigmoid(a + b logit g + c [drawn at random])
    a ~ N(0, LEVEL^2),  b ~ N(1, SLOPE^2),  c ~ N(0, DRAWN^2)
fitted to all verdicts at once; those of chosen items have the weight CHOSEN. theta is (a, b, c), and C its
covariance, the inverse Hessian. An unlabelled item counts as drawn at random: x = (1, logit g, 1). With p =
sigmoid(x' theta),
    estimate = mean of p,    v = d' C d its variance,    d = mean of p (1 - p) x its derivative by theta
The interval is Wilson's (1927) for estimate (1 - estimate) / v items. Z is that of 99.8 %, because people
watch the figure and stop when they like it. How this was chosen and tested: `benchmarks/accuracy.py`.

By class, each item drawn at random has a truth (its label), a guess (the prediction) and a weight m:
    precision of c = sum m [truth = guess = c] / sum m [guess = c],   recall = the same / sum m [truth = c]
Intervals are Wilson's for (sum m)^2 / sum m^2 items. A share of fewer than FEWEST_OF_CLASS items is not
reported. The weights correct for classes that were tested more than others: n checks are drawn among all free
items, and n_c more among the items predicted as c, which are a share s_c of the free ones. Each check has the
weight (the balance heuristic, Veach & Guibas 1995)
    m = n / (n + sum_c n_c / s_c)
summed over the classes c that its item was predicted as: one, or any number in a multi-label project.

In a multi-label project an item has answers (k,) of 1, 0 and nan, and is predicted without them, by
thresholds that the pool chose. Of its k classes, t are present and predicted, and u are present, predicted or
both:
    J = sum m t / sum m u (Jaccard's index),   F1 = 2 J / (1 + J)
F1 grows with J, so an interval of J gives one of F1. The classes of one item depend on each other, so the
interval is Wilson's for J (1 - J) / v_J pairs of item and class, but for at most sum m u. v_J is the variance
of J, sum (m t - J m u)^2 / (sum m u)^2. For the F1 of a single class, u is at most 1.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from everylabel.labelling.state.types import Check

LEVEL, SLOPE, DRAWN = 1.0, 0.25, 0.7  # standard deviations of the prior
CHOSEN = 0.25  # weight of an item that was not drawn at random
Z = 3.090232  # quantile of a 99.8 % interval
FEWEST = 5  # random checks needed before a figure is shown
EDGE = 1e-6  # probabilities are clipped to [EDGE, 1 - EDGE]
STEPS = 50  # maximum number of Newton steps
FEWEST_OF_CLASS = 10  # items that a class needs for its figures


class Interval(NamedTuple):
    """A share and its confidence interval."""

    estimate: float
    low: float
    high: float


class Verdicts(NamedTuple):
    """Predictions of n labelled items by models that did not know their labels."""

    sure: np.ndarray  # (n,) largest probability with the label left out
    right: np.ndarray  # (n,) whether that class is the label
    sure_before: np.ndarray  # (n,) largest probability before it was learned; nan if unknown
    right_before: np.ndarray  # (n,) whether that class is the label
    drawn: np.ndarray  # (n,) weight of a random check, 0 for a chosen item


def wilson(share: float, n: float, z: float = Z) -> Interval:
    """Return a share of n with its interval (Wilson 1927)."""
    z2 = z * z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = max(0.0, float(middle - half)), min(1.0, float(middle + half))
    return Interval(share, min(share, low), max(share, high))  # rounding: a share of 1 lies in its interval


def accuracy_on_unlabelled(verdicts: Verdicts, unlabelled: np.ndarray) -> Interval:
    """Return the accuracy on unlabelled items, from the largest probability of each (m,)."""
    theta, cov, n_weighted = _calibration(verdicts)
    rows = _rows(unlabelled, np.ones(len(unlabelled)))
    probs = expit(rows @ theta)
    estimate = float(probs.mean())
    derivative = (probs * (1.0 - probs)) @ rows / len(unlabelled)
    variance = float(derivative @ cov @ derivative)
    of_one = estimate * (1.0 - estimate)  # variance of one item's verdict; about 0 if estimate is 0 or 1
    n = of_one / max(variance, 1e-12) if of_one > 1e-12 else n_weighted
    return wilson(estimate, float(n))


def calibrated(verdicts: Verdicts, unlabelled: np.ndarray) -> np.ndarray:
    """Return the probability that the model is right about each item, from its largest probability (m,)."""
    return np.asarray(expit(_rows(unlabelled, np.ones(len(unlabelled))) @ _calibration(verdicts)[0]))


def _calibration(verdicts: Verdicts) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the coefficients (a, b, c), their covariance, and the total weight of the verdicts."""
    check = verdicts.drawn > 0
    known = ~np.isnan(verdicts.sure_before)
    weights = np.where(check, verdicts.drawn, CHOSEN)
    rows = np.concatenate([_rows(verdicts.sure, check), _rows(verdicts.sure_before[known], check[known])])
    right = np.concatenate([verdicts.right, verdicts.right_before[known]]).astype(np.float64)
    weights = np.concatenate([np.where(known, 0.5, 1.0) * weights, 0.5 * weights[known]])
    prior = np.array([0.0, 1.0, 0.0]), np.array([LEVEL**-2, SLOPE**-2, DRAWN**-2])
    return *logistic(rows, right, weights, *prior), float(weights.sum())


def logistic(
    rows: np.ndarray, right: np.ndarray, weights: np.ndarray, center: np.ndarray, precisions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable coefficients (m,) and their covariance (m, m), by Newton's method.

    A step is halved until the loss falls: full steps diverge if a model is very sure and often wrong.

    center, precisions : of the prior of each coefficient (m,)
    """
    precision = np.diag(precisions)

    def loss(theta: np.ndarray) -> float:
        z, off = rows @ theta, theta - center
        return float(weights @ (np.logaddexp(0.0, z) - right * z) + 0.5 * off @ precision @ off)

    theta = center
    for _ in range(STEPS):
        probs = expit(rows @ theta)
        gradient = rows.T @ (weights * (probs - right)) + precision @ (theta - center)
        hessian = (rows.T * (weights * probs * (1.0 - probs))) @ rows + precision
        step = np.linalg.solve(hessian, gradient)
        while loss(theta - step) > loss(theta) and np.abs(step).max() >= 1e-9:
            step = 0.5 * step
        theta = theta - step
        if np.abs(step).max() < 1e-9:
            break
    return theta, np.linalg.inv(hessian)


def _rows(sure: np.ndarray, check: np.ndarray) -> np.ndarray:
    """Return the columns 1, logit g and [drawn at random] (n, 3)."""
    g = np.clip(np.asarray(sure, np.float64), EDGE, 1.0 - EDGE)
    return np.column_stack([np.ones(len(g)), logit(g), check])


def class_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return each class's precision and recall, and the number of items that each is based on."""
    return [
        {
            "class": c,
            "predicted": int(np.sum(guess == c)),
            "precision": share(truth == c, guess == c, weights),
            "true": int(np.sum(truth == c)),
            "recall": share(guess == c, truth == c, weights),
        }
        for c in classes
    ]


def confusion(truth: np.ndarray, guess: np.ndarray) -> list[dict[str, int]]:
    """Return the count of each pair of true and guessed class; pairs that never occur are omitted."""
    counts = Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    return [{"true": t, "guess": g, "count": counts[t, g]} for t, g in sorted(counts)]


def set_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> dict[str, Any]:
    """Return F1 over all pairs (micro), the mean F1 of classes (macro), exact match, and figures by class.

    truth : (n, k) of 1, 0 and nan; guess : (n, k) whether each class is predicted
    """
    known = ~np.isnan(truth)
    present, predicted = (truth == 1.0) & known, guess & known
    rows = [_of_class(c, present[:, j], predicted[:, j], known[:, j], weights) for j, c in enumerate(classes)]
    each = [row["f1"]["estimate"] for row in rows if row["f1"] is not None]
    whole = known.all(axis=1)
    right = (present == predicted).all(axis=1)
    return {
        "micro": f1(present, predicted, weights) if len(truth) >= FEWEST else None,
        "macro": {"estimate": float(np.mean(each)), "classes": len(each)} if each else None,
        "exact": _exact(right[whole], weights[whole]),
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


def _of_class(
    number: int, present: np.ndarray, predicted: np.ndarray, known: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    """Return the figures of one class, from the items with an answer for it."""
    present, predicted, weights = present[known], predicted[known], weights[known]
    either = int(np.count_nonzero(present | predicted))
    return {
        "class": number,
        "predicted": int(predicted.sum()),
        "precision": share(present, predicted, weights),
        "true": int(present.sum()),
        "recall": share(predicted, present, weights),
        "true_or_predicted": either,
        "f1": f1(present[:, None], predicted[:, None], weights) if either >= FEWEST_OF_CLASS else None,
    }


def _exact(right: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return the share of items whose classes are all correct."""
    if len(right) < FEWEST:
        return None
    n = float(weights.sum() ** 2 / (weights @ weights))
    return wilson(float(weights @ right / weights.sum()), n)._asdict()


def share(hit: np.ndarray, among: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return the weighted share of hits among some items, with its interval; None if they are too few."""
    if np.sum(among) < FEWEST_OF_CLASS:
        return None
    m = weights[among]
    return wilson(float(m @ hit[among] / m.sum()), float(m.sum() ** 2 / (m @ m)))._asdict()


def check_weights(checks: Sequence[Check]) -> dict[int, float]:
    """Return the weight m of each checked item; the formula is in the module's head."""
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
