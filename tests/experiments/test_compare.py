"""Strategies compared: curves, areas, win rates, ranks, and the command."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from everylabel import EverylabelError
from everylabel.cli.commands import app
from everylabel.experiments.compare import (
    METRICS,
    Comparison,
    chooser,
    critical_difference,
    load_features,
    split,
    store_features,
    summarise,
)
from everylabel.experiments.data import Data
from everylabel.experiments.engine import Cell
from everylabel.experiments.results import Row
from everylabel.experiments.selecting import Labelled


@pytest.fixture
def data(tmp_path: Path) -> Data:
    x, y = load_digits(return_X_y=True)
    store_features(tmp_path, "few", split(x[:300] / 16, y[:300], 0.3))
    return load_features("few", str(tmp_path), 5)


def _row(dataset: str, repetition: int, variant: str, x: float, value: float) -> Row:
    return Row("compare", dataset, repetition, "exact", variant, x, "accuracy", value)


def test_split_holds_out_labelled_items_only() -> None:
    y = np.array([0, 1, -1, 1, 0, -1, 0, 1, 0, 1])
    parts = split(np.arange(10.0)[:, None], y, 0.25)
    used = np.concatenate([parts["X_train"], parts["X_test"]])[:, 0]
    assert sorted(used) == [0, 1, 3, 4, 6, 7, 8, 9]
    assert len(parts["X_test"]) == 2


@pytest.mark.parametrize("strategy", ["herding", "margin/batch", "skactiveml:CoreSet", "skactiveml:Badge"])
def test_curve_has_all_metrics_after_every_cycle(data: Data, strategy: str) -> None:
    experiment = Comparison([strategy], batch=5, cycles=2, candidates=50)
    cell = Cell(experiment.grid, "few", 0, "exact", strategy)
    rows = experiment.run(cell, data)
    assert [(row.x, row.metric) for row in rows] == list(product((5, 10, 15), METRICS))
    assert experiment.run(cell, data) == rows


def test_strategies_of_a_repetition_start_with_the_same_labels(data: Data) -> None:
    experiment = Comparison(["random", "margin"], batch=5, cycles=1, candidates=None)
    first = [
        experiment.run(Cell(experiment.grid, "few", 3, "exact", name), data)[0]
        for name in ("random", "margin")
    ]
    assert first[0].value == first[1].value


def test_batch_suffix_learns_no_label_inside_the_batch(data: Data) -> None:
    """Chosen at once, the items are the five with the smallest margins of the trained model."""
    from everylabel.core import fit_map, laplace

    labelled = np.arange(20)
    mean = np.asarray(fit_map(data.x[labelled], data.y[labelled], 10))
    posterior = laplace(mean, data.x[labelled], labels=data.y[labelled])
    state = Labelled(posterior, data, data.x, labelled)
    free = np.asarray(state.pool().free_idx)
    chosen = chooser("margin/batch")(state, 5, np.random.default_rng(0))
    logits = data.x[free] @ mean[:-1] + mean[-1]
    probs = np.exp(logits - logits.max(1, keepdims=True))
    top = np.sort(probs / probs.sum(1, keepdims=True), axis=1)
    assert set(chosen) == set(free[np.argsort(top[:, -1] - top[:, -2])[:5]])


def test_summary_equals_slow_twin() -> None:
    rng = np.random.default_rng(0)
    names, datasets, repetitions, xs = ["a", "b", "c"], ["p", "q"], 4, [10, 20, 40]
    value = {key: float(rng.random()) for key in product(datasets, range(repetitions), names, xs)}
    summary = summarise([_row(d, r, n, x, v) for (d, r, n, x), v in value.items()])

    def area(d: str, r: int, n: str) -> float:
        a, b, c = (value[d, r, n, x] for x in xs)
        return (10 * (a + b) / 2 + 20 * (b + c) / 2) / 30

    blocks = list(product(datasets, range(repetitions)))
    for i, n in enumerate(summary.strategies):
        means = [np.mean([area(d, r, n) for r in range(repetitions)]) for d in datasets]
        np.testing.assert_allclose([area.mean for area in summary.areas[i]], means)
        best = [max(np.mean([area(d, r, o) for r in range(repetitions)]) for o in names) for d in datasets]
        np.testing.assert_allclose(summary.regret[i], np.mean(np.subtract(best, means)))
        ranks = [1 + sum(area(d, r, o) > area(d, r, n) for o in names) for d, r in blocks]
        np.testing.assert_allclose(summary.ranks[i], np.mean(ranks))
        for j, o in enumerate(summary.strategies):
            ahead = np.mean([area(d, r, n) > area(d, r, o) for d, r in blocks])
            assert summary.wins[i, j] == (0.5 if n == o else ahead)
    assert list(summary.ranks) == sorted(summary.ranks)
    assert summary.blocks == "repetition"


def test_unfinished_repetition_is_left_out_of_the_summary() -> None:
    rows = [_row("p", 0, "a", 10, 0.5), _row("p", 0, "b", 10, 0.6), _row("p", 1, "a", 10, 0.9)]
    summary = summarise(rows)
    assert summary.strategies == ["b", "a"]
    assert summary.repetitions == [1]
    np.testing.assert_allclose([areas[0].mean for areas in summary.areas], [0.6, 0.5])


def test_critical_difference_is_that_of_demsar() -> None:
    """Demsar (2006), section 3.2.3: five classifiers, 30 datasets: q = 2.728."""
    assert critical_difference(5, 30) == pytest.approx(2.728 * (5 * 6 / (6 * 30)) ** 0.5, abs=1e-3)
    assert critical_difference(4, 14) == pytest.approx(2.569 * (4 * 5 / (6 * 14)) ** 0.5, abs=1e-3)


def test_groups_that_do_not_differ_equal_slow_twin() -> None:
    from everylabel.experiments.reporting.comparison import alike

    rng = np.random.default_rng(0)
    for critical in (0.0, 0.5, 2.0, 9.0):
        ranks = np.sort(rng.uniform(1, 8, 8))
        close = {(i, j) for i in range(8) for j in range(i + 1, 8) if ranks[j] - ranks[i] < critical}
        inside = {(i, j) for i, j in close if {(i - 1, j), (i, j + 1)} & close}
        assert set(alike(ranks, critical)) == close - inside
    assert alike(ranks, float("nan")) == []


def test_strategy_without_a_model_chooses_its_batch_at_once(data: Data) -> None:
    from everylabel.core import fit_map, laplace
    from everylabel.selection import select

    labelled = np.arange(20)
    mean = fit_map(data.x[labelled], data.y[labelled], 10)
    state = Labelled(laplace(mean, data.x[labelled]), data, data.x, labelled)
    chosen = chooser("typiclust")(state, 5, np.random.default_rng(0))
    assert list(chosen) == list(select(state.pool(), "typiclust", 5, np.random.default_rng(0)))


@pytest.mark.parametrize(
    "strategy",
    [
        "nothing",
        "skactiveml:KLDivergenceMaximization",
        "skactiveml:utils",
        "skactiveml:Badge(3)",
        "skactiveml:Badge(",
    ],
)
def test_unknown_strategy_is_refused_before_anything_runs(strategy: str) -> None:
    with pytest.raises(EverylabelError, match="expected"):
        Comparison([strategy], 5, 1, None)


def test_failing_strategy_names_itself_and_the_dataset(data: Data) -> None:
    name = "skactiveml:EpistemicUncertaintySampling"  # two classes only
    experiment = Comparison([name], 5, 1, None)
    with pytest.raises(EverylabelError, match=r"Epistemic.*refuses few"):
        experiment.run(Cell(experiment.grid, "few", 0, "exact", name), data)


def test_command_writes_report_and_resumes(tmp_path: Path) -> None:
    import pyarrow.parquet

    x, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "small.npz", X=x[:200] / 16, y=y[:200])
    np.savez(tmp_path / "parts.npz", X_train=x[:150], y_train=y[:150], X_test=x[150:200], y_test=y[150:200])
    out = tmp_path / "out"
    base = [
        "compare",
        str(tmp_path / "small.npz"),
        str(tmp_path / "parts.npz"),
        "--batch",
        "5",
        "--cycles",
        "2",
    ]
    base += ["--out", str(out), "--label-column", "y"]

    def run(*more: str) -> str:
        result = CliRunner().invoke(app, [*base, *more])
        assert result.exit_code == 0, result.output
        return result.output

    run("--reps", "1", "--strategy", "random", "--strategy", "margin", "--jobs", "1")
    first = pyarrow.parquet.read_table(out / "measurements.parquet").to_pylist()
    shown = run("--reps", "2", "--strategy", "random", "--strategy", "margin", "--jobs", "2")
    rows = pyarrow.parquet.read_table(out / "measurements.parquet").to_pylist()
    assert "1 of 8" not in shown  # four cells were there
    assert len(rows) == 2 * 2 * 2 * 3 * len(METRICS)
    key = lambda row: tuple(str(row[name]) for name in sorted(row))  # noqa: E731
    assert set(map(key, first)) < set(map(key, rows))
    page = (out / "index.html").read_text()
    for part in ("critical difference", "Learning curves: macro F1", "parts", "small", "ahead of"):
        assert part in page
    single = tmp_path / "single"
    base[base.index(str(out))] = str(single)
    run("--reps", "2", "--strategy", "random", "--strategy", "margin", "--jobs", "1")
    again = pyarrow.parquet.read_table(single / "measurements.parquet").to_pylist()
    assert set(map(key, again)) == set(map(key, rows))


def test_source_without_labels_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "blind.npz", X=np.eye(20))
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "blind.npz"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "--label-column" in " ".join(result.output.split())


@pytest.mark.parametrize("cells", [["a;b", "b;c", "a", "c"], [["a", "b"], ["b"], ["c"], ["a", "c"]]])
def test_lists_of_classes_are_refused_before_anything_is_embedded(cells: list[Any], tmp_path: Path) -> None:
    import pyarrow.parquet

    source = tmp_path / "posts.parquet"
    pyarrow.parquet.write_table(
        pyarrow.table({"text": ["one", "two", "three", "four"], "tags": cells}), source
    )
    named = ["--text-column", "text", "--label-column", "tags", "--model", "no-such-model"]
    result = CliRunner().invoke(app, ["compare", str(source), *named, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    text = " ".join(result.output.split())
    assert "lists of classes; expected one class per item" in text
    assert "everylabel simulate SOURCE --multi-label" in text
