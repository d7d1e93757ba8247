"""A copy of a project's log, made while a server may be writing to it: all of one moment, checked, sealed.

From PostgreSQL, too, it is a file of SQLite: `--store FILE` goes on with it, or it takes the place of
labels.sqlite.
"""

from contextlib import closing
from datetime import datetime
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.projects.database.doctor import Place
from everylabel.projects.database.raw_log import read_raw
from everylabel.projects.database.store import Store, write_log


def back_up(place: Place, out: Path | None = None) -> tuple[Path, int]:
    """Copy a log to a new file; return where it is, and how many events it holds."""
    name = place.folder.name
    target = out or place.folder.with_name(f"{name}-backup-{datetime.now():%Y%m%d-%H%M%S}.sqlite")
    project = read_raw(place.log, None).project if place.name is None else place.name
    with closing(Store(place.log, project, write=False)) as log:
        rows, items, _ = log.content()
    if not rows:
        raise EverylabelError(
            f"store {place.log!r} holds no event of {project!r}; expected a labelled project"
        )
    write_log(target, project, rows, items)
    return target, len(rows)
