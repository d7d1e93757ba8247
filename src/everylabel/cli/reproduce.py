"""`everylabel reproduce`."""

import os
import shlex
import sys
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from everylabel.cli import options
from everylabel.cli.console import join, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from everylabel.experiments.data import Data
    from everylabel.experiments.engine import Cell, Experiment
    from everylabel.experiments.results import Results


def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Experiments, by name or figure (fig4); default: all.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Only these datasets; repeat for several.")
    ] = None,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions; the paper has 10 and 30.")] = 10,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    ray: options.Ray = None,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Train the last layer exactly: faster than the paper's recipe, and without PyTorch.",
        ),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(envvar="EVERYLABEL_DATA", help="Folder of the feature files; default: data."),
    ] = None,
    results: Annotated[Path, typer.Option(help="File that stores the measurements.")] = Path(
        "out/reproduce.sqlite"
    ),
    report: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("out/reproduce"),
    export: Annotated[Path | None, typer.Option(help="Also write all measurements as CSV.")] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; write the report of stored results.")
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="List experiments and datasets, run nothing.")
    ] = False,
) -> None:
    """Run the paper's experiments on the available data. Write one HTML report; repeat to resume."""
    from everylabel.core.errors import EverylabelError, need

    console, folder = Console(), str(data or "data")
    if data is not None and not data.is_dir():
        raise EverylabelError(
            f"data folder {folder!r} does not exist; name the folder of the feature files with --data "
            "or EVERYLABEL_DATA, or leave both out to run on digits"
        )
    if list_them:
        _list(console, folder)
        return
    need("matplotlib", "plot", "the report's plots")  # fail before hours of work, not after
    from everylabel.experiments.data import load
    from everylabel.experiments.reporting.report import check_folder, write_report
    from everylabel.experiments.reporting.summary import EXPERIMENTS
    from everylabel.experiments.results import Results

    named = [*(experiments or []), *(dataset or [])]
    if report_only and named:
        raise EverylabelError(f"--report-only shows all that is stored; leave out {', '.join(named)}")
    if report_only and not results.exists():
        raise EverylabelError(
            f"results file {str(results)!r} does not exist; run without --report-only, or name one with "
            "--results"
        )
    if not fast and not report_only:
        need("torch", "torch", "training by the paper's recipe (without it: --fast)")
    check_folder(report)
    if export is not None:
        problems = {
            "would be in a folder that does not exist": not export.parent.is_dir(),
            "is a folder": export.is_dir(),
            "is the results file": export.resolve() == results.resolve(),
        }
        for problem in [text for text, there in problems.items() if there]:
            raise EverylabelError(f"export file {str(export)!r} {problem}; name another file with --export")
    training = "fast" if fast else "recipe"
    cells = [] if report_only else _cells(experiments or [], dataset or [], reps, training, folder)
    command = shlex.join(["everylabel", *sys.argv[1:]])
    with closing(Results(results)) as stored:
        if cells:
            loader = partial(load, folder=folder if ray is None else str(Path(folder).absolute()))
            run_with_bar(cells, EXPERIMENTS.values(), loader, stored, command, jobs, ray)
        page = write_report(stored, command, report)
        if export is not None:
            stored.export(export)
            console.print(f"measurements written to {export}")
    console.print(f"report: {page.resolve().as_uri()}")


def _list(console: Console, folder: str) -> None:
    from everylabel.experiments.data import SETTINGS, available
    from everylabel.experiments.reporting.summary import EXPERIMENTS

    table = Table("experiment", "figure", "what")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.figure, (experiment.__doc__ or "").split("\n")[0])
    console.print(table)
    here = available(folder)
    states = [name if name in here else f"[dim]{name} (no file in {folder})[/]" for name in SETTINGS]
    console.print("datasets:", ", ".join(states))


def _cells(names: list[str], datasets: list[str], reps: int, training: str, folder: str) -> "list[Cell]":
    """Return the cells of the named experiments and datasets; refuse unknown names."""
    from everylabel.core.checks import check_choice
    from everylabel.core.errors import EverylabelError
    from everylabel.experiments.data import available, load
    from everylabel.experiments.engine import cells_of
    from everylabel.experiments.reporting.summary import EXPERIMENTS, FIGURES

    for name in names:
        check_choice(name, "experiment", [*EXPERIMENTS, *FIGURES])
    chosen = [load(name, folder) for name in datasets or available(folder)]
    wanted = [EXPERIMENTS[FIGURES.get(name, name)] for name in names or EXPERIMENTS]
    cells = cells_of(wanted, chosen, reps, training)
    if not cells:
        raise EverylabelError(
            f"{', '.join(names)} on {', '.join(data.name for data in chosen)}: nothing to run; expected "
            "network experiments on items (fashion-mnist, texts), the others on features"
        )
    return cells


def run_with_bar(
    cells: "list[Cell]",
    experiments: "Iterable[Experiment]",
    load: "Callable[[str], Data]",
    stored: "Results",
    command: str,
    jobs: int | None,
    ray: str | None,
) -> None:
    """Run the cells that are not stored yet, in processes or on a Ray cluster, with a progress bar."""
    from everylabel.experiments.engine import code, describe, run_cells
    from everylabel.scale.cluster import ALL, joblib_on_ray

    others = "; ".join(f"{n} by {made}" for made, n in stored.codes().items() if made != code())
    if others:
        note(
            f"{stored.path} holds cells measured by other source ({others}; this is {code()}); to measure "
            "all of them again, name another place"
        )
    started = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    jobs = jobs or (ALL if ray else os.cpu_count() or 1)
    running = run_cells(cells, experiments, load, stored, jobs)  # refuses changed data
    n_before = len(stored.finished() & {cell.name for cell in cells})
    console = Console(stderr=True)
    columns = (MofNCompleteColumn(), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    join(ray)
    where = nullcontext() if ray is None else joblib_on_ray(ray)
    with where, Progress(*columns, console=console) as progress:
        task = progress.add_task("running", total=len(cells), completed=n_before)
        for i, cell in enumerate(running, start=1):
            if i == 1:
                stored.begin(command, describe(), started)
            what = f"{cell.part or cell.experiment} on {cell.dataset}, repetition {cell.repetition + 1}"
            progress.update(task, advance=1, description=what)
            if not console.is_terminal:  # output goes to a log
                console.print(f"{n_before + i} of {len(cells)}: {what}")
