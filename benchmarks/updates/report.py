"""The tables and the plot of what was measured."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.updates.quality import ADDED
from benchmarks.updates.rivals import EXACT, PAPER


def show(console: Console, report: dict[str, Any]) -> None:
    """Print all tables."""
    _quality(console, report["cells"])
    _learners(console, report["cells"])
    _speed(console, report["speed"])
    table = Table(title="the issue's figures")
    for heading in ("figure", "asked", "measured", "met"):
        table.add_column(heading)
    for row in report["figures"]:
        table.add_row(row["figure"], row["asked"], row["measured"], "yes" if row["met"] else "NO")
    console.print(table)


def _quality(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(title="distance to retraining, exact / the paper's (share of the gain, where there is one)")
    for heading in ("dataset", "labels", *(f"+{a}" for a in ADDED), "ms a label", "the paper's"):
        table.add_column(heading, justify="right")
    of = {(r["dataset"], r["n"], r["added"], r["learner"]): r for r in rows}
    for dataset, n in dict.fromkeys((r["dataset"], r["n"]) for r in rows):
        line = [dataset, str(n)]
        for added in ADDED:
            ours, paper = of[dataset, n, added, EXACT], of[dataset, n, added, PAPER]
            share = "" if ours["share"] is None else f" ({ours['share']:.2f} / {paper['share']:.2f})"
            line.append(f"{ours['distance']:.5f} / {paper['distance']:.4f}{share}")
        last = max(ADDED)
        line += [f"{of[dataset, n, last, who]['ms']:.2f}" for who in (EXACT, PAPER)]
        table.add_row(*line)
    console.print(table)


def _learners(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(title="all learners, mean over datasets and sizes")
    for heading in ("learner", "+", "distance", "points short of retraining", "ms a label"):
        table.add_column(heading, justify="right")
    for learner in dict.fromkeys(r["learner"] for r in rows):
        for added in ADDED:
            group = [r for r in rows if r["learner"] == learner and r["added"] == added]
            near, short, ms = (np.mean([r[field] for r in group]) for field in ("distance", "short", "ms"))
            table.add_row(learner, str(added), f"{near:.4f}", f"{100 * short:.2f}", f"{ms:.2f}")
    console.print(table)


def _speed(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(title="ms a label over 10 labels, warm training to the same distance")
    headings = (
        "dataset",
        "labels",
        "k",
        "distance",
        "exact",
        "the paper's",
        "L-BFGS",
        "fit_map",
        "L-BFGS x 10",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for r in rows:
        table.add_row(
            r["dataset"],
            str(r["n"]),
            str(r["k"]),
            f"{r['distance']:.5f}",
            f"{r['exact_ms']:.2f}",
            f"{r['paper_ms']:.2f}",
            f"{r['lbfgs_ms']:.1f} ({r['lbfgs_iterations']} it.)",
            f"{r['fit_map_ms']:.1f} (tol {r['fit_map_tol']:g})",
            f"{r['lbfgs10_ms']:.1f} at {r['lbfgs10_distance']:.5f}",
        )
    console.print(table)


def plot(report: dict[str, Any], path: Path) -> None:
    """Save distances in all cells, growth and drift as one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.4), layout="constrained")
    learners = list(dict.fromkeys(r["learner"] for r in report["cells"]))
    for at, learner in enumerate(learners):
        values = [r["distance"] for r in report["cells"] if r["learner"] == learner]
        left.plot(np.full(len(values), at), values, "_", markersize=14, alpha=0.5)
    left.set_xticks(range(len(learners)), [name.replace(" ", "\n", 1) for name in learners], fontsize=7)
    left.set(yscale="log", ylabel="mean total variation", title="Distance to retraining, every cell")
    for name, rows in report["growth"].items():
        axis = name[0]
        slope = report["exponents"][name]
        label = f"{name}: exponent {slope:.2f}"
        middle.plot([r[axis] for r in rows], [r["ms_with_build"] for r in rows], "o-", label=label)
    middle.set(xscale="log", yscale="log", xlabel="n, d or k", ylabel="ms a label", title="Growth")
    for name, rows in report["drift"].items():
        (line,) = right.plot([r["labels"] for r in rows], [r["exact"] for r in rows], label=f"{name}, exact")
        paper = [r["paper"] for r in rows]
        right.plot([r["labels"] for r in rows], paper, ":", color=line.get_color(), label=f"{name}, paper's")
    right.set(yscale="log", xlabel="labels in a row", title="Distance to retraining, no refit between")
    for axis_ in (middle, right):
        axis_.legend(frameon=False, fontsize=7)
    for axis_ in (left, middle, right):
        axis_.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
