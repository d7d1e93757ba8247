"""`everylabel reproduce`."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from everylabel.core.errors import EverylabelError


def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Which, by name or figure (fig4); all if none is named.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Only these datasets; may be given again.")
    ] = None,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions; the paper has 10 and 30.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    fast: Annotated[
        bool, typer.Option("--fast", help="Train exactly instead of by the paper's recipe.")
    ] = False,
    data: Annotated[Path, typer.Option(envvar="EVERYLABEL_DATA", help="Folder of the feature files.")] = Path(
        "data"
    ),
    results: Annotated[Path, typer.Option(help="Where measurements are kept.")] = Path(
        "out/reproduce.sqlite"
    ),
    report: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("out/reproduce"),
    export: Annotated[Path | None, typer.Option(help="Also write all measurements as CSV.")] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="List experiments and datasets, run nothing.")
    ] = False,
) -> None:
    """Run the paper's experiments on the data at hand; resume where it was; write one HTML report."""
    console = Console()
    try:
        if list_them:
            _list(console, str(data))
            return
        _run(console, experiments or [], dataset or [], reps, jobs, fast, str(data), results, report, export)
    except EverylabelError as error:
        console.print(f"[red]error:[/] {escape(str(error))}")
        raise typer.Exit(2) from error


def _list(console: Console, folder: str) -> None:
    from everylabel.experiments.catalogue import EXPERIMENTS
    from everylabel.experiments.data import SETTINGS, available

    table = Table("experiment", "figure", "what")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.figure, (experiment.__doc__ or "").split("\n")[0])
    console.print(table)
    here = available(folder)
    states = [name if name in here else f"[dim]{name} (no file in {folder})[/]" for name in SETTINGS]
    console.print("datasets:", ", ".join(states))


def _run(
    console: Console,
    names: list[str],
    datasets: list[str],
    reps: int,
    jobs: int,
    fast: bool,
    folder: str,
    path: Path,
    report: Path,
    export: Path | None,
) -> None:
    from everylabel.experiments import engine
    from everylabel.experiments.catalogue import EXPERIMENTS, FIGURES
    from everylabel.experiments.data import available, load
    from everylabel.experiments.machine import describe
    from everylabel.experiments.report import write_report
    from everylabel.experiments.results import Results

    names = [FIGURES.get(name, name) for name in names] or list(EXPERIMENTS)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        known = [*EXPERIMENTS, *FIGURES]
        raise EverylabelError(f"experiment is {unknown[0]!r}; expected one of {', '.join(known)}")
    chosen = [load(name, folder) for name in datasets or available(folder)]
    training = "fast" if fast else "recipe"
    cells = engine.cells_of([EXPERIMENTS[name] for name in names], chosen, reps, training)
    stored = Results(path)
    runners = {EXPERIMENTS[name].grid: EXPERIMENTS[name].run for name in names}
    finished = stored.finished() & {cell.name for cell in cells}
    command = shlex.join(["everylabel", *sys.argv[1:]])
    if len(finished) < len(cells):
        stored.begin(command, describe())
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        task = progress.add_task("reproducing", total=len(cells), completed=len(finished))
        for cell in engine.run_cells(cells, runners, folder, stored, jobs):
            what = f"{cell.experiment} {cell.part} {cell.dataset}, repetition {cell.repetition + 1}"
            progress.update(task, advance=1, description=what)
    page = write_report(stored, command, report)
    if export is not None:
        stored.export(export)
        console.print(f"measurements written to {export}")
    stored.close()
    console.print(f"report: {page.resolve().as_uri()}")
