"""What commands print: errors and notes in one line, a bar while a source is embedded."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

from everylabel.cli import interrupts

if TYPE_CHECKING:
    from everylabel.projects.project import Project

WRONG = 2  # exit code, as of wrong usage
TOKENS = ("--token", "--look-token")


class Commands(TyperGroup):
    """Commands whose errors are one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        from everylabel.core.errors import EverylabelError

        try:
            with interrupts.unwinding():
                return super().invoke(ctx)
        except BrokenPipeError:  # whoever read our output has gone
            raise
        except KeyboardInterrupt as error:
            raise typer.Exit(interrupts.CODE) from error
        except Exception as error:
            if interrupts.swallowed():  # and made another error by what was at work
                raise typer.Exit(interrupts.CODE) from error
            if not isinstance(error, EverylabelError | OSError):
                raise
            _line("[red]error:[/red]", _whole(error))
            raise typer.Exit(WRONG) from error


def note(text: str) -> None:
    """Print a note on standard error."""
    _line("[yellow]note:[/yellow]", text)


def _whole(error: Exception) -> str:
    """Return an error's text; where it tells a command to go on by, with all that was given this time."""
    from everylabel.data.source_diff import ChangedSource

    if not isinstance(error, ChangedSource) or sys.argv[1:2] != ["label"]:
        return str(error)
    return str(error).replace(error.command, command("label", "--accept-changes", *sys.argv[2:]))


def command(*given: str) -> str:
    """Return a command of ours to be typed again; tokens, and addresses that may hold a password, are not."""
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
        return f"{scheme}://..."  # an address still: what is no address would be a file's name
    return "..." if option in TOKENS else value


def _line(start: str, text: str) -> None:
    Console(stderr=True).print(start, escape(" ".join(text.split("\n"))), highlight=False, soft_wrap=True)


def progress_bar(console: Console) -> Progress:
    """Return a bar with a description, counts and the time that is left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)


@contextmanager
def embedding_bar(doing: str = "embedding") -> Iterator[Callable[[int, int], None]]:
    """Yield a function of rows done and in all, which shows them as a bar once it is called."""
    bar = progress_bar(Console(stderr=True))
    task = bar.add_task(doing)

    def show(done: int, total: int) -> None:
        bar.start()  # nothing to embed prints nothing
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def opened(source: str, **options: Any) -> "Project":
    """Return a source as a project; a bar shows how far its embedding is, notes what was chosen."""
    from everylabel.projects.project import open_project
    from everylabel.scale.manifest import shards_behind

    if "reader" not in options and shards_behind(source) is not None:
        from everylabel.scale.project import in_files

        options["reader"] = in_files()

    told = [0, 0]

    with embedding_bar() as progress:

        def show(done: int, total: int) -> None:
            told[:] = done, total
            progress(done, total)

        try:
            project = open_project(source, progress=show, **options)
        except KeyboardInterrupt:
            if told[0]:
                note(f"{told[0]:,} of {told[1]:,} items are embedded and kept; start again to go on")
            raise
    for text in project.notes:
        note(text)
    return project
