"""`everylabel doctor`: check a project's log and files; copy the valid events of a damaged log to a new one.

The old log is never changed.
"""

from contextlib import closing, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.log.backup import largest_project, valid_prefix, write_log
from everylabel.log.database import FileLock, Taken, shown_place
from everylabel.log.store import Damaged, Store, StoreError
from everylabel.projects.files import Remembered, check_own_files, find_changed, remembered
from everylabel.projects.labelled import STORE
from everylabel.projects.project import ENDING, located

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
    """A project's folder, its store, the log's name there, and problems with the project's options."""

    folder: Path
    store: str
    name: str
    wrong: tuple[str, ...] = ()


def find_log(source: str, folder: Path | None, store: str | None) -> LogLocation:
    """Return the location of a project's log, without reading the project's source."""
    try:
        place, about = located(source, folder, Options())
    except EverylabelError as error:  # damaged options or a missing source: the log may be intact
        own = folder or Path(source if source.endswith(ENDING) else f"{source}{ENDING}")
        check_own_files(own)
        known = None
        if not Path(source).exists():
            with suppress(EverylabelError):  # damaged, too
                known = remembered(own)
        if known is not None:
            return LogLocation(own.absolute(), store or str(own / STORE), _name(known, store))
        if store is not None or not (own / STORE).is_file():
            raise
        log = str(own / STORE)
        return LogLocation(own, log, largest_project(log), (str(error),))
    return LogLocation(place, store or str(place / STORE), _name(about, store))


def _name(about: Remembered, store: str | None) -> str:
    """Return the name of a project's log in its store: see `labelled.log_name`."""
    if store is None or not about.id:
        return about.name
    both = f"{about.name} {about.id}"
    try:
        with closing(Store(store, both, write=False)) as log:
            return both if log.first() is not None else about.name
    except StoreError:
        return about.name


def examine(place: LogLocation, out: Path | None = None) -> Findings:
    """Check a project; if its log is damaged, copy the events before the damage to a new log."""
    others, shown = [*place.wrong, *find_changed(place.folder)], shown_place(place.store)
    with _locked(place.store):
        try:
            with closing(Store(place.store, place.name, write=False)) as log:
                rows, _, head = log.content()
            valid = rows if head is not None else valid_prefix(place.store, place.name).rows
            if len(valid) == len(rows):
                return Findings([f"the log {shown}: {len(rows):,} events, all whole"], others)
            damage = f"event {rows[len(valid)].seq} cannot be understood"
        except Damaged as error:
            damage = error.what
        rows, items, items_lost = valid_prefix(place.store, place.name)
    wrong = [*others, f"the log {shown} is damaged: {damage}"]
    if not rows:
        return Findings([], [*wrong, UNREADABLE])
    if items_lost:
        wrong.append("the stored source is lost: make sure that its rows are the same, in the same order")
    target = out or place.folder / f"labels-recovered-{datetime.now():%Y%m%d-%H%M%S}.sqlite"
    write_log(target, place.name, rows, items)
    fine = f"{len(rows):,} events of the log {shown} are whole: all up to event {rows[-1].seq:,}"
    return Findings([fine], wrong, target)


def _locked(store: str) -> Any:
    """Lock a log file against servers while it is read."""
    if "://" in store or not Path(store).is_file():
        return nullcontext()
    try:
        return closing(FileLock(Path(store)))
    except Taken as error:
        raise StoreError(
            f"store {store!r} is in use by a server; expected one that is not: stop the server first"
        ) from error
