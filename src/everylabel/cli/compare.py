"""`everylabel compare`."""

import re
import shlex
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from everylabel.cli import options
from everylabel.cli.console import opened
from everylabel.cli.reproduce import run_with_bar

if TYPE_CHECKING:
    import numpy as np

    from everylabel.data.items import Items
    from everylabel.experiments.compare import Summary


def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Labelled data: tables, folders of images, digits, or .npz files (X and y, or X_train, "
            "y_train, X_test, y_test)."
        ),
    ],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="A strategy; repeat for several. NAME/batch picks a whole batch at once; skactiveml:NAME is "
            "one of scikit-activeml. Default: eight strategies."
        ),
    ] = None,
    label_column: options.LabelColumn = None,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    model: options.Model = None,
    batch: Annotated[int, typer.Option(min=1, help="Labels per cycle, and random labels at the start.")] = 10,
    cycles: Annotated[int, typer.Option(min=1, help="Cycles of a learning curve.")] = 20,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions with other random starts.")] = 5,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="Pick from N random items each time; default: all.")
    ] = None,
    test_share: Annotated[
        float,
        typer.Option(
            min=0.05, max=0.9, help="Share of items to hold out for testing, unless a file has test items."
        ),
    ] = 0.3,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    ray: options.Ray = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results and report.")] = Path(
        "out/compare"
    ),
) -> None:
    """Compare strategies on your labelled data. Write one HTML report; repeat to resume a stopped run."""
    from everylabel.core.errors import need

    need("matplotlib", "plot", "the report's plots")  # fail before the work, not after
    from everylabel.experiments.compare import USUAL, Comparison, load_features, store_features
    from everylabel.experiments.reporting.comparison import write_comparison
    from everylabel.experiments.results import Results

    experiment = Comparison(strategy or USUAL, batch, cycles, candidates)
    folder, names = out.absolute() / "data", list[str]()
    for source in sources:
        names.append(_name(source, names))
        columns = {"label_column": label_column, "text_column": text_column, "image_column": image_column}
        store_features(folder, names[-1], _labelled(source, columns, model, test_share, folder))
    load = partial(load_features, folder=str(folder), batch=batch)
    cells = experiment.cells(names, reps)
    command = shlex.join(["everylabel", *sys.argv[1:]])
    with closing(Results(out / "results.sqlite")) as results:
        run_with_bar(cells, [experiment], load, results, command, jobs, ray)
        page, summary = write_comparison(results.rows(experiment.grid), command, out)
    console = Console()
    console.print(_table(summary))
    console.print(f"report: {page.resolve().as_uri()}", highlight=False, soft_wrap=True)


def _name(source: str, taken: list[str]) -> str:
    """Return a short, unique name for a source."""
    name = re.sub(r"[^\w.-]+", "-", Path(source).stem) or "data"
    return name if name not in taken else f"{name}-{len(taken) + 1}"


def _labelled(
    source: str, columns: dict[str, str | None], model: str | None, share: float, folder: Path
) -> "dict[str, np.ndarray]":
    """Return features and labels of a source, split into training and held-out items."""
    import numpy as np

    from everylabel.experiments.compare import split

    parts = ("X_train", "y_train", "X_test", "y_test")
    if source.endswith(".npz") and Path(source).is_file():
        with np.load(source, allow_pickle=False) as file:
            if set(parts) <= set(file):
                return {part: file[part] for part in parts}
    given = {name: value for name, value in columns.items() if value is not None}
    home = folder.parent / "projects" / f"{Path(source).name}.everylabel"
    project = opened(source, **given, model=model, folder=home, check=_check_labels).blind()
    return split(np.asarray(project.features), np.asarray(project.truth), share)


def _check_labels(source: str, items: "Items") -> None:
    """Refuse a source without labels, or with lists of classes, before it is embedded."""
    from everylabel.core.errors import EverylabelError
    from everylabel.data.classes import odd_labels
    from everylabel.projects.project import check_true_labels

    check_true_labels(source, items)
    if odd_labels([items.classes[i] for i in items.labels if i >= 0]):
        raise EverylabelError(
            f"the labels of source {source!r} are lists of classes; expected one class per item: "
            "use `everylabel simulate SOURCE --multi-label` for several"
        )


def _table(summary: "Summary") -> Table:
    table = Table(
        "strategy", "mean rank", "regret", *summary.datasets, title="area under the curve of accuracy"
    )
    for i, name in enumerate(summary.strategies):
        areas = [f"{area.mean:.3f}" for area in summary.areas[i]]
        table.add_row(name, f"{summary.ranks[i]:.2f}", f"{summary.regret[i]:.3f}", *areas)
    return table
