"""`everylabel reproduce`."""

import os
import shlex
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from everylabel.cli import options
from everylabel.cli.console import note

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
        bool, typer.Option("--fast", help="Train exactly instead of by the paper's recipe.")
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
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="Also log to MLflow, at MLFLOW_TRACKING_URI.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; write the report of stored results.")
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="List experiments and datasets, run nothing.")
    ] = False,
) -> None:
    """Run the paper's experiments on the available data. Write one HTML report; repeat to resume."""
    from everylabel.core.errors import EverylabelError

    console, folder = Console(), str(data or "data")
    if data is not None and not data.is_dir():
        raise EverylabelError(
            f"data folder {folder!r} is not there; name the folder of the feature files with --data "
            "or EVERYLABEL_DATA, or leave both out to run on digits"
        )
    if list_them:
        _list(console, folder)
        return
    run = _Run(experiments or [], dataset or [], reps, jobs, ray, fast, folder, results, report_only)
    _reproduce(console, run, report, export, mlflow)


class _Run(NamedTuple):
    """The experiments to run, and how."""

    names: list[str]
    datasets: list[str]
    reps: int
    jobs: int | None
    ray: str | None
    fast: bool
    folder: str
    results: Path
    report_only: bool

    @property
    def training(self) -> str:
        return "fast" if self.fast else "recipe"


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


def _reproduce(console: Console, run: _Run, report: Path, export: Path | None, mlflow: bool) -> None:
    """Run the missing cells, then write the report and the requested exports."""
    from everylabel.core.errors import EverylabelError, need

    need("matplotlib", "plot", "the report's plots")  # fail before hours of work, not after
    from everylabel.experiments.reporting.pages import TRAININGS
    from everylabel.experiments.reporting.report import check_folder, write_report
    from everylabel.experiments.reporting.summary import log_to_mlflow, need_mlflow
    from everylabel.experiments.results import Results

    _check_names(run)
    if run.report_only and (run.names or run.datasets):
        named = ", ".join([*run.names, *run.datasets])
        raise EverylabelError(f"--report-only shows all that is stored; leave out {named}")
    if run.report_only and not run.results.exists():
        raise EverylabelError(
            f"results file {str(run.results)!r} is not there; run without "
            "--report-only, or name one with --results"
        )
    if not run.fast and not run.report_only:
        need("torch", "torch", "training by the paper's recipe (without it: --fast)")
    if mlflow:
        need_mlflow()
    check_folder(report)
    if export is not None:
        _check_export(export, run.results)
    command = shlex.join(["everylabel", *sys.argv[1:]])
    cells = [] if run.report_only else _cells(run)
    stored = Results(run.results)
    try:
        if cells:
            _run_cells(run, cells, stored, command)
        page = write_report(stored, command, report)
        if export is not None:
            stored.export(export)
            console.print(f"measurements written to {export}")
        if mlflow:
            n_logged = sum(log_to_mlflow(stored, training) for training in TRAININGS)
            console.print(f"{n_logged} runs logged to MLflow")
    finally:
        stored.close()
    console.print(f"report: {page.resolve().as_uri()}")


def _check_names(run: _Run) -> None:
    """Refuse unknown experiments and datasets, also if nothing is run."""
    from everylabel.core.errors import EverylabelError
    from everylabel.experiments.data import SETTINGS
    from everylabel.experiments.reporting.summary import EXPERIMENTS, FIGURES

    for what, given, known in (
        ("experiment", run.names, [*EXPERIMENTS, *FIGURES]),
        ("dataset", run.datasets, list(SETTINGS)),
    ):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise EverylabelError(f"{what} is {unknown[0]!r}; expected one of {', '.join(known)}")


def _check_export(export: Path, results: Path) -> None:
    """Refuse an export file that cannot be written or that is the results file itself."""
    from everylabel.core.errors import EverylabelError

    if not export.parent.is_dir():
        raise EverylabelError(
            f"export file {str(export)!r} would be in a folder that is not there; make it, or name another "
            "file with --export"
        )
    if export.is_dir() or export.resolve() == results.resolve():
        what = "is a folder" if export.is_dir() else "is the results file"
        raise EverylabelError(f"export file {str(export)!r} {what}; name another file with --export")


def _cells(run: _Run) -> "list[Cell]":
    from everylabel.core.errors import EverylabelError
    from everylabel.experiments.data import available, load
    from everylabel.experiments.engine import cells_of
    from everylabel.experiments.reporting.summary import EXPERIMENTS, FIGURES

    names = [FIGURES.get(name, name) for name in run.names] or list(EXPERIMENTS)
    chosen = [load(name, run.folder) for name in run.datasets or available(run.folder)]
    cells = cells_of([EXPERIMENTS[name] for name in names], chosen, run.reps, run.training)
    if not cells:
        raise EverylabelError(
            f"{', '.join(run.names)} on {', '.join(data.name for data in chosen)}: nothing to run; expected "
            "network experiments on items (fashion-mnist, texts), the others on features"
        )
    return cells


def _run_cells(run: _Run, cells: "list[Cell]", stored: "Results", command: str) -> None:
    from functools import partial

    from everylabel.experiments.data import load
    from everylabel.experiments.reporting.summary import EXPERIMENTS

    folder = run.folder if run.ray is None else str(Path(run.folder).absolute())
    loader = partial(load, folder=folder)
    run_with_bar(cells, EXPERIMENTS.values(), loader, stored, command, run.jobs, run.ray)


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
    where = nullcontext() if ray is None else joblib_on_ray(ray, note)
    with where, Progress(*columns, console=console) as progress:
        task = progress.add_task("running", total=len(cells), completed=n_before)
        for i, cell in enumerate(running, start=1):
            if i == 1:
                stored.begin(command, describe(), started)
            what = f"{cell.part or cell.experiment} on {cell.dataset}, repetition {cell.repetition + 1}"
            progress.update(task, advance=1, description=what)
            if not console.is_terminal:  # output goes to a log
                console.print(f"{n_before + i} of {len(cells)}: {what}")
