"""The demo: the paper's two scenarios on digits.

Updating instead of retraining: 50 labels to start with, then 10 at a time, learned by every method.
Each continues from its own state; retraining starts from all labels every time.
Choosing by updates: the learning curves of `reproduce`, strategies with and without updates; the default.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import Samples, fit_map, laplace, predict_proba, sample, update
from everylabel.data.datasets.catalog import DARKEST, read_digits
from everylabel.experiments.data import load
from everylabel.experiments.engine import Cell, cells_of, run_cells
from everylabel.experiments.reporting.summary import Estimate, curve_mean, mean_curve, runs_of
from everylabel.experiments.results import Results, Row
from everylabel.experiments.selecting import BatchSelection, DefaultChoice, OptimalLookAhead
from everylabel.experiments.training import accuracy, distance, share_of_gain
from everylabel.selection.strategies import DEFAULT

START, AT_A_TIME, ROUNDS = 50, 10, 5
N_CLASSES = 10
RETRAINED, NO_UPDATE, MONTE_CARLO = "retrained", "no update", "Monte Carlo"
UPDATES = {
    name: name.lower().replace(" ", "_") for name in (MONTE_CARLO, "first order", "second order", "exact")
}
METHODS = (NO_UPDATE, *UPDATES, RETRAINED)  # in the order of the table

SELECTION = (BatchSelection(), OptimalLookAhead(), DefaultChoice())
STRATEGIES = (*BatchSelection.strategies, "Typiclust", "optimal", "look-ahead", DEFAULT)


def run(repetitions: int) -> Iterator[list[Row]]:
    """Yield accuracy, distance to retraining and seconds of each method, one repetition after the other."""
    x, y = read_digits()
    for repetition in range(repetitions):
        rng = np.random.default_rng([0, repetition])
        order = rng.permutation(len(x))
        yield _repetition(repetition, x[order] / DARKEST, y[order], rng)


def _repetition(repetition: int, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[Row]:
    test_x, test_y = x[500:1000], y[500:1000]
    base = laplace(fit_map(x[:START], y[:START], N_CLASSES), x[:START])
    states: dict[str, Any] = dict.fromkeys(METHODS, base)
    states[MONTE_CARLO] = sample(base, 2_000, rng)
    rows: list[Row] = []
    for n in range(START + AT_A_TIME, START + ROUNDS * AT_A_TIME + 1, AT_A_TIME):
        for method in (RETRAINED, NO_UPDATE, *UPDATES):
            began, state = time.perf_counter(), states[method]
            if method == RETRAINED:
                state = laplace(fit_map(x[:n], y[:n], N_CLASSES), x[:n])
            elif method in UPDATES:
                state = update(state, x[n - AT_A_TIME : n], y[n - AT_A_TIME : n], UPDATES[method])
            seconds, states[method] = time.perf_counter() - began, state
            drawn = isinstance(state, Samples)  # averages over weights, and is compared with an average
            probs = predict_proba(state, test_x, None if drawn else "mean")
            if method == RETRAINED:
                truth, averaged = probs, predict_proba(state, test_x, "monte_carlo", rng=rng)
            apart = distance(probs, averaged if drawn else truth)
            figures = {"accuracy": accuracy(probs, test_y), "distance": apart, "seconds": seconds}
            rows += [Row("demo", "digits", repetition, "fast", method, n, *pair) for pair in figures.items()]
    return rows


class Line(NamedTuple):
    """One method's line of the table, averaged over rounds and repetitions."""

    method: str
    accuracy: float
    share_of_gain: float
    distance: float
    times_faster: float


def summarise(rows: list[Row]) -> list[Line]:
    """Return one line per method, in the order of the table."""
    reached, apart = (
        {method: curve_mean(runs_of(rows, metric, "digits"), method).mean for method in METHODS}
        for metric in ("accuracy", "distance")
    )
    seconds = {
        method: np.median([row.value for row in rows if (row.variant, row.metric) == (method, "seconds")])
        for method in METHODS
    }
    lines = []
    for method in METHODS:
        share = share_of_gain(reached[NO_UPDATE], reached[method], reached[RETRAINED])
        faster = float("nan") if method == NO_UPDATE else float(seconds[RETRAINED] / seconds[method])
        lines.append(Line(method, reached[method], share, apart[method], faster))
    return lines


def selection_cells(repetitions: int) -> list[Cell]:
    """Return the cells of the second scenario."""
    cells = cells_of(SELECTION, [load("digits", "")], repetitions, "fast")
    return [cell for cell in cells if cell.part in STRATEGIES]


def run_selection(cells: list[Cell], results: Results, jobs: int) -> Iterator[Cell]:
    """Run the learning curves, store and yield each."""
    return run_cells(cells, SELECTION, partial(load, folder=""), results, jobs)


def summarise_selection(rows: list[Row]) -> list[tuple[str, Estimate, Estimate, Estimate]]:
    """Return for each strategy its mean accuracy, its gain over random, and its last accuracy."""
    found, runs = [], runs_of(rows, "accuracy", "digits")
    for name in STRATEGIES:
        *_, last = mean_curve(runs, name).values()
        found.append((name, curve_mean(runs, name), curve_mean(runs, name, "random"), last))
    return found
