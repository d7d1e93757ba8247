"""`everylabel backup`."""

import shlex
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from everylabel.cli import options


def backup(
    source: Annotated[str, typer.Argument(help="The source that was labelled, or its project's folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; beside the project unless given.")
    ] = None,
    store: options.Store = None,
    folder: options.Folder = None,
) -> None:
    """Copy the log of a project to a file, also while people are labelling."""
    from everylabel.log.backup import back_up
    from everylabel.projects.doctor import find_log

    place = find_log(source, folder, store)
    name = f"{place.folder.name}-backup-{datetime.now():%Y%m%d-%H%M%S}.sqlite"
    written = out or place.folder.with_name(name)
    n = back_up(place.store, place.name, written)
    again = shlex.join(["everylabel", "label", source, "--store", str(written)])
    print(f"{n:,} events are in {written}; to label on with it: {again}")
