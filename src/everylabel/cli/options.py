"""What the commands on a source share: its options, opening it with a progress bar, errors in one line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from everylabel.projects.project import Project

Source = Annotated[
    str, typer.Argument(help="A CSV, JSONL or Parquet file, a folder of images, a .npy file, or digits.")
]
TextColumnName = Annotated[str | None, typer.Option("--text-column", help="The column that holds the texts.")]
ImageColumnName = Annotated[
    str | None, typer.Option("--image-column", help="The column that holds paths of images.")
]
LabelColumnName = Annotated[
    str | None,
    typer.Option("--label-column", help="Labels that are there; folder: sub-folders, y: of an .npz file."),
]
IdColumnName = Annotated[str | None, typer.Option("--id-column", help="A column of unique names.")]
Show = Annotated[Path | None, typer.Option(help="A table to show beside features, a row for each.")]
Model = Annotated[str | None, typer.Option(help="The model that embeds: a folder or name, tfidf, pixels ...")]
Folder = Annotated[
    Path | None, typer.Option("--project", help="Where all is kept; SOURCE.everylabel unless given.")
]
Encoding = Annotated[str | None, typer.Option(help="Of a text file that is not UTF-8.")]
StorePlace = Annotated[
    str | None, typer.Option("--store", help="A file, or postgresql://...; else in the project's folder.")
]


@contextmanager
def errors_in_one_line(console: Console) -> Iterator[None]:
    """Print an error as a person reads it, and leave with code 1."""
    from everylabel.core.errors import EverylabelError

    try:
        yield
    except EverylabelError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def noted(console: Console) -> Callable[[str], None]:
    """Return a function that prints a note."""
    return lambda text: console.print(
        f"[yellow]note:[/yellow] {escape(text)}", highlight=False, soft_wrap=True
    )


@contextmanager
def embedding_bar(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of rows done and in all, which shows them as a bar once it is called."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("embedding", visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def opened(console: Console, source: str, **options: Any) -> "Project":
    """Return a source as a project; a bar shows how far its embedding is, notes what was chosen."""
    from everylabel.projects.project import open_project

    with embedding_bar(console) as progress:
        project = open_project(source, progress=progress, **options)
    for note in project.notes:
        noted(console)(note)
    return project


def class_names(classes: str | None) -> list[str] | None:
    """Return names that are parted by commas."""
    return None if classes is None else [name.strip() for name in classes.split(",") if name.strip()]
