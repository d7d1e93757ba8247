"""Plots of the report: one small panel a dataset; a method has the same colour and line in all of them."""

import base64
import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from everylabel.experiments.reporting.summary import TITLES, Curve, curves, datasets_of, paired
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
BENEATH = "retraining"  # drawn wide, below what may cover it
COLOURS = 256  # of a PNG: a quarter of the size


def panels(
    rows: list[Row],
    xlabel: str,
    ylabel: str,
    *,
    metric: str = "accuracy",
    relative_to: str | None = None,
    without: Sequence[str] = (),
    log: str = "",
) -> Figure:
    """Return a metric (or its paired difference to one variant) over x with standard errors.

    log names the axes with a logarithmic scale: "", "x" or "xy".
    """
    rows = [row for row in rows if row.metric == metric and row.variant not in without]
    datasets = datasets_of(rows)
    columns = min(3, len(datasets))
    lines = -(-len(datasets) // columns)
    figure = Figure(figsize=(3.9 * columns, 2.9 * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, dataset in zip(axes, datasets, strict=False):
        for variant, curve in curves(rows, metric, dataset).items():
            if relative_to is not None:
                curve = paired(rows, metric, dataset, variant, relative_to)
            _line(axis, variant, curve, STYLES.get(variant, (GREY, "-")))
        _dress(axis, TITLES.get(dataset, dataset), log)
        axis.set_xlabel(xlabel)
    for axis in axes[len(datasets) :]:
        axis.set_axis_off()
    for axis in axes[::columns]:
        axis.set_ylabel(ylabel)
    _legend(figure, list(axes), 4)
    return figure


def step_panels(rows: list[Row], steps: dict[str, tuple[float, ...]]) -> Figure:
    """Return accuracy over |D+| for every step: a row a method, a column a dataset."""
    datasets = datasets_of(rows)
    size = (2.3 * len(datasets) + 1.6, 2.1 * len(steps) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(steps), len(datasets), squeeze=False, sharex=True)
    for method, line in zip(steps, axes, strict=True):
        name = method.replace("_", " ")
        for axis, dataset in zip(line, datasets, strict=True):
            found = curves(rows, "accuracy", dataset)
            for variant in ("baseline", "retraining"):
                if variant in found:
                    _line(axis, variant, found[variant], STYLES[variant])
            for step, colour in zip(steps[method], STEPS, strict=False):
                if f"{name}, {step:g}" in found:
                    _line(axis, f"{step:g}", found[f"{name}, {step:g}"], (colour, "-"))
            _dress(axis, TITLES.get(dataset, dataset) if method == next(iter(steps)) else "", "")
        line[0].set_ylabel(f"{name}\nvalidation accuracy")
        line[-1].legend(
            frameon=False,
            fontsize=7,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            title="step",
            title_fontsize=7,
        )
    for axis in axes[-1]:
        axis.set_xlabel("|D+|")
    return figure


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
    """Name every line that is in some panel, once."""
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


def as_png(figure: Figure) -> bytes:
    """Return a figure as PNG bytes of few colours."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=90)
    image = Image.open(drawn).convert("RGB")
    image = image.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(small, format="png", optimize=True)
    return small.getvalue()


def as_img(png: bytes, alt: str) -> str:
    """Return a PNG as an <img> that needs no file."""
    return f'<img alt="{alt}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'
