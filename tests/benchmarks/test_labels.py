"""Figures of `make bench NAME=labels`: on curves with known figures, and one run of the page's loop."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from benchmarks.labels.__main__ import main
from benchmarks.labels.cells import Cell, Cells, Rows
from benchmarks.labels.curve import BUDGETS, measured
from benchmarks.labels.figures import Curves, difference, needed, regret
from benchmarks.labels.report import write
from benchmarks.labels.served import served
from benchmarks.labels.sets import Data, load_all
from benchmarks.labels.trust import some_of_each
from benchmarks.results import cache_record, records


def cell(arm: str, seed: int, accuracies: dict[int, float]) -> Cell:
    points: list[dict[str, Any]] = [{"n": n, "test": a - 0.1, "left": a + 0.1} for n, a in accuracies.items()]
    return Cell("digits", seed, arm, points, 1.0)


RIVAL = {0: 0.1, 100: 0.6, 200: 0.7}
OURS = {0: 0.2, 100: 0.7, 200: 0.65}


def test_labels_needed_are_read_off_between_two_stops() -> None:
    curves = Curves([cell("page", 0, OURS), cell("margin", 0, RIVAL)])
    assert needed(curves, "digits", "page", "margin", 100) == pytest.approx(80)
    assert needed(curves, "digits", "page", "margin", 200) == pytest.approx(100)


def test_accuracy_at_zero_labels_counts_only_for_arms_with_class_names() -> None:
    ours = cell("page", 0, {0: 0.6, 50: 0.5, 100: 0.7})
    rival = cell("margin", 0, RIVAL)
    assert needed(Curves([ours, rival]), "digits", "page", "margin", 100) == pytest.approx(75)
    ours.points[0]["names"] = True
    assert needed(Curves([ours, rival]), "digits", "page", "margin", 100) == 0


def test_labels_needed_are_none_if_never_enough() -> None:
    curves = Curves([cell("page", 0, {0: 0.1, 100: 0.2}), cell("margin", 0, RIVAL)])
    assert needed(curves, "digits", "page", "margin", 200) is None


def test_differences_are_paired_over_repetitions_of_both() -> None:
    ours = [cell("page", seed, {100: 0.5 + 0.1 * seed}) for seed in range(4)]
    rival = [cell("margin", seed, {100: 0.48 + 0.1 * seed - 0.02 * (seed == 1)}) for seed in range(2)]
    found = difference(Curves([*ours, *rival]), "digits", "page", "margin", 100, "both")
    assert found.n == 2
    assert [found.mean, found.error] == pytest.approx([0.03, 0.01])


def test_regret_is_to_the_rival_that_leads_there_and_behind_means_beyond_two_errors() -> None:
    ours = [cell("page", seed, {100: 0.5}) for seed in range(2)]
    near = [cell("badge", seed, {100: 0.5 + 0.04 * seed}) for seed in range(2)]
    far = [cell("margin", seed, {100: 0.515}) for seed in range(2)]
    found = regret(Curves([*ours, *near, *far]), "digits", "page", ["badge", "margin"], 100, "test")
    assert found is not None
    assert found.rival == "badge"
    assert not found.behind
    assert difference(Curves([*ours, *far]), "digits", "page", "margin", 100, "left").behind
    lucky = cell("random", 0, {100: 0.9})
    found = regret(Curves([*ours, *far, lucky]), "digits", "page", ["margin", "random"], 100, "test")
    assert found is not None
    assert found.rival == "margin"
    one = difference(Curves([ours[0], far[0]]), "digits", "page", "margin", 100, "left")
    assert one.error is None
    assert not one.behind


def test_rows_are_made_once_and_kept(tmp_path: Path) -> None:
    made = []

    def row(a: int, b: str) -> dict[str, Any]:
        made.append((a, b))
        return {"value": a}

    for _ in range(2):
        rows = Rows(tmp_path / "rows.jsonl", ("a", "b"))
        rows.make([(1, "x"), (2, "x")], row)
    assert made == [(1, "x"), (2, "x")]
    assert rows.rows[2, "x"] == {"a": 2, "b": "x", "value": 2}


def test_cells_of_all_arms_are_read_back(tmp_path: Path) -> None:
    wanted = [("digits", 1, "margin"), ("digits", 0, "version 0.1, page")]
    Cells(tmp_path).run(wanted, lambda *key: [{"n": 0, "test": 0.5, "left": 0.5}])
    assert [found[:3] for found in Cells(tmp_path).all()] == sorted(wanted)


def test_an_arm_that_is_measured_again_replaces_only_its_own_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(cache: str, curves: dict[str, float]) -> None:
        for arm, accuracy in curves.items():
            points = [{"n": n, "test": accuracy, "left": accuracy} for n in BUDGETS]
            Cells(tmp_path / cache / "curves").run([("digits", 0, arm)], lambda *_, points=points: points)
        options = ["--cache", str(tmp_path / cache), "--out", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["labels", "report", *options])
        main()

    old = {"version": "0.1.0", "commit": "1111111", "date": "2026-11-16", "command": "", "load": None}
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "made_by.json").write_text(json.dumps(old))
    report("old", {"page": 0.5, "margin": 0.6})
    report("new", {"page": 0.7})
    made, found = records(tmp_path / "labels.json"), json.loads((tmp_path / "labels.json").read_text())
    assert {row["arm"]: row["test"]["100"] for row in found["curves"]} == {"margin": [0.6], "page": [0.7]}
    assert made["margin"]["commit"] == "1111111" != made["page"]["commit"]
    assert set(made) == {"margin", "page"}


def test_a_point_counts_left_test_positives_and_f1() -> None:
    data = Data(
        np.zeros((4, 2)), np.array([1, 0, 1, 0]), np.zeros((4, 2)), np.array([1, 1, 0, 0]), ("no", "yes")
    )
    point = measured(data, np.array([0]), np.array([1, 0, 1, 0]), np.array([0, 0, 1, 1]))
    assert point == {"n": 1, "test": 0.5, "left": pytest.approx(2 / 3, abs=1e-5), "positives": 1, "f1": 0.5}


def test_some_of_each_class_are_drawn() -> None:
    y = np.array([0, 1, 0, 1, 1, 2])
    labels = some_of_each(y, 3, 2, np.random.default_rng(0))
    assert sorted(labels.values()) == [0, 0, 1, 1, 2]
    assert all(y[i] == c for i, c in labels.items())


def test_the_served_loop_learns_and_a_report_is_written_of_it(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    x = (x / 16.0).astype(np.float32)
    data = Data(x[:300], y[:300], x[300:], y[300:], tuple(map(str, range(10))))
    points = list(served(data, None, stops=(0, 10, 25)))
    assert [point["n"] for point in points] == [0, 10, 25]
    assert points[2]["test"] > points[1]["test"] > 0.3
    flat = [{**points[-1], "n": n} for n in (0, 10, 25, 50, 100, 200, 400)]
    cells = [Cell("digits", 0, arm, flat, 1.0) for arm in ("page", "margin")]
    made = {"page": cache_record(tmp_path / "cache")}
    curves = Curves(cells)
    write(curves, [], [], tmp_path / "labels-small", made, "small", curves)
    text = (tmp_path / "labels-small.md").read_text()
    assert "| digits | +0.0 (margin, n = 1) |" in text
    assert "# What a label buys, by small" in text
    assert "it needs 10 labels instead of 100 (with MiniLM 10) and 10 labels instead of 200" in text


def test_feature_files_of_another_encoder_bring_the_vectors_of_class_names(tmp_path: Path) -> None:
    x, y = np.ones((4, 3), np.float32), np.array([0, 1, 0, 1])
    np.savez(
        tmp_path / "subj_small.npz",
        X_train=x,
        y_train=y,
        X_test=x,
        y_test=y,
        classes=["no", "yes"],
        names=np.eye(2, 3),
    )
    load_all.cache_clear()
    data = load_all("subj", tmp_path)
    assert data.names is not None
    assert data.names.tolist() == np.eye(2, 3).tolist()
    assert data.x.tolist() == x.tolist()
