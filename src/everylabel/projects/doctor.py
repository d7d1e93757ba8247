"""`everylabel doctor`: check a project's log; copy the valid events of a damaged log to a new one.

The old log is never changed.
"""

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.log.backup import logs_in, valid_prefix, write_log
from everylabel.log.database import shown_place
from everylabel.log.store import Damaged, Store, StoreError
from everylabel.projects.folder import ENDING, STORE, Remembered, located, remembered

UNREADABLE = (
    "the log cannot be read: replace it with a backup (`everylabel backup` makes them), or look for "
    "an older copy of the file"
)


class Findings(NamedTuple):
    """Checks that passed, problems, and the path of the new log, if one was written."""

    fine: list[str]
    wrong: list[str]
    written: Path | None = None


class LogLocation(NamedTuple):
    """A project's folder, its store, and the log's name there."""

    folder: Path
    store: str
    name: str


def find_log(source: str, folder: Path | None, store: str | None) -> LogLocation:
    """Return the location of a project's log; its source may be gone, and project.json damaged or gone."""
    place = folder or Path(source if source.endswith(ENDING) else f"{source}{ENDING}")
    try:
        about = remembered(place)
        if about is None:
            place, about = located(source, folder, Options())
        name = _name(about, store)
    except EverylabelError:
        names = logs_in(store or str(place / STORE))
        if len(names) != 1:
            raise
        name = names[0]
    return LogLocation(place.absolute(), store or str(place / STORE), name)


def _name(about: Remembered, store: str | None) -> str:
    """Return the name of a project's log in its store: see `projects.folder.log_name`."""
    if store is None or not about.id:
        return about.name
    both = f"{about.name} {about.id}"
    try:
        with closing(Store(store, both, write=False)) as log:
            return both if log.first() is not None else about.name
    except StoreError:
        return about.name


def examine(place: LogLocation, out: Path | None = None) -> Findings:
    """Check a project's log; if it is damaged, copy the events before the damage to a new log."""
    shown = shown_place(place.store)
    try:
        with closing(Store(place.store, place.name, write=False)) as log:
            count = len(log.content()[0])
        return Findings([f"the log {shown}: {count:,} events, all whole"], [])
    except Damaged as error:
        wrong = [f"the log {shown} is damaged: {error.what}"]
    rows, items, items_lost = valid_prefix(place.store, place.name)
    if not rows:
        return Findings([], [*wrong, UNREADABLE])
    if items_lost:
        wrong.append("the stored source is lost: make sure that its rows are the same, in the same order")
    target = out or place.folder / f"labels-recovered-{datetime.now():%Y%m%d-%H%M%S}.sqlite"
    write_log(target, place.name, rows, items)
    fine = f"{len(rows):,} events of the log {shown} are whole: all up to event {rows[-1].seq:,}"
    return Findings([fine], wrong, target)
