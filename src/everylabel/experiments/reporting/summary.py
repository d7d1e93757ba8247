"""All experiments by name, in the order of the paper; means and standard errors of their results.

Results can be logged to MLflow, at its own address (MLFLOW_TRACKING_URI): one run for each
experiment, dataset, training and variant. A metric has the mean over repetitions at each x as its step and
the standard error beside it. Logging again replaces earlier runs.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, need
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
EXPERIMENT = "everylabel reproduce"


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


def need_mlflow() -> Any:
    """Return the mlflow module, or raise with the package to install."""
    return need("mlflow", "mlflow", "logging to MLflow")


def log_to_mlflow(results: Results, training: str) -> int:
    """Write all results of one training to MLflow; return the number of runs."""
    mlflow = need_mlflow()
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for name in EXPERIMENTS:
        for row in rows_of(results, name, training):
            groups[name, row.dataset, row.variant].append(row)
    try:
        client = mlflow.MlflowClient()
        found = client.get_experiment_by_name(EXPERIMENT)
        home = client.create_experiment(EXPERIMENT) if found is None else found.experiment_id
        runs: Any = mlflow.search_runs([home], output_format="list")
        before = {run.data.tags.get("everylabel.key"): run.info.run_id for run in runs}
        for (experiment, dataset, variant), rows in groups.items():
            key = f"{experiment}/{dataset}/{training}/{variant}"
            if key in before:
                client.delete_run(before[key])
            run = client.create_run(home, run_name=key, tags={"everylabel.key": key}).info.run_id
            metrics = [mlflow.entities.Metric(*metric) for metric in _metrics(rows, dataset, variant)]
            facts = {"experiment": experiment, "dataset": dataset, "training": training, "variant": variant}
            facts["repetitions"] = str(len({row.repetition for row in rows}))
            params = [mlflow.entities.Param(*fact) for fact in facts.items()]
            client.log_batch(run, metrics=metrics, params=params)
            client.set_terminated(run)
    except mlflow.exceptions.MlflowException as error:
        raise EverylabelError(
            f"MLflow refused ({error}); set MLFLOW_TRACKING_URI to a server or store it can write to. "
            f"The measurements are safe in {str(results.path)!r}"
        ) from error
    return len(groups)


def _metrics(rows: list[Row], dataset: str, variant: str) -> list[tuple[str, float, int, int]]:
    """Return name, value, time and step of every mean and standard error."""
    now = int(1000 * time.time())
    found = []
    for metric in dict.fromkeys(row.metric for row in rows):
        name = re.sub(r"[^\w\-. /]", "", metric)
        for x, at in curves(rows, metric, dataset)[variant].items():
            found.append((name, at.mean, now, int(x)))
            if at.n > 1:
                found.append((f"{name}, standard error".replace(",", ""), at.error, now, int(x)))
    return found
