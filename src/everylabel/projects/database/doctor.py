"""A project looked over: whether its log is what was written, and if not, what is left of it.

The old log is never touched. What is whole goes to a new one beside it, sealed anew; it is told what was
lost, and how to go on.
"""

import json
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.data.id_list import IdList
from everylabel.data.options import Options
from everylabel.labelling import events
from everylabel.projects.database import sealing
from everylabel.projects.database.chain import Row
from everylabel.projects.database.locks import FileLock, Taken
from everylabel.projects.database.log_errors import StoreError
from everylabel.projects.database.mending import mended_text
from everylabel.projects.database.noted import from_text
from everylabel.projects.database.raw_log import RawLog, read_raw
from everylabel.projects.database.salvage import Salvage, salvage, understood
from everylabel.projects.database.store import Store, write_log
from everylabel.projects.feature_files import find_changed
from everylabel.projects.labelled import STORE
from everylabel.projects.options import Remembered, remembered
from everylabel.projects.own_files import check_own_files
from everylabel.projects.project import ENDING, located

NOTHING = (
    "nothing of the log can be read: put a backup in its place (`everylabel backup` makes them), or look for "
    "an older copy of the file"
)


class Findings(NamedTuple):
    """What is fine, what is wrong, and where the new log is, if one was written."""

    fine: list[str]
    wrong: list[str]
    written: Path | None = None
    left: int = 0


class Place(NamedTuple):
    """A project's folder, its log, the log's name in its store (None: the one there), and what is wrong."""

    folder: Path
    log: str
    name: str | None
    wrong: tuple[str, ...] = ()


def find(source: str, folder: Path | None, store: str | None) -> Place:
    """Return where a project is, without reading its source."""
    try:
        place, about = located(source, folder, Options())
    except EverylabelError as error:  # its options are damaged: the log may be whole
        own = folder or Path(source if source.endswith(ENDING) else f"{source}{ENDING}")
        check_own_files(own)
        known = None
        if not Path(source).exists():
            with suppress(EverylabelError):  # damaged, too
                known = remembered(own)
        if known is not None:  # the source is gone, and not needed
            log = str(own / STORE) if store is None else store
            return Place(own.absolute(), log, _name(known, store))
        if store is not None or not (own / STORE).is_file():
            raise
        return Place(own, str(own / STORE), None, (str(error),))
    log = str(place / STORE) if store is None else store
    return Place(place, log, _name(about, store))


def _name(about: Remembered, store: str | None) -> str:
    """Return the name of a project's log in its store: see `labelled.log_name`."""
    if store is None or not about.id:
        return about.name
    both = f"{about.name} {about.id}"
    try:
        with closing(Store(store, both, write=False)) as log:
            return both if log.read() else about.name
    except StoreError:
        return about.name


def examine(place: Place, out: Path | None = None, keep_later: bool = False) -> Findings:
    """Look a project over; write what is whole of a damaged log to a new file."""
    others = [*place.wrong, *find_changed(place.folder)]
    with _nobody_else(place.log):
        raw = read_raw(place.log, place.name)
    found = salvage(raw, keep_later)
    text, about_items = _items(raw, found.rows)
    wrong = [*found.lost, *found.mended, *about_items]
    loss = sealing.find_loss(raw.rows, raw.head) or (raw.says and f"the file says: {raw.says}")
    if loss and not wrong:
        wrong.append(loss)
    if not wrong:
        sealed = "" if raw.head is not None else "; they have no seal yet: it comes at the next start"
        fine = f"the log {place.log!r}: {len(found.rows):,} events, all whole{sealed}"
        return Findings([fine], others)
    target = out or place.folder / f"labels-mended-{datetime.now():%Y%m%d-%H%M%S}.sqlite"
    rows, unclear = _understood(found)
    if not rows:
        return Findings([], [*others, *wrong, *unclear, NOTHING])
    write_log(target, raw.project, rows, text)
    fine = f"{len(rows):,} of {len(raw.rows):,} events of the log {place.log!r} are whole"
    return Findings([fine], [*others, *wrong, *unclear], target, found.left)


def _nobody_else(log: str) -> "closing[FileLock] | closing[_Nothing]":
    """Keep servers away from a file while it is read."""
    if "://" in log or not Path(log).is_file():
        return closing(_Nothing())
    try:
        return closing(FileLock(Path(log)))
    except Taken as error:
        raise StoreError(
            f"store {log!r} is in use by a server; expected one that is not: stop the server first"
        ) from error


class _Nothing:
    """A lock that is none."""

    def close(self) -> None:
        """Do nothing."""


def _understood(found: Salvage) -> tuple[list[Row], list[str]]:
    """Return the events that mean something without those that are lost, and what is told of the others."""
    if not found.lost:
        return found.rows, []
    kept, unclear = understood(found.rows)
    told = [f"event {row.seq} stands on one that is lost, and is left out" for row in unclear]
    return kept, told


def _items(raw: RawLog, rows: Sequence[Row]) -> tuple[str | None, list[str]]:
    """Return what is noted of the source, if it can be relied on, and what is wrong with it."""
    if sealing.find_other_items(raw.items, raw.head) is None:
        return raw.items, []
    lost = "what was noted of the source is lost: see that its rows are as they were, in the same order"
    if raw.items is None:
        return None, [lost]
    joined = _joined(rows)
    right = None if raw.head is None else mended_text(raw.items, raw.head.items, joined)
    if right is not None:
        return right, ["what was noted of the source: one bit had changed, and was put right"]
    text = raw.items.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    fits = _names_fit(text, joined)
    changed = "what was noted of the source has changed; its names fit, and the next start compares the rest"
    return (text, [changed]) if fits else (None, [lost])


def _names_fit(text: str, joined: set[str]) -> bool:
    """Return whether a text notes rows that have joined, each once."""
    try:
        known = from_text(text)
    except (ValueError, RecursionError):
        return False
    keys, own_ids = known.keys, known.own_ids
    if len(keys) > len(joined) or (own_ids is not None and len(own_ids) != len(keys)):
        return False
    return len(set(keys)) == len(keys) and set(keys) <= joined


def _joined(rows: Sequence[Row]) -> set[str]:
    bodies = (json.loads(row.body) for row in rows if row.kind == events.Extended.kind)
    return {name for body in bodies for name in IdList.of_noted(body["ids"])}
