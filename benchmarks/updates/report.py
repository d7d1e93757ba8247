"""The tables and the plot of the measurements."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.results import sentence
from benchmarks.updates.quality import ADDED
from benchmarks.updates.rivals import EXACT, PAPER

Lines = list[list[str]]  # a table: the headings, then the rows
ALL = "All methods, mean over datasets and numbers of labels"
HEAD = """\
This page answers: how close does each update come to retraining on all labels, and how long does it take?

{short}

[Updates](../updates.md#what-was-measured) says which update to use.
"""
MEASURED = """\
## How it was measured

`make bench NAME=updates` measures six datasets of features, with several numbers of labels and 1, 10 or 50
new labels (+1, +10, +50). Figures are means over {n} splits.

- *Distance*: how much the predictions for test data differ from those after retraining (mean total
  variation), from 0 (equal) to 1.
- *Gain*: the accuracy that retraining on the new labels adds. An update's *share of the gain* is the accuracy
  that it adds, divided by the gain; it is given where the gain exceeds half a point.
- *Warm* training is L-BFGS or `fit_map`, started at the last weights; *tol* is the tolerance at which it
  stops.
- *Time*: in the first two tables by the clock, a mean over the labels added (in the second table: 50). The
  first label after training is included, for which the exact update builds its preconditioner; this takes
  long. From the third table on, times are processor time of one thread, without that first label.
- *k*: number of classes.
"""


def tables(report: dict[str, Any]) -> dict[str, Lines]:
    """Return all tables by their titles."""
    return {
        ALL: _learners(report["cells"]),
        "Distance to retraining, exact / the paper's (share of the gain, where there is one)": _quality(
            report["cells"]
        ),
        "Time per label in ms, mean of 10 labels; warm training to the same distance": _speed(
            report["speed"]
        ),
        "Time of one label and of ten at once in ms, and of warm training to the same distance": (
            _ratios(report.get("ratios", []))
        ),
        "The slowest of 800 labels in a row, relative to the median of the 41 around it": _stalls(
            report.get("stalls", [])
        ),
        "Growth of the time per label in ms (in brackets: of rebuilding the preconditioner)": _growth(report),
        "Goals": _figures(report["figures"]),
    }


def show(console: Console, report: dict[str, Any]) -> None:
    """Print all tables."""
    for title, (headings, *rows) in tables(report).items():
        table = Table(*headings, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown(report: dict[str, Any]) -> str:
    """Return all tables as a page."""
    parts = ["# How close updates come to retraining\n", HEAD.format(short=summary(report))]
    for title, (headings, *rows) in tables(report).items():
        lines = [headings, ["---"] * len(headings), *rows]
        parts.append(f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
        if title == ALL:
            parts.append(MEASURED.format(n=report["repetitions"]))
    return "\n".join([*parts, "## Versions\n", sentence(report["made_by"]) + "\n"])


def summary(report: dict[str, Any]) -> str:
    """Return the main figures as a list."""
    most = max(ADDED)
    off, short = (
        [
            np.mean([r[field] for r in report["cells"] if r["learner"] == who and r["added"] == most])
            for who in (EXACT, PAPER)
        ]
        for field in ("distance", "short")
    )
    faster = [r["ratio"] for r in report.get("ratios", []) if r["labels"] == 1]
    faster += [r["fit_map_ms"] / r["exact_ms"] for r in report["speed"]]
    text = (
        f"- After {most} labels, the exact update predicts nearly as retraining does (distance {off[0]:.4f}, "
        f"accuracy {abs(100 * short[0]):.2f} points lower).\n"
        f"- The paper's update is farther away (distance {off[1]:.3f}, accuracy {100 * short[1]:.2f} points "
        "lower)."
    )
    if faster:
        text += (
            f"\n- For one label, the exact update is {min(faster):.1f} to {max(faster):.1f} times as fast as "
            "training by `fit_map` from the last weights to the same distance."
        )
    return text


def _figures(rows: list[dict[str, Any]]) -> Lines:
    met = {True: "yes", False: "no"}
    lines = [[r["figure"], r["asked"], r["measured"], met[r["met"]]] for r in rows]
    return [["figure", "goal", "measured", "met"], *lines]


def _quality(rows: list[dict[str, Any]]) -> Lines:
    of = {(r["dataset"], r["n"], r["added"], r["learner"]): r for r in rows}
    lines = [["dataset", "labels", *(f"+{added}" for added in ADDED), "ms per label", "the paper's"]]
    for dataset, n in dict.fromkeys((r["dataset"], r["n"]) for r in rows):
        line = [dataset, str(n)]
        for added in ADDED:
            ours, paper = of[dataset, n, added, EXACT], of[dataset, n, added, PAPER]
            share = "" if ours["share"] is None else f" ({ours['share']:.2f} / {paper['share']:.2f})"
            line.append(f"{ours['distance']:.5f} / {paper['distance']:.4f}{share}")
        lines.append(line + [f"{of[dataset, n, max(ADDED), who]['ms']:.2f}" for who in (EXACT, PAPER)])
    return lines


def _learners(rows: list[dict[str, Any]]) -> Lines:
    lines = [["method", "labels added", "distance", "points short of retraining", "ms per label"]]
    for learner in dict.fromkeys(r["learner"] for r in rows):
        for added in ADDED:
            group = [r for r in rows if r["learner"] == learner and r["added"] == added]
            near, short, ms = (np.mean([r[field] for r in group]) for field in ("distance", "short", "ms"))
            lines.append([learner, str(added), f"{near:.4f}", f"{100 * short:.2f}", f"{ms:.2f}"])
    return lines


def _speed(rows: list[dict[str, Any]]) -> Lines:
    rivals = ("exact", "the paper's", "L-BFGS", "fit_map", "10 iterations of L-BFGS")
    lines = [["dataset", "labels", "k", "distance", *rivals]]
    for r in rows:
        lines.append(
            [
                r["dataset"],
                str(r["n"]),
                str(r["k"]),
                f"{r['distance']:.5f}",
                f"{r['exact_ms']:.2f}",
                f"{r['paper_ms']:.2f}",
                f"{r['lbfgs_ms']:.1f} ({r['lbfgs_iterations']} iterations)",
                f"{r['fit_map_ms']:.1f} (tol {r['fit_map_tol']:g})",
                f"{r['lbfgs10_ms']:.1f} (at {r['lbfgs10_distance']:.5f})",
            ]
        )
    return lines


def _ratios(rows: list[dict[str, Any]]) -> Lines:
    lines = [["dataset", "k", "labels", "new", "distance", "exact", "fit_map", "speed-up"]]
    for r in rows:
        cells = r["dataset"], r["k"], r["n"], r["labels"], f"{r['distance']:.6f}", f"{r['exact_ms']:.2f}"
        trained = f"{r['fit_map_ms']:.1f} (tol {r['fit_map_tol']:.1g}, at {r['fit_map_distance']:.6f})"
        lines.append([*map(str, cells), trained, f"{r['ratio']:.1f}"])
    return lines


def _stalls(rows: list[dict[str, Any]]) -> Lines:
    lines = [
        ["dataset", "k", "median, ms", "slowest, ms", "at label", "ratio", "labels above 3 times the median"]
    ]
    for r in rows:
        cells = r["dataset"], r["k"], f"{r['median_ms']:.2f}", f"{r['worst_ms']:.2f}", r["worst_at"]
        lines.append([*map(str, cells), f"{r['worst_ratio']:.1f}", str(r["above_3"])])
    return lines


def _growth(report: dict[str, Any]) -> Lines:
    lines = [["in", "size: ms (rebuilding)", "exponent, upper half"]]
    for name, rows in report["growth"].items():
        sizes = [f"{r[name[0]]:.0f}: {r['ms_with_build']:.1f} ({r['build_ms']:.0f})" for r in rows]
        lines.append([name, ", ".join(sizes), f"{report['exponents'][name]:.2f}"])
    return lines


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
