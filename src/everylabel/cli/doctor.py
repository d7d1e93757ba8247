"""`everylabel doctor`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from everylabel.cli import options

DAMAGED = 1  # exit code
SHOWN = 20  # losses that are told one by one


def doctor(
    source: Annotated[str, typer.Argument(help="The source that was labelled, or its project's folder.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The new log, if one is needed; else beside the old one."),
    ] = None,
    keep_later: Annotated[
        bool, typer.Option("--keep-later", help="Also what came after a loss that may have changed classes.")
    ] = False,
    store: options.Store = None,
    folder: options.Folder = None,
) -> None:
    """Check that a project is what was written; rebuild a damaged log from what is whole."""
    from everylabel.projects.database.doctor import examine, find

    found = examine(find(source, folder, store), out, keep_later)
    for text in found.fine:
        print(text)
    for text in found.wrong[:SHOWN]:
        print(f"- {text}")
    if len(found.wrong) > SHOWN:
        print(f"- and {len(found.wrong) - SHOWN:,} more like these")
    if found.left:
        print(
            f"{found.left:,} events came after what is lost. They are left out, since a class may have been "
            "added or removed there, and they would mean another; --keep-later takes over what is whole"
        )
    if found.written is not None:
        again = shlex.join(["everylabel", "label", source, "--store", str(found.written)])
        print(f"what is whole is in {found.written}; the old log is as it was. To go on with that: {again}")
    if found.wrong:
        raise typer.Exit(DAMAGED)
