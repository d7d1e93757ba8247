"""How often the model is right on what is left: an estimate that can be believed at any time of a run.

n labelled, and of each two verdicts of models that did not know its label: the present one, by leaving the
label out in closed form (`core.leave_one_out`), and the one there was before it was learned. The first is
about this model but the harder to it, since it takes away a label of the very class that is asked for; the
second was easier on that and is about a model that was worse. Both count half; g is the largest probability,
r whether that class is the label. Chosen instances are harder than what is left, but of two with the same g
the model is right about equally often; checks, drawn at random, tell what is wrong with that:
    P(right) = sigmoid(a + b logit g + c [drawn at random])
    a ~ N(0, LEVEL^2),  b ~ N(1, SLOPE^2),  c ~ N(0, DRAWN^2)
fitted to all verdicts at once, those of chosen instances with the weight CHOSEN. With theta = (a, b, c),
x = (1, logit g, 1) and S the inverse Hessian,
    estimate = mean over what is left of p = sigmoid(x' theta),   v = j' S j,   j = mean of p (1 - p) x
The interval is Wilson's (1927), as of m = estimate (1 - estimate) / v instances. Z is that of 99.5 %, because
people watch the figure and stop when they like it. How this was chosen and tested: `benchmarks/accuracy.py`.

By class, n instances drawn at random have truth, guess and weight m:
    precision of c = sum m [truth = guess = c] / sum m [guess = c],   recall = the same / sum m [truth = c]
Intervals are Wilson's, as of (sum m)^2 / sum m^2 instances. Below FEWEST_OF_CLASS instances a share says
nothing. The weights undo that some class was tested more than others: with n checks drawn from all that is
free, and n_c more among what was predicted as c, which is a share s_c of it, each of them, whichever way it
was drawn, has the weight (the balance heuristic, Veach & Guibas 1995)
    m = n / (n + sum_c n_c / s_c)
over the classes c that it was predicted as: one, or any number of them in a multi-label project.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.labelling.state.types import Check

LEVEL, SLOPE, DRAWN = 1.0, 0.25, 0.7  # standard deviations of the prior
CHOSEN = 0.5  # weight of an instance that was not drawn at random
Z = 2.807034  # of a 99.5 % interval
FEWEST = 5  # random checks before which no figure is shown
EDGE = 1e-6  # probabilities are kept so far from 0 and 1
STEPS = 50  # of Newton's method at most
FEWEST_OF_CLASS = 10  # instances of a class that its figures need


class Interval(NamedTuple):
    """A share, and between what it is."""

    estimate: float
    low: float
    high: float


class Verdicts(NamedTuple):
    """What models that did not know their labels say of labelled instances."""

    sure: np.ndarray  # (n,) largest probability with the label left out
    right: np.ndarray  # (n,) whether that class is the label
    sure_before: np.ndarray  # (n,) largest probability before it was learned; nan where nobody looked
    right_before: np.ndarray  # (n,)
    drawn: np.ndarray  # (n,) weight of a random check, 0 of an instance that was chosen


def wilson(share: float, n: float, z: float = Z) -> Interval:
    """Return a share of n with its interval (Wilson 1927)."""
    z2 = z * z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return Interval(share, max(0.0, float(middle - half)), min(1.0, float(middle + half)))


def accuracy_left(verdicts: Verdicts, left: np.ndarray) -> Interval:
    """Return the accuracy on what is left, whose largest probabilities are `left` (m,)."""
    theta, cov, n_weighted = _calibration(verdicts)
    there = _rows(left, np.ones(len(left)))
    probs = _sigmoid(there @ theta)
    estimate = float(probs.mean())
    slope = (probs * (1.0 - probs)) @ there / len(left)
    variance = float(slope @ cov @ slope)
    told = estimate * (1.0 - estimate)
    n = told / max(variance, 1e-12) if told > 1e-12 else n_weighted  # all or nothing: as many as looked at
    return wilson(estimate, float(n))


def calibrated(verdicts: Verdicts, left: np.ndarray) -> np.ndarray:
    """Return how probable it is that the model is right, of items whose largest probabilities are `left`."""
    return _sigmoid(_rows(left, np.ones(len(left))) @ _calibration(verdicts)[0])


def _calibration(verdicts: Verdicts) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the coefficients of the module's head, their covariance, and the weight of all verdicts."""
    check = verdicts.drawn > 0
    known = ~np.isnan(verdicts.sure_before)
    weights = np.where(check, verdicts.drawn, CHOSEN)
    rows = np.concatenate([_rows(verdicts.sure, check), _rows(verdicts.sure_before[known], check[known])])
    right = np.concatenate([verdicts.right, verdicts.right_before[known]]).astype(np.float64)
    weights = np.concatenate([np.where(known, 0.5, 1.0) * weights, 0.5 * weights[known]])
    return *_fit(rows, right, weights), float(weights.sum())


def _fit(rows: np.ndarray, right: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable coefficients (3,) and their covariance (3, 3), by Newton's method.

    A step is halved until it goes downhill: of a model that is very sure and often wrong, whole ones diverge.
    """
    center, precision = np.array([0.0, 1.0, 0.0]), np.diag([LEVEL**-2, SLOPE**-2, DRAWN**-2])

    def loss(theta: np.ndarray) -> float:
        z, off = rows @ theta, theta - center
        return float(weights @ (np.logaddexp(0.0, z) - right * z) + 0.5 * off @ precision @ off)

    theta = center
    for _ in range(STEPS):
        probs = _sigmoid(rows @ theta)
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
    """Return 1, logit g and whether it was drawn, of each."""
    g = np.clip(np.asarray(sure, np.float64), EDGE, 1.0 - EDGE)
    return np.column_stack([np.ones(len(g)), np.log(g / (1.0 - g)), check])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))))


def class_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return for each of these classes its precision and recall, and on how many instances each rests."""
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
    """Return how many instances of which class are taken for which, without the pairs that never came."""
    counts = Counter(zip(truth.tolist(), guess.tolist(), strict=True))
    return [{"true": t, "guess": g, "count": counts[t, g]} for t, g in sorted(counts)]


def share(hit: np.ndarray, among: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return the share of hits among some, with its interval; None of too few."""
    if np.sum(among) < FEWEST_OF_CLASS:
        return None
    m = weights[among]
    return wilson(float(m @ hit[among] / m.sum()), float(m.sum() ** 2 / (m @ m)))._asdict()


def check_weights(checks: Sequence[Check]) -> dict[int, float]:
    """Return a weight for the item of each check."""
    n = sum(check.among is None for check in checks)
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for check in checks:
        if check.among is not None:
            shares[check.among].append(check.share)
    more = {c: len(some) ** 2 / sum(some) for c, some in shares.items()}
    return {check.item: _weight(n, sum(more.get(c, 0.0) for c in _predicted(check))) for check in checks}


def _predicted(check: Check) -> Collection[int]:
    """Return the classes that the item of a check was predicted as."""
    guess = {*check.guess} if isinstance(check.guess, tuple) else {check.guess}
    if check.among is None:
        return guess
    return guess | {check.among} if isinstance(check.guess, tuple) else {check.among}


def _weight(by_chance: float, more: float) -> float:
    return by_chance / (by_chance + more) if more else 1.0
