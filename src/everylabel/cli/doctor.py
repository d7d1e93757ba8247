"""`everylabel doctor` and `everylabel backup`: check and copy a project's log."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from everylabel.cli import options

DAMAGED = 1  # exit code


def doctor(
    source: Annotated[str, typer.Argument(help="The source that was labelled, or its project's folder.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File for the recovered log; default: beside the old one."),
    ] = None,
    keep_later: Annotated[
        bool, typer.Option("--keep-later", help="No effect; accepted for scripts of version 0.2.")
    ] = False,
    store: options.Store = None,
    folder: options.Folder = None,
) -> None:
    """Check a project's log for damage. If it is damaged, copy the intact part. Works while people label."""
    from everylabel.projects.doctor import examine, find_log

    if keep_later:
        print("--keep-later no longer has an effect: a new log ends before the first damaged event")
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


def backup(
    source: Annotated[str, typer.Argument(help="The source that was labelled, or its project's folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; default: beside the project.")
    ] = None,
    store: options.Store = None,
    folder: options.Folder = None,
) -> None:
    """Copy all answers of a project to a file. Works while people label."""
    from everylabel.log.backup import back_up
    from everylabel.projects.doctor import find_log

    place = find_log(source, folder, store)
    name = f"{place.folder.name}-backup-{datetime.now():%Y%m%d-%H%M%S}.sqlite"
    written = out or place.folder.with_name(name)
    n = back_up(place.store, place.name, written)
    again = shlex.join(["everylabel", "label", source, "--store", str(written)])
    print(f"{n:,} events are in {written}; to continue labelling with it: {again}")
