"""`everylabel doctor`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from everylabel.cli import options

DAMAGED = 1  # exit code


def doctor(
    source: Annotated[str, typer.Argument(help="The source that was labelled, or its project's folder.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The new log, if one is needed; else beside the old one."),
    ] = None,
    keep_later: Annotated[
        bool, typer.Option("--keep-later", help="No effect; accepted for scripts of version 0.2.")
    ] = False,
    store: options.Store = None,
    folder: options.Folder = None,
) -> None:
    """Check a project's log and files; copy the events before a damage to a new log."""
    from everylabel.projects.doctor import examine, find_log

    if keep_later:
        print("--keep-later has no effect any more: a new log ends before the first damaged event")
    found = examine(find_log(source, folder, store), out)
    for text in found.fine:
        print(text)
    for text in found.wrong:
        print(f"- {text}")
    if found.written is not None:
        again = shlex.join(["everylabel", "label", source, "--store", str(found.written)])
        print(f"they are copied to {found.written}; the old log is unchanged. To continue with them: {again}")
    if found.wrong:
        raise typer.Exit(DAMAGED)
