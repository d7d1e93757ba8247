"""The demo: the paper's two scenarios on digits.

Updating instead of retraining: 50 labels to start with, then 10 at a time, learned by every method.
Each goes on from what it learned before; retraining starts from all labels every time.
Choosing by updates: the learning curves of `reproduce`, strategies with and without updates.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from everylabel.core import Posterior, Samples, fit_map, laplace, predict_proba, sample, update
from everylabel.data.datasets.digits import DARKEST, read_digits
from everylabel.experiments.data import load
from everylabel.experiments.engine import Cell, cells_of, run_cells
from everylabel.experiments.metrics import accuracy, distance, share_of_gain
from everylabel.experiments.reporting.plots import STYLES, as_png
from everylabel.experiments.reporting.summary import Estimate, curve_mean, curves, paired
from everylabel.experiments.results import Results, Row
from everylabel.experiments.selecting import BatchSelection, OptimalLookAhead

START, AT_A_TIME, ROUNDS = 50, 10, 5
N_CLASSES = 10
RETRAINED, UNTAUGHT, MONTE_CARLO = "retrained", "no update", "Monte Carlo"

SELECTION = (BatchSelection(), OptimalLookAhead())
STRATEGIES = (*BatchSelection.strategies, "Typiclust", "optimal", "look-ahead")

State = Posterior | Samples
Learn = Callable[[Any, np.ndarray, np.ndarray], State]

METHODS: dict[str, Learn] = {
    UNTAUGHT: lambda state, x, y: state,
    MONTE_CARLO: lambda state, x, y: update(state, x, y, "monte_carlo"),
    "first order": lambda state, x, y: update(state, x, y, "first_order"),
    "second order": lambda state, x, y: update(state, x, y, "second_order"),
    "exact": lambda state, x, y: update(state, x, y, "exact"),
}


class Measurement(NamedTuple):
    """One method after one round of labels in one repetition."""

    repetition: int
    method: str
    n_labels: int
    accuracy: float
    distance: float
    seconds: float


def run(repetitions: int) -> Iterator[list[Measurement]]:
    """Yield the measurements of one repetition after the other."""
    x, y = read_digits()
    x = x / DARKEST
    for repetition in range(repetitions):
        rng = np.random.default_rng([0, repetition])
        order = rng.permutation(len(x))
        yield _repetition(repetition, x[order], y[order], rng)


def _repetition(repetition: int, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[Measurement]:
    test_x, test_y = x[500:1000], y[500:1000]
    base = laplace(fit_map(x[:START], y[:START], N_CLASSES), x[:START])
    states: dict[str, State] = dict.fromkeys(METHODS, base)
    states[MONTE_CARLO] = sample(base, 2_000, rng)
    measurements = []
    for n in range(START + AT_A_TIME, START + ROUNDS * AT_A_TIME + 1, AT_A_TIME):
        began = time.perf_counter()
        retrained = laplace(fit_map(x[:n], y[:n], N_CLASSES), x[:n])
        seconds = time.perf_counter() - began
        truth = predict_proba(retrained, test_x, "mean")
        averaged = predict_proba(retrained, test_x, "monte_carlo", rng=rng)
        measurements.append(Measurement(repetition, RETRAINED, n, accuracy(truth, test_y), 0.0, seconds))
        for method, learn in METHODS.items():
            began = time.perf_counter()
            states[method] = learn(states[method], x[n - AT_A_TIME : n], y[n - AT_A_TIME : n])
            seconds = time.perf_counter() - began
            state = states[method]
            drawn = isinstance(state, Samples)  # an average over weights, compared with its like
            probs = predict_proba(state, test_x, None if drawn else "mean")
            apart = distance(probs, averaged if drawn else truth)
            measurements.append(Measurement(repetition, method, n, accuracy(probs, test_y), apart, seconds))
    return measurements


class Line(NamedTuple):
    """One method's line of the table, averaged over rounds and repetitions."""

    method: str
    accuracy: float
    share_of_gain: float
    distance: float
    times_faster: float


def summarise(measurements: list[Measurement]) -> list[Line]:
    """Return one row a method, in the order they are shown."""
    rows = []
    base, best = (_mean(measurements, name, "accuracy") for name in (UNTAUGHT, RETRAINED))
    retraining = _median_seconds(measurements, RETRAINED)
    for method in [*METHODS, RETRAINED]:
        reached = _mean(measurements, method, "accuracy")
        faster = float("nan") if method == UNTAUGHT else retraining / _median_seconds(measurements, method)
        rows.append(
            Line(
                method,
                reached,
                share_of_gain(base, reached, best),
                _mean(measurements, method, "distance"),
                faster,
            )
        )
    return rows


def selection_cells(repetitions: int) -> list[Cell]:
    """Return the cells of the second scenario."""
    cells = cells_of(SELECTION, [load("digits", "")], repetitions, "fast")
    return [cell for cell in cells if cell.part in STRATEGIES]


def run_selection(cells: list[Cell], results: Results, jobs: int) -> Iterator[Cell]:
    """Run the learning curves, store and yield each."""
    return run_cells(cells, {experiment.grid: experiment.run for experiment in SELECTION}, "", results, jobs)


def summarise_selection(rows: list[Row]) -> list[tuple[str, Estimate, Estimate, Estimate]]:
    """Return for each strategy its curve's mean accuracy, that above random's, and the last accuracy."""
    found = []
    for name in STRATEGIES:
        mean = curve_mean(rows, "accuracy", "digits", name)
        lead = curve_mean(rows, "accuracy", "digits", name, "random")
        *_, last = curves(rows, "accuracy", "digits")[name].values()
        found.append((name, mean, lead, last))
    return found


def plot(measurements: list[Measurement], rows: list[Row], path: Path) -> None:
    """Save accuracy and distance to retraining while learning, and what choosing by updates gains."""
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    n_labels = sorted({m.n_labels for m in measurements})
    for method in [*METHODS, RETRAINED]:
        colour, line = STYLES[{UNTAUGHT: "baseline", RETRAINED: "retraining"}.get(method, method)]
        for axis, field in ((left, "accuracy"), (middle, "distance")):
            if method == RETRAINED and field == "distance":
                continue
            values = [_mean([m for m in measurements if m.n_labels == n], method, field) for n in n_labels]
            axis.plot(n_labels, values, line, color=colour, label=method, marker="o", markersize=3, lw=1.6)
    for name in dict.fromkeys(row.variant for row in rows):
        curve = paired(rows, "accuracy", "digits", name, "random")
        colour, line = STYLES[name]
        right.plot(list(curve), [e.mean for e in curve.values()], line, color=colour, label=name, lw=1.6)
    left.set(xlabel="labels", ylabel="test accuracy", title="Learning ten labels at a time, digits")
    middle.set(
        xlabel="labels", ylabel="mean total variation", title="Distance to retraining (lower is better)"
    )
    right.set(xlabel="labels", ylabel="accuracy minus random", title="Choosing what to label")
    for axis in (left, middle, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.2, lw=0.5)
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_png(figure))


def _of(measurements: list[Measurement], method: str, field: str) -> list[float]:
    return [getattr(m, field) for m in measurements if m.method == method]


def _mean(measurements: list[Measurement], method: str, field: str) -> float:
    return float(np.mean(_of(measurements, method, field)))


def _median_seconds(measurements: list[Measurement], method: str) -> float:
    return float(np.median(_of(measurements, method, "seconds")))
