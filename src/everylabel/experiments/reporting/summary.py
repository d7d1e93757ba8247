"""All experiments by name, in the order of the paper; means and standard errors of their results."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from everylabel.experiments.data import SETTINGS
from everylabel.experiments.engine import Experiment
from everylabel.experiments.network import NETWORK
from everylabel.experiments.results import Results, Row
from everylabel.experiments.selecting import SELECTING
from everylabel.experiments.updating import UPDATING

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in (*UPDATING, *SELECTING, *NETWORK)}
FIGURES = {"fig2": "step-size", "fig3": "stages", "fig4": "new-sizes", "fig5": "speed-up"}
FIGURES |= {"fig6": "batch-selection", "fig7": "look-ahead"}
TITLES = {"digits": "Digits", "cifar10": "CIFAR-10", "snacks": "Snacks", "dtd": "DTD", "dbpedia": "DBpedia"}
TITLES |= {
    "banking77": "Banking-77",
    "clinc150": "Clinc-150",
    "fashion-mnist": "Fashion-MNIST",
    "texts": "Texts",
}


def rows_of(results: Results, name: str, training: str) -> list[Row]:
    """Return the measurements that an experiment shows, of a grid that it may share."""
    experiment = EXPERIMENTS[name]
    rows, shown = results.rows(experiment.grid, training), experiment.strategies
    return [row for row in rows if not shown or row.variant in shown]


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


def estimate(values: Iterable[float]) -> Estimate:
    """Return mean and standard error; NaN without measurements."""
    numbers = np.array([value for value in values if np.isfinite(value)])
    if len(numbers) == 0:
        return Estimate(float("nan"), float("nan"), 0)
    error = float(np.std(numbers, ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else float("nan")
    return Estimate(float(np.mean(numbers)), error, len(numbers))


def by_repetition(rows: Iterable[Row], metric: str, dataset: str) -> dict[int, Curves]:
    """Return the curves of each repetition."""
    found: dict[int, Curves] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row.metric == metric and row.dataset == dataset:
            found[row.repetition][row.variant][row.x] = row.value
    return {repetition: dict(variants) for repetition, variants in found.items()}


def over_repetitions(
    rows: Iterable[Row], metric: str, dataset: str, statistic: Callable[[Curves], float]
) -> Estimate:
    """Return the estimate of a statistic over repetitions; skip repetitions that lack its variants."""
    values = []
    for curves_of_one in by_repetition(rows, metric, dataset).values():
        try:
            values.append(statistic(curves_of_one))
        except KeyError:  # a variant that this repetition has not measured yet
            continue
    return estimate(values)


def curves(rows: Iterable[Row], metric: str, dataset: str) -> dict[str, Curve]:
    """Return for each variant its estimate at each x."""
    values: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.metric == metric and row.dataset == dataset:
            values[row.variant][row.x].append(row.value)
    return {v: {x: estimate(numbers) for x, numbers in sorted(at.items())} for v, at in values.items()}


def paired(rows: Iterable[Row], metric: str, dataset: str, variant: str, other: str) -> Curve:
    """Return the mean difference variant - other at each x, paired by repetition."""
    differences: dict[float, list[float]] = defaultdict(list)
    for found in by_repetition(rows, metric, dataset).values():
        mine, theirs = found.get(variant, {}), found.get(other, {})
        for x in mine.keys() & theirs.keys():
            differences[x].append(mine[x] - theirs[x])
    return {x: estimate(values) for x, values in sorted(differences.items())}


def mean_of(curve: dict[float, float]) -> float:
    """Return the mean over a curve."""
    return float(np.mean(list(curve.values())))


def curve_mean(
    rows: Iterable[Row], metric: str, dataset: str, variant: str, other: str | None = None
) -> Estimate:
    """Return the mean over the whole curve (minus the other's, paired by repetition)."""

    def statistic(found: Curves) -> float:
        if variant not in found or (other is not None and other not in found):
            raise KeyError(variant)
        return mean_of(found[variant]) - (0.0 if other is None else mean_of(found[other]))

    return over_repetitions(rows, metric, dataset, statistic)


def datasets_of(rows: Iterable[Row]) -> list[str]:
    """Return the datasets that have rows, in the paper's order."""
    order = list(SETTINGS)
    return sorted(
        {row.dataset for row in rows}, key=lambda d: (order.index(d) if d in order else len(order), d)
    )
