"""A simulated learning curve as a picture or a table."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from everylabel.core.errors import EverylabelError, need
from everylabel.core.files import write_atomically
from everylabel.simulation.people import Point

ENDINGS = (".png", ".svg", ".csv")


def check_ending(out: Path | None) -> None:
    """Refuse a file that could not be written in the end."""
    if out is not None and (out.suffix.lower() not in ENDINGS or not out.absolute().parent.is_dir()):
        raise EverylabelError(
            f"--out is {str(out)!r}; expected an ending of {', '.join(ENDINGS)}, in a folder that is there"
        )
    if out is not None and out.suffix.lower() != ".csv":
        need("matplotlib", "plot", f"a curve as {out.suffix.lower()}")


def write_curve(points: Sequence[Point], out: Path, name: str) -> None:
    """Write the curve; the file's ending tells how."""
    if out.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([Point._fields, *points])
        write_atomically(out, lambda file: file.write(text.getvalue().encode()), follow=True)
        return
    _plot(points, out, name)


def _plot(points: Sequence[Point], out: Path, name: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    true = [(p.labels, p.accuracy) for p in points if p.accuracy is not None]
    axes.plot(*zip(*true, strict=True), marker="o", label="true accuracy on the rest") if true else None
    known = [p for p in points if p.estimate is not None]
    if known:
        x = [p.labels for p in known]
        estimate, low, high = ([float(p[field] or 0.0) for p in known] for field in (2, 3, 4))
        axes.plot(x, estimate, linestyle="--", label="the page's estimate, 95 %")
        axes.fill_between(x, low, high, alpha=0.2)
    axes.set(xlabel="labels", ylabel="accuracy", title=name, ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(out, dpi=120)
