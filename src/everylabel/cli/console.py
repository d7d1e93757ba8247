"""Output of the commands: one-line errors and notes, and progress bars."""

import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

if TYPE_CHECKING:
    from everylabel.projects.project import Project

INTERRUPTED = 130  # exit code, the shells' for Ctrl-C
WRONG = 2  # exit code, the same as for wrong usage
TOKENS = ("--token", "--look-token")


class Commands(TyperGroup):
    """Commands whose errors are one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        from everylabel.core.errors import EverylabelError

        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has gone
            raise
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error
        except (EverylabelError, OSError) as error:
            _line("[red]error:[/red]", str(error))
            raise typer.Exit(WRONG) from error


def note(text: str) -> None:
    """Print a note on standard error."""
    _line("[yellow]note:[/yellow]", text)


def done(text: str) -> None:
    """Print what a command has done on standard error."""
    Console(stderr=True).print(escape(text), highlight=False, soft_wrap=True)


def print_ready(address: str) -> None:
    """Print that the server is up."""
    print(f"everylabel is ready: {address}", flush=True)


def command(*given: str) -> str:
    """Return an everylabel command to repeat, without tokens and addresses that may hold a password."""
    hidden, before = ["everylabel"], ""
    for one in given:
        name, _, value = one.partition("=")
        own = one.startswith("--") and value
        hidden.append(f"{name}={_shown(name, value)}" if own else _shown(before, one))
        before = one
    return shlex.join(hidden)


def _shown(option: str, value: str) -> str:
    scheme, is_address, rest = value.partition("://")
    if is_address and (option == "--store" or "@" in rest):
        return f"{scheme}://..."  # keep the scheme: without it, this would be a file name
    return "..." if option in TOKENS else value


def _line(start: str, text: str) -> None:
    Console(stderr=True).print(start, escape(" ".join(text.split("\n"))), highlight=False, soft_wrap=True)


def join(ray: str | None) -> None:
    """Connect to a Ray cluster, if one is named, and name it in a note."""
    if ray is not None:
        from everylabel.scale.cluster import connect

        connect(ray, note)


def progress_bar(console: Console) -> Progress:
    """Return a progress bar with a description, counts and the remaining time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)


@contextmanager
def embedding_bar(doing: str = "embedding") -> Iterator[Callable[[int, int], None]]:
    """Yield a function show(done, total) that draws a progress bar; the bar appears at the first call."""
    bar = progress_bar(Console(stderr=True))
    task = bar.add_task(doing)

    def show(done: int, total: int) -> None:
        bar.start()  # no bar if there is nothing to embed
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def opened(source: str, **options: Any) -> "Project":
    """Open a source as a project, with a progress bar for its embedding, and print the project's notes."""
    from everylabel.core.errors import EverylabelWarning
    from everylabel.projects.project import open_project
    from everylabel.scale.manifest import shards_behind

    if "reader" not in options and shards_behind(source) is not None:
        from everylabel.scale.project import in_files

        options["reader"] = in_files()

    warnings.filterwarnings("ignore", ".*times as large as most", EverylabelWarning)  # a note names the rows
    with embedding_bar() as progress:
        project = open_project(source, progress=progress, **options)
    for text in project.notes:
        note(text)
    return project
