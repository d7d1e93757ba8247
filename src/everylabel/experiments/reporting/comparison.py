"""The report of `everylabel compare`: one HTML page, its plots, and all measurements as a table."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import numpy as np
from matplotlib.figure import Figure

from everylabel.core.files import write_atomically
from everylabel.experiments.compare import METRICS, Summary, summarise
from everylabel.experiments.reporting.pages import Section, Table, as_html, as_markdown
from everylabel.experiments.reporting.plots import STEPS, panels, picture
from everylabel.experiments.reporting.summary import mean_curve, runs_of, variants_of
from everylabel.experiments.results import Row
from everylabel.formats.tables import Records, write_table

LINES = ("-", "--", ":", "-.")
PAGE_FILE, TABLE_FILE = "index.html", "measurements"


def write_comparison(rows: Sequence[Row], command: str, folder: Path) -> tuple[Path, Summary]:
    """Write page, plots and measurements; return the page's path and the summary."""
    summary = summarise(rows)
    in_order = sorted(rows, key=lambda row: summary.strategies.index(row.variant))
    styles = {
        name: (STEPS[i % len(STEPS)], LINES[i // len(STEPS) % len(LINES)])
        for i, name in enumerate(summary.strategies)
    }
    sections = [
        Section(
            "Ranking",
            f"By the area under the curve of accuracy; ranks within each {summary.blocks}. Strategies on one "
            "thick line do not differ significantly: their ranks are closer than the critical difference "
            "(Nemenyi, 5 %). Regret is how far an area is behind the best one. Complete repetitions: "
            + ", ".join(f"{name} {n}" for name, n in zip(summary.datasets, summary.repetitions, strict=True))
            + ".",
            [
                picture("ranks", "mean ranks and critical difference", rank_plot(summary)),
                picture(
                    "wins", "how often the strategy of a row is ahead of that of a column", win_plot(summary)
                ),
            ],
            [_areas(summary)],
        )
    ]
    for metric, title in METRICS.items():
        name, best = metric.replace(" ", "-").lower(), summary.strategies[0]
        compared = f"{title}, minus that of {best}"
        pictures = [
            picture(name, title, panels(in_order, "labels", title, metric=metric, styles=styles)),
            picture(
                f"{name}-compared",
                compared,
                panels(in_order, "labels", f"minus {best}", metric=metric, relative_to=best, styles=styles),
            ),
        ]
        note = (
            "Mean over repetitions, with a band of one standard error; then the difference to "
            f"{best}, paired by repetition."
        )
        sections.append(
            Section(f"Learning curves: {metric}", note, pictures, [_ends(in_order, metric, summary.datasets)])
        )
    for section in sections:
        for each in section.pictures:
            write_atomically(folder / each.file, lambda file, png=each.png: file.write(png))
    text = as_markdown(["# Strategies compared", "", f"`{command}`"], sections)
    page = as_html("everylabel compare", text, sections)
    write_atomically(folder / PAGE_FILE, lambda file: file.write(page.encode()))
    _write_measurements(rows, folder)
    return folder / PAGE_FILE, summary


def _write_measurements(rows: Sequence[Row], folder: Path) -> None:
    """Write one row per measurement, as Parquet where pyarrow is installed, else as CSV."""
    form = "csv" if find_spec("pyarrow") is None else "parquet"
    pieces = write_table(Records(get_type_hints(Row), rows), form)
    write_atomically(folder / f"{TABLE_FILE}.{form}", lambda file: file.writelines(pieces))


def _areas(summary: Summary) -> Table:
    table = [["strategy", "mean rank", "regret, points", *(f"area, {name}" for name in summary.datasets)]]
    for i, name in enumerate(summary.strategies):
        areas = map(str, summary.areas[i])
        table.append([name, f"{summary.ranks[i]:.2f}", f"{100 * summary.regret[i]:.2f}", *areas])
    return table


def _ends(rows: Sequence[Row], metric: str, datasets: Sequence[str]) -> Table:
    """Return the values at the end of the curves."""
    runs = {dataset: runs_of(rows, metric, dataset) for dataset in datasets}
    last = {dataset: max(row.x for row in rows if row.dataset == dataset) for dataset in datasets}
    table = [["strategy", *(f"{dataset}, {x:g} labels" for dataset, x in last.items())]]
    for name in variants_of(rows):
        ends = [mean_curve(runs[dataset], name).get(x) for dataset, x in last.items()]
        table.append([name, *("" if end is None else f"{end.mean:.3f}" for end in ends)])
    return table


def rank_plot(summary: Summary) -> Figure:
    """Return mean ranks on an axis, best on top, with a line through strategies that do not differ."""
    n, groups = len(summary.strategies), alike(summary.ranks, summary.critical)
    figure = Figure(figsize=(8.0, 0.9 + 0.28 * n), layout="constrained")
    axis = figure.subplots()
    room = 0.25 * len(groups)
    axis.set(xlim=(0.8 - room, n + 0.2), ylim=(n - 0.5, -0.5), xlabel="mean rank (1 is best)", yticks=[])
    axis.set_xticks(range(1, n + 1))
    for i, (name, rank) in enumerate(zip(summary.strategies, summary.ranks, strict=True)):
        axis.plot([rank], [i], "o", color=STEPS[1], markersize=5)
        left = rank < (n + 1) / 2
        axis.annotate(
            f"{name}  {rank:.2f}",
            (rank, i),
            xytext=(8 if left else -8, 0),
            textcoords="offset points",
            va="center",
            ha="left" if left else "right",
            fontsize=9,
        )
    for i, (first, last) in enumerate(groups):
        at = 0.75 - 0.25 * i
        axis.plot([at, at], [first - 0.2, last + 0.2], color="black", lw=3, solid_capstyle="butt")
    axis.spines[["top", "right", "left"]].set_visible(False)
    return figure


def alike(ranks: np.ndarray, critical: float) -> list[tuple[int, int]]:
    """Return first and last of the largest groups whose sorted ranks differ by less than `critical`."""
    last = [int(np.searchsorted(ranks, rank + critical)) - 1 for rank in ranks] if critical > 0 else []
    return [(i, end) for i, end in enumerate(last) if end > i and (i == 0 or end > last[i - 1])]


def win_plot(summary: Summary) -> Figure:
    """Return the share of repetitions in which the strategy of a row is ahead of that of a column."""
    n, longest = len(summary.strategies), max(len(name) for name in summary.strategies)
    size = (1.4 + 0.1 * longest + 0.62 * n, 0.6 + 0.07 * longest + 0.34 * n)  # names have room
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    axis.imshow(summary.wins, cmap="RdBu", vmin=-0.1, vmax=1.1, aspect="auto")
    axis.set_xticks(range(n), summary.strategies, rotation=35, ha="left", rotation_mode="anchor", fontsize=9)
    axis.set_yticks(range(n), summary.strategies, fontsize=9)
    axis.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    for i in range(n):
        for j in range(n):
            share = summary.wins[i, j]
            if i != j:
                light = abs(share - 0.5) > 0.3
                axis.text(j, i, f"{share:.0%}", ha="center", va="center", fontsize=9,
                          color="white" if light else "black")  # fmt: skip
    axis.spines[:].set_visible(False)
    return figure
