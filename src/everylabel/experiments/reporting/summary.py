"""All experiments by name, in the order of the paper; means and standard errors of their results."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from everylabel.experiments.data import SETTINGS
from everylabel.experiments.engine import Experiment
from everylabel.experiments.network import NETWORK
from everylabel.experiments.results import Row
from everylabel.experiments.selecting import SELECTING
from everylabel.experiments.updating import UPDATING

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in (*UPDATING, *SELECTING, *NETWORK)}
FIGURES = {
    f"fig{number}": name
    for name, experiment in EXPERIMENTS.items()
    for number in re.findall(r"Fig\. (\d+)", experiment.figure)
}


def title_of(dataset: str) -> str:
    """Return the name of a dataset in reports."""
    return SETTINGS[dataset].title if dataset in SETTINGS else dataset


class Estimate(NamedTuple):
    """A mean over repetitions, its standard error, and how many there were."""

    mean: float
    error: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}" if self.n > 1 else f"{self.mean:.3f}" if self.n else ""


def points(found: Estimate) -> str:
    """Return a difference of accuracies in percentage points; small ones with two digits."""
    digits = 1 if abs(found.mean) >= 0.00095 else 2
    spread = f"± {100 * found.error:.{digits}f}" if found.n > 1 else "(one repetition)"
    return f"{100 * found.mean:+.{digits}f} {spread}".replace("-0.00 ", "+0.00 ")


def times(found: Estimate) -> str:
    """Return a ratio as text, such as 12x."""
    return f"{_short(found.mean, 3)}x" + (f" ± {_short(found.error, 2)}" if found.n > 1 else "")


def _short(value: float, digits: int) -> str:
    """Return a number with `digits` significant digits, without an exponent."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


Curve = dict[float, Estimate]
Curves = dict[str, dict[float, float]]  # of one repetition: variant -> x -> value
Runs = dict[int, Curves]  # by repetition


def estimate(values: Iterable[float]) -> Estimate:
    """Return mean and standard error; NaN without measurements."""
    numbers = np.array([value for value in values if np.isfinite(value)])
    if len(numbers) == 0:
        return Estimate(float("nan"), float("nan"), 0)
    error = float(np.std(numbers, ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else float("nan")
    return Estimate(float(np.mean(numbers)), error, len(numbers))


def runs_of(rows: Iterable[Row], metric: str, dataset: str) -> Runs:
    """Return the curves of a metric on a dataset, by repetition."""
    runs: Runs = {}
    for row in rows:
        if row.metric == metric and row.dataset == dataset:
            runs.setdefault(row.repetition, {}).setdefault(row.variant, {})[row.x] = row.value
    return runs


def over_repetitions(runs: Runs, statistic: Callable[[Curves], float]) -> Estimate:
    """Return the estimate of a statistic over repetitions; skip repetitions that lack its variants."""
    values = []
    for curves in runs.values():
        try:
            values.append(statistic(curves))
        except KeyError:  # a variant that this repetition has not measured yet
            continue
    return estimate(values)


def mean_curve(runs: Runs, variant: str, other: str = "") -> Curve:
    """Return the mean of a variant at each x, or of its difference to another, paired by repetition."""
    values: dict[float, list[float]] = defaultdict(list)
    for curves in runs.values():
        own = curves.get(variant, {})
        base = curves.get(other, {}) if other else dict.fromkeys(own, 0.0)
        for x in own.keys() & base.keys():
            values[x].append(own[x] - base[x])
    return {x: estimate(found) for x, found in sorted(values.items())}


def mean_of(curve: dict[float, float]) -> float:
    """Return the mean over a curve."""
    return float(np.mean(list(curve.values())))


def curve_mean(runs: Runs, variant: str, other: str = "") -> Estimate:
    """Return the mean over the whole curve of a variant, or of its difference to another."""

    def statistic(curves: Curves) -> float:
        return mean_of(curves[variant]) - (mean_of(curves[other]) if other else 0.0)

    return over_repetitions(runs, statistic)


def datasets_of(rows: Iterable[Row]) -> list[str]:
    """Return the datasets that have rows, in the paper's order."""
    there = {row.dataset for row in rows}
    return [name for name in SETTINGS if name in there] + sorted(there - SETTINGS.keys())


def variants_of(rows: Iterable[Row]) -> list[str]:
    """Return the variants that have rows, in the order of the rows."""
    return list(dict.fromkeys(row.variant for row in rows))
