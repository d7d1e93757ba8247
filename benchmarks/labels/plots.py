"""A plot of all curves."""

from pathlib import Path

from benchmarks.labels import sets
from benchmarks.labels.arms import BEFORE, MARGIN, NO_NAMES, OURS
from benchmarks.labels.figures import Curves

SHOWN = {
    OURS: ("C3", 2.2), NO_NAMES: ("C1", 1.6), BEFORE: ("C4", 1.2), MARGIN: ("C0", 1.2),
    "random": ("0.6", 1.2),
    "badge": ("C2", 0.8), "typiclust": ("C5", 0.8), "margin, updates": ("C9", 0.8),
}  # fmt: skip
COLUMNS = 5


def plot(curves: Curves, path: Path) -> None:
    """Draw one panel per dataset: mean accuracy by number of labels."""
    from matplotlib.figure import Figure

    names = [name for name in sets.SETS if name in curves.sets()]
    rows = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(3.4 * COLUMNS, 2.8 * rows), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        for arm, (colour, width) in SHOWN.items():
            if arm in curves.arms(name):
                what = "f1" if ":" in name else "both"
                stops, mean = curves.curve(name, arm, what, curves.seeds(name, arm))
                axes.plot(stops, mean, color=colour, linewidth=width, label=arm)
        axes.set(title=name + (" (F1)" if ":" in name else ""))
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xticks([0, 10, 25, 50, 100, 200, 400], ["0", "10", "25", "50", "100", "200", "400"])
        axes.grid(alpha=0.3)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    shown = [arm for arm in SHOWN if arm in lines]
    figure.legend([lines[arm] for arm in shown], shown, loc="lower right", fontsize=8)
    figure.savefig(path, dpi=80)
