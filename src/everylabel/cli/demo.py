"""`everylabel demo`."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if TYPE_CHECKING:
    from everylabel.experiments.results import Row


def demo(
    reps: Annotated[int, typer.Option(min=1, help="Repetitions, each with other digits.")] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the report and the plot.")] = Path("out/demo"),
) -> None:
    """Run two of the paper's experiments on handwritten digits. Write tables, a plot and a report."""
    from everylabel.experiments import demo as experiment
    from everylabel.experiments.results import Results

    console = Console()
    for old in out.glob("demo.sqlite*"):
        old.unlink()  # the demo runs again instead of showing stored results
    results = Results(out / "demo.sqlite")
    cells = experiment.selection_cells(reps)
    updating: list[Row] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("updating instead of retraining", total=reps + len(cells))
        for repetition in experiment.run(reps):
            updating.extend(repetition)
            progress.advance(task)
        for cell in experiment.run_selection(cells, results, jobs or os.cpu_count() or 1):
            progress.update(task, advance=1, description=f"choosing: {cell.part}")
    rows = results.rows()
    console.print(_updating(updating, reps), _selection(rows, reps))
    if find_spec("matplotlib") is None:
        message = "for the plot and the report: pip install 'everylabel[plot]'"
    else:
        from everylabel.experiments.reporting.plots import plot_demo
        from everylabel.experiments.reporting.report import write_report

        plot_demo(updating, rows, out / "demo.png")
        page = write_report(results, f"everylabel demo --reps {reps}", out)
        message = f"plot saved as {out / 'demo.png'}; report: {page.resolve().as_uri()}"
    results.close()
    console.print(message, soft_wrap=True, markup=False)


def _updating(rows: "list[Row]", reps: int) -> Table:
    from everylabel.experiments import demo as experiment

    rounds = f"{experiment.ROUNDS} times {experiment.AT_A_TIME}"
    title = (
        f"Updating instead of retraining: {experiment.START} labels, then {rounds} more ({reps} repetitions)"
    )
    caption = "second order: the paper's update, step 10; Monte Carlo: 2,000 samples; exact: ours"
    headings = ("update", "accuracy", "share of the\nretraining gain", "distance to\nretraining")
    table = _table(title, caption, *headings, "times faster\nthan retraining")
    for line in experiment.summarise(rows):
        faster = "" if line.times_faster != line.times_faster else f"{line.times_faster:,.1f}"
        share, apart = f"{line.share_of_gain:.2f}", f"{line.distance:.3f}"
        table.add_row(line.method, f"{line.accuracy:.3f}", share, apart, faster)
    return table


def _selection(rows: "list[Row]", reps: int) -> Table:
    from everylabel.experiments import demo as experiment

    caption = "optimal: the best of 2,000 batches, knows all labels; herding: the default, knows none"
    headings = ("strategy", "mean accuracy\nof the curve", "points above\nrandom", "accuracy\nat the end")
    title = f"Choosing what to label: 10 labels, then 20 times 10 more ({reps} repetitions)"
    table = _table(title, caption, *headings)
    for name, mean, lead, last in experiment.summarise_selection(rows):
        points = "" if name == "random" or lead.n < 2 else f"{100 * lead.mean:+.1f} ± {100 * lead.error:.1f}"
        table.add_row(name, str(mean), points, f"{last.mean:.3f}")
    return table


def _table(title: str, caption: str, first: str, *others: str) -> Table:
    table = Table(title=title, caption=caption)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
