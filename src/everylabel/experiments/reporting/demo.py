"""The demo as one picture: learning without retraining, its distance to retraining, choosing by updates."""

from pathlib import Path

from matplotlib.figure import Figure

from everylabel.experiments.demo import METHODS, RETRAINED, UNTAUGHT
from everylabel.experiments.reporting.plots import STYLES, as_png
from everylabel.experiments.reporting.summary import curves, paired
from everylabel.experiments.results import Row
from everylabel.selection.strategies import DEFAULT


def plot(updating: list[Row], choosing: list[Row], path: Path) -> None:
    """Save accuracy and distance to retraining while learning, and what choosing by updates gains."""
    reached, apart = (curves(updating, metric, "digits") for metric in ("accuracy", "distance"))
    names = dict.fromkeys(row.variant for row in choosing)
    shown = (
        ("test accuracy", "Learning ten labels at a time, digits", {name: reached[name] for name in METHODS}),
        (
            "mean total variation",
            "Distance to retraining (lower is better)",
            {name: apart[name] for name in METHODS if name != RETRAINED},
        ),
        (
            "accuracy minus random",
            "Choosing what to label",
            {name: paired(choosing, "accuracy", "digits", name, "random") for name in names},
        ),
    )
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    for axis, (ylabel, title, drawn) in zip(figure.subplots(1, 3), shown, strict=True):
        for name, curve in drawn.items():
            colour, line = STYLES[{UNTAUGHT: "baseline", RETRAINED: "retraining"}.get(name, name)]
            means, marker = [e.mean for e in curve.values()], "o" if name in METHODS else ""
            wide = 2.6 if name == DEFAULT else 1.6
            axis.plot(
                list(curve), means, line, color=colour, label=name, marker=marker, markersize=3, lw=wide
            )
        axis.set(xlabel="labels", ylabel=ylabel, title=title)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.2, lw=0.5)
    for axis in figure.axes[::2]:
        axis.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_png(figure))
