"""`everylabel demo`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table


def demo(
    reps: Annotated[int, typer.Option(min=1, help="Repetitions, each with other digits.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to save the plot.")] = Path("out/demo.png"),
) -> None:
    """Learn handwritten digits ten labels at a time by every method; print a table, save a plot."""
    from everylabel.experiments import demo as experiment

    console = Console()
    measurements = []
    steps = track(experiment.run(reps, seed), "learning digits", total=reps, console=console)
    for repetition in steps:
        measurements.extend(repetition)
    rounds = f"{experiment.ROUNDS} times {experiment.AT_A_TIME}"
    table = Table(title=f"digits: {experiment.START} labels, then {rounds} more (mean of {reps} repetitions)")
    table.add_column("update")
    headings = (
        "accuracy",
        "share of the\nretraining gain",
        "distance to\nretraining",
        "times faster\nthan retraining",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in experiment.summarise(measurements):
        faster = "" if row.times_faster != row.times_faster else f"{row.times_faster:,.1f}"
        table.add_row(
            row.method, f"{row.accuracy:.3f}", f"{row.share_of_gain:.2f}", f"{row.distance:.3f}", faster
        )
    console.print(table)
    console.print("second order: the paper's update, step 10; Monte Carlo: 2,000 samples; exact: ours")
    experiment.plot(measurements, out)
    console.print(f"plot saved as {out}")
