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
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

LEVEL, SLOPE, DRAWN = 1.0, 0.25, 0.7  # standard deviations of the prior
CHOSEN = 0.25  # weight of an item that was not drawn at random
Z = 3.090232  # quantile of a 99.8 % interval
FEWEST = 5  # random checks needed before a figure is shown
EDGE = 1e-6  # probabilities are clipped to [EDGE, 1 - EDGE]
STEPS = 50  # maximum number of Newton steps


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
