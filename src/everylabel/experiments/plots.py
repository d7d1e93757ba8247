"""Plots of the report: one small panel a dataset, the paper's colours of no importance."""

import base64
import io

from matplotlib.figure import Figure

from everylabel.experiments.results import Row
from everylabel.experiments.summary import Curve, curves, datasets_of, paired

STYLES = {"baseline": "k:", "retraining": "k-", "random": "k:"}


def accuracy_panels(
    rows: list[Row], xlabel: str, *, relative_to: str | None = None, log: bool = False
) -> Figure:
    """Return accuracy (or its paired difference to one variant) over x, a panel a dataset."""
    datasets = datasets_of(rows)
    columns = min(3, len(datasets))
    lines = -(-len(datasets) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.1 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, dataset in zip(axes, datasets, strict=False):
        for variant, curve in curves(rows, "accuracy", dataset).items():
            if relative_to is not None:
                curve = paired(rows, "accuracy", dataset, variant, relative_to)
            _line(axis, variant, curve)
        axis.set(title=dataset, xlabel=xlabel)
        if log:
            axis.set_xscale("log")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(datasets) :]:
        axis.set_axis_off()
    label = "test accuracy" if relative_to is None else f"accuracy minus {relative_to}"
    for axis in axes[::columns]:
        axis.set_ylabel(label)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _line(axis: object, variant: str, curve: Curve) -> None:
    x, mean = list(curve), [e.mean for e in curve.values()]
    error = [0.0 if e.error != e.error else e.error for e in curve.values()]
    low, high = (
        [m - e for m, e in zip(mean, error, strict=True)],
        [m + e for m, e in zip(mean, error, strict=True)],
    )
    (line,) = axis.plot(x, mean, STYLES.get(variant, "-"), label=variant, lw=1.6)  # type: ignore[attr-defined]
    axis.fill_between(x, low, high, color=line.get_color(), alpha=0.12, lw=0)  # type: ignore[attr-defined]


def as_png(figure: Figure) -> bytes:
    """Return a figure as PNG bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def as_img(figure: Figure, alt: str) -> str:
    """Return a figure as an <img> that needs no file."""
    data = base64.b64encode(as_png(figure)).decode()
    return f'<img alt="{alt}" src="data:image/png;base64,{data}">'
