"""Plots of the report: one panel per dataset; a method has the same colour and line in all of them.

One picture shows Monte Carlo reweighting in one dimension (Fig. 1). The demo is one picture: learning without
retraining, its distance to retraining, choosing by updates.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from everylabel.core import fit_map, laplace, predict_proba, sample, update
from everylabel.experiments.demo import METHODS, NO_UPDATE, RETRAINED
from everylabel.experiments.engine import seeded
from everylabel.experiments.reporting.pages import Picture
from everylabel.experiments.reporting.summary import (
    Curve,
    datasets_of,
    mean_curve,
    runs_of,
    title_of,
    variants_of,
)
from everylabel.experiments.results import Row

BLUE, SKY, ORANGE, RED, GREEN, PINK = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7"
GREY, BLACK, SILVER, PURPLE = "#777777", "#000000", "#bbbbbb", "#5B2A86"
STYLES: dict[str, tuple[str, str]] = {  # colour, line
    "baseline": (GREY, ":"),
    "retraining": (SILVER, "-"),
    "second order": (BLUE, "-"),
    "first order": (ORANGE, "-"),
    "Monte Carlo": (GREEN, "-"),
    "exact": (RED, "-"),
    "random": (GREY, ":"),
    "margin": (SKY, "--"),
    "margin with updates": (BLUE, "-"),
    "margin with updates, whole pool": (BLUE, "-."),
    "Badge": (ORANGE, "--"),
    "Badge with updates": (RED, "-"),
    "Typiclust": (GREEN, "-"),
    "optimal": (BLACK, "-"),
    "optimal, mixed batches": (BLACK, "-."),
    "look-ahead": (PINK, "-"),
    "look-ahead, whole pool": (PINK, "-."),
    "herding": (PURPLE, "-"),
    "no update": (GREY, ":"),
    "last layer retrained": (GREEN, "-"),
    "network retrained": (BLACK, "-"),
}
for _every, _colour in ((10, BLUE), (25, GREEN), (50, ORANGE), (100, RED)):
    for _how, _dashes in (("no update", ":"), ("second order", "--"), ("exact", "-")):
        STYLES[f"every {_every}, {_how}"] = (_colour, _dashes)
STEPS = (SKY, BLUE, GREEN, ORANGE, RED, PINK)  # from the smallest
BENEATH = "retraining"  # drawn wide, below the other lines
COLOURS = 256  # colours of a PNG: a quarter of the size


def panels(
    rows: Sequence[Row],
    xlabel: str,
    ylabel: str,
    *,
    metric: str = "accuracy",
    relative_to: str = "",
    log: str = "",
    styles: Mapping[str, tuple[str, str]] = STYLES,
) -> Figure:
    """Return a metric (or its paired difference to one variant) over x with standard errors.

    log names the axes with a logarithmic scale: "", "x" or "xy"; styles has colour and line of a variant.
    """
    rows = [row for row in rows if row.metric == metric]
    datasets = datasets_of(rows)
    columns = min(3, len(datasets))
    lines = -(-len(datasets) // columns)
    figure = Figure(figsize=(3.9 * columns, 2.9 * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, dataset in zip(axes, datasets, strict=False):
        runs = runs_of(rows, metric, dataset)
        for variant in variants_of(rows):
            if curve := mean_curve(runs, variant, relative_to):
                _line(axis, variant, curve, styles.get(variant, (GREY, "-")))
        _dress(axis, title_of(dataset), log)
        axis.set_xlabel(xlabel)
    for axis in axes[len(datasets) :]:
        axis.set_axis_off()
    for axis in axes[::columns]:
        axis.set_ylabel(ylabel)
    _legend(figure, list(axes), columns + 1)
    return figure


def step_panels(rows: Sequence[Row], method: str, steps: Sequence[float]) -> Figure:
    """Return accuracy over |D+| for every step size of an update."""
    variants = [f"{method}, {step:g}" for step in steps]
    styles = STYLES | {name: (colour, "-") for name, colour in zip(variants, STEPS, strict=False)}
    some = [row for row in rows if row.variant in ("baseline", "retraining", *variants)]
    return panels(some, "|D+|", "validation accuracy", styles=styles)


def _dress(axis: Axes, title: str, log: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2, lw=0.5)
    axis.tick_params(labelsize=8)
    for name, scaled in (("x", axis.xaxis), ("y", axis.yaxis)):
        if name in log:
            axis.set(**{f"{name}scale": "log"})
            scaled.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Add a legend with every line of the panels, once."""
    named: dict[str, Any] = {}
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )


def _line(axis: Axes, variant: str, curve: Curve, style: tuple[str, str]) -> None:
    """Draw a curve with a band of one standard error on both sides."""
    x, mean = list(curve), [e.mean for e in curve.values()]
    error = [0.0 if e.error != e.error else e.error for e in curve.values()]
    low = [m - e for m, e in zip(mean, error, strict=True)]
    high = [m + e for m, e in zip(mean, error, strict=True)]
    width, order = (4.0, 1.5) if variant == BENEATH else (1.5, 2.0)
    axis.plot(x, mean, color=style[0], ls=style[1], label=variant, lw=width, zorder=order)
    axis.fill_between(x, low, high, color=style[0], alpha=0.15, lw=0)


def picture(name: str, caption: str, figure: Figure) -> Picture:
    """Return a figure as a picture of a report."""
    return Picture(f"{name}.png", caption, as_png(figure))


def as_png(figure: Figure) -> bytes:
    """Return a figure as PNG bytes of few colours."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=90)
    image = Image.open(drawn).convert("RGB")
    image = image.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(small, format="png", optimize=True)
    return small.getvalue()


def monte_carlo_picture() -> Figure:
    """Draw hypotheses and their weights before and after new labels (Fig. 1)."""
    rng = seeded("monte carlo picture")
    x = np.array([-2.0, -1.5, -1.0, 1.0, 1.6, 2.2])[:, None]
    y = np.array([0, 0, 0, 1, 1, 1])
    new_x, new_y = np.array([[0.0], [0.4], [0.6]]), np.array([0, 0, 0])
    samples = sample(laplace(fit_map(x, y, 2, binary=True), x, "binary"), 60, rng)
    after = update(samples, new_x, new_y, step_size=1.0)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    grid = np.linspace(-3, 3, 200)[:, None]
    for axis, state, title in ((axes[0], samples, "before"), (axes[1], after, "after three labels")):
        weights = np.exp(np.asarray(state.log_weights))
        for member, weight in zip(np.asarray(state.members), weights, strict=True):
            logits = np.c_[grid, np.ones(len(grid))] @ member[:, 0]
            axis.plot(grid, 1 / (1 + np.exp(-logits)), color=BLUE, alpha=float(min(1.0, 12 * weight)), lw=0.8)
        axis.plot(grid, predict_proba(state, grid)[:, 1], color="black", lw=2)
        axis.scatter(x, y, edgecolor="black", facecolor="white", zorder=3)
        if state is after:
            axis.scatter(new_x, new_y, color=GREEN, marker="D", zorder=3)
        axis.set(title=title, xlabel="x", ylabel="probability of class 1")
    return figure


def plot_demo(updating: list[Row], choosing: list[Row], path: Path) -> None:
    """Save a plot of accuracy, distance to retraining, and the gain of choosing by updates."""
    strategies, others = variants_of(choosing), [name for name in METHODS if name != RETRAINED]
    shown = (
        ("test accuracy", "Learning ten labels at a time, digits", METHODS, updating, "accuracy", ""),
        (
            "mean total variation",
            "Distance to retraining (lower is better)",
            others,
            updating,
            "distance",
            "",
        ),
        ("accuracy minus random", "Choosing what to label", strategies, choosing, "accuracy", "random"),
    )
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    for axis, (ylabel, title, names, rows, metric, other) in zip(figure.subplots(1, 3), shown, strict=True):
        for name in names:
            style = STYLES[{NO_UPDATE: "baseline", RETRAINED: "retraining"}.get(name, name)]
            _line(axis, name, mean_curve(runs_of(rows, metric, "digits"), name, other), style)
        _dress(axis, title, "")
        axis.set(xlabel="labels", ylabel=ylabel)
    for axis in figure.axes[::2]:
        axis.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_png(figure))
