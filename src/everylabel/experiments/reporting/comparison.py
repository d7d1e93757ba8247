"""The report of `everylabel compare`: one HTML page, its plots, and all measurements as a table."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import numpy as np
from matplotlib.figure import Figure

from everylabel.core.files import write_atomically
from everylabel.experiments.compare import METRICS, Summary, summarise
from everylabel.experiments.reporting.pages import Picture, Section, Table, as_html, section_lines
from everylabel.experiments.reporting.plots import STEPS, as_png, panels
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
            f"By the area under the curve of accuracy; ranks within each {summary.blocks}. The bar is the "
            "critical difference at 5 % (Nemenyi): ranks that differ by less do not differ significantly.",
            [_picture("ranks", "mean ranks and critical difference", rank_plot(summary))],
            [_areas(summary), _wins(summary)],
        )
    ]
    for metric, title in METRICS.items():
        figure = panels(in_order, "labels", title, metric=metric, styles=styles)
        name = metric.replace(" ", "-").lower()
        note = "Mean over repetitions, with a band of one standard error."
        sections.append(
            Section(
                f"Learning curves: {metric}", note, [_picture(name, title, figure)], [_ends(in_order, metric)]
            )
        )
    for section in sections:
        for picture in section.pictures:
            write_atomically(folder / picture.file, lambda file, png=picture.png: file.write(png))
    lines = ["# Strategies compared", "", f"`{command}`"]
    lines += [line for section in sections for line in section_lines(section)]
    page = as_html("everylabel compare", "\n".join(lines), sections)
    write_atomically(folder / PAGE_FILE, lambda file: file.write(page.encode()))
    _write_measurements(rows, folder)
    return folder / PAGE_FILE, summary


def _write_measurements(rows: Sequence[Row], folder: Path) -> None:
    """Write one row per measurement, as Parquet where pyarrow is installed, else as CSV."""
    form = "csv" if find_spec("pyarrow") is None else "parquet"
    pieces = write_table(Records(get_type_hints(Row), rows), form)
    write_atomically(folder / f"{TABLE_FILE}.{form}", lambda file: file.writelines(pieces))


def _picture(name: str, caption: str, figure: Figure) -> Picture:
    return Picture(f"{name}.png", caption, as_png(figure))


def _areas(summary: Summary) -> Table:
    table = [["strategy", "mean rank", "regret, points", *(f"area, {name}" for name in summary.datasets)]]
    for i, name in enumerate(summary.strategies):
        areas = [_with_error(*both) for both in zip(summary.areas[i], summary.errors[i], strict=True)]
        table.append([name, f"{summary.ranks[i]:.2f}", f"{100 * summary.regret[i]:.2f}", *areas])
    return table


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} ± {error:.3f}"


def _wins(summary: Summary) -> Table:
    """Return how often the strategy of a row is ahead of that of a column."""
    table = [["ahead of ...", *summary.strategies]]
    for i, name in enumerate(summary.strategies):
        cells = ["" if i == j else f"{share:.0%}" for j, share in enumerate(summary.wins[i])]
        table.append([name, *cells])
    return table


def _ends(rows: Sequence[Row], metric: str) -> Table:
    """Return the values at the end of the curves."""
    some = [row for row in rows if row.metric == metric]
    last = {
        dataset: max(row.x for row in some if row.dataset == dataset)
        for dataset in dict.fromkeys(r.dataset for r in some)
    }
    table = [["strategy", *(f"{dataset}, {x:g} labels" for dataset, x in last.items())]]
    for name in dict.fromkeys(row.variant for row in some):
        cells = []
        for dataset, x in last.items():
            values = [row.value for row in some if (row.variant, row.dataset, row.x) == (name, dataset, x)]
            cells.append(f"{np.mean(values):.3f}" if values else "")
        table.append([name, *cells])
    return table


def rank_plot(summary: Summary) -> Figure:
    """Return mean ranks on an axis, the best on the left, with the critical difference as a bar."""
    n = len(summary.strategies)
    figure = Figure(figsize=(8.0, 0.9 + 0.28 * n), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(0.8, n + 0.2), ylim=(n + 0.2, -1.6), xlabel="mean rank (1 is best)", yticks=[])
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
    if not np.isnan(summary.critical):
        axis.plot([1, min(n, 1 + summary.critical)], [-1, -1], color="black", lw=3, solid_capstyle="butt")
        axis.annotate("critical difference", (1, -1), xytext=(0, 5), textcoords="offset points", fontsize=8)
    axis.spines[["top", "right", "left"]].set_visible(False)
    return figure
