"""Means and standard errors over repetitions, straight from the rows of the results file."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from everylabel.experiments.results import Row


class Estimate(NamedTuple):
    """A mean over repetitions, its standard error, and how many there were."""

    mean: float
    error: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


Curve = dict[float, Estimate]


def estimate(values: Iterable[float]) -> Estimate:
    """Return mean and standard error; NaN where nothing was measured."""
    numbers = np.array([value for value in values if np.isfinite(value)])
    if len(numbers) == 0:
        return Estimate(float("nan"), float("nan"), 0)
    error = float(np.std(numbers, ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else float("nan")
    return Estimate(float(np.mean(numbers)), error, len(numbers))


def curves(rows: Iterable[Row], metric: str, dataset: str) -> dict[str, Curve]:
    """Return for each variant its estimate at each x."""
    values: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.metric == metric and row.dataset == dataset:
            values[row.variant][row.x].append(row.value)
    return {v: {x: estimate(numbers) for x, numbers in sorted(at.items())} for v, at in values.items()}


def paired(rows: Iterable[Row], metric: str, dataset: str, variant: str, other: str) -> Curve:
    """Return the mean difference variant - other at each x, paired by repetition."""
    values: dict[tuple[str, float], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.metric == metric and row.dataset == dataset:
            values[row.variant, row.x][row.repetition] = row.value
    result: Curve = {}
    for name, x in sorted(values):
        if name == variant:
            mine, theirs = values[variant, x], values.get((other, x), {})
            result[x] = estimate(mine[rep] - theirs[rep] for rep in mine if rep in theirs)
    return result


def curve_mean(
    rows: Iterable[Row], metric: str, dataset: str, variant: str, other: str | None = None
) -> Estimate:
    """Return the mean over the whole curve (minus the other's, paired by repetition)."""
    sums: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        if row.metric == metric and row.dataset == dataset:
            sums[row.variant, row.repetition].append(row.value)
    means = {key: float(np.mean(values)) for key, values in sums.items()}
    reps = [rep for name, rep in means if name == variant and (other is None or (other, rep) in means)]
    return estimate(means[variant, rep] - (0.0 if other is None else means[other, rep]) for rep in reps)


def datasets_of(rows: Iterable[Row]) -> list[str]:
    """Return the datasets that have rows, in order."""
    return sorted({row.dataset for row in rows})
