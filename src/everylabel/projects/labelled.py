"""Find the log of a source: its place, its name in the store, and which of its rows is which item.

Each `events.Extended` records a hash of the features of the items that joined with it. If the features are
expected to differ (another model, rows with other content), the items are logged again with the new hash.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from everylabel.core.errors import EverylabelError, counted
from everylabel.data.digests import features_digest
from everylabel.data.items import IdList, Items, Sent, with_sent
from everylabel.data.source_diff import compare
from everylabel.log import events
from everylabel.log.database import shown_place
from everylabel.log.events import ABOUT_ITEMS
from everylabel.log.store import Damaged, NoLog, Store, StoreError
from everylabel.projects.project import Begin, Check, Opening, Project, Remembered

STORE = "labels.sqlite"  # in the project's folder


def check_labelled(
    store: str | None, *, accept: bool = False, needed: bool = False, own_log: str = ""
) -> Check:
    """Return a check for `open_project`: it gives items the log's ids and refuses a changed source.

    accept : accept a changed source, and another log unless `own_log` is given
    needed : the log is only read: refuse if there is none, and report changes of the source in a note
    own_log : how to continue without the project's own log, which is then needed even if changes are accepted
    """

    def check(opening: Opening) -> Items | None:
        place = str(opening.folder / STORE) if store is None else store
        before = opening.before
        if store is None and before is not None and before.log and (own_log or not accept):
            _check_log_there(place, before, own_log or "add --accept-changes")
        if not needed and "://" not in place and not Path(place).exists():
            return None
        now, items = opening.now, opening.items
        try:
            with closing(Store(place, log_name(now.name, now.id, items, store), write=False)) as log:
                known, sent, labelled = log.items(), sent_before(log), log.holds(ABOUT_ITEMS)
        except StoreError as error:
            if needed or isinstance(error, Damaged):
                raise
            return None  # a database without our tables yet; the server reports other problems
        if known is None:
            return None
        cause = "" if before is None else now.options.differs(before.options)
        if sent and not Path(now.source).exists() and Path(now.source).is_absolute():
            many = counted(len(sent), "item was", "items were")
            raise EverylabelError(
                f"source {now.source!r} is not there any more ({many} sent to its project, but those are not "
                "enough to open it); expected the source: put it back"
            )
        items = with_sent(items, sent, now.options.text_column)
        change = compare(known, items)
        reads = needed and not change.others  # rows of shards cannot be matched if they changed
        note = change.check(now.source, accept or reads, cause, unlabelled=not labelled)
        if needed and note is not None:  # otherwise `open_log` reports it
            items = replace(items, notes=(*items.notes, note))
        return replace(items, ids=change.keys, replaced=not (labelled or change.only_appended))

    return check


def log_mark(log: Store) -> str:
    """Return a mark that distinguishes a log from others: the time it was begun."""
    first = log.first()
    return "" if first is None else repr(first.at)


def _check_log_there(place: str, before: Remembered, without: str) -> None:
    """Refuse to start a new log if the log in the project's folder is gone, empty or another one.

    Errors of reading a log (another program holds it, a later version wrote it) are passed on unchanged: it
    may be the right log, which no backup should replace.
    """
    try:
        with closing(Store(place, before.name, write=False)) as log:
            found = log_mark(log)
    except NoLog:
        found = ""
    if found != before.log:
        what = "is another one" if found else "holds nothing of it" if Path(place).exists() else "is gone"
        raise EverylabelError(
            f"the log {place!r}, with the labels of this project, {what}; restore it or a backup (everylabel "
            f"doctor checks it). To continue without its labels, {without}"
        )


def sent_before(log: Store) -> list[Sent]:
    """Return the items that were sent to a project, in the order in which they arrived."""
    joined = (event.body for event in log.glance("extended"))
    bodies = [one for body in joined if isinstance(body, events.Extended) for one in body.sent or ()]
    return [Sent(str(one["id"]), str(one["text"]), one.get("fields") or {}) for one in bodies]


def joined_before(store: str | None) -> Begin:
    """Return a function for `open_project` that finds the items needed at once: those in the pool already."""

    def begin(opening: Opening) -> list[int] | None:
        place, now = str(opening.folder / STORE) if store is None else store, opening.now
        try:
            with closing(Store(place, log_name(now.name, now.id, opening.items, store), write=False)) as log:
                begun, bodies = log.first() is not None, [event.body for event in log.glance("extended")]
        except NoLog:  # there is no log yet
            return []
        joined = {name for body in bodies if isinstance(body, events.Extended) for name in body.names}
        if begun and not joined:  # written by the version before
            return None
        return [i for i, name in enumerate(opening.items.ids) if name in joined]

    return begin


def project_log(project: Project, store: str | None, *, write: bool = False) -> "closing[Store]":
    """Return a project's log, opened: in the given store, or a file in its folder."""
    place = str(project.folder / STORE) if store is None else store
    return closing(Store(place, log_name(project.name, project.id, project, store), write=write))


def log_name(name: str, own_id: str, items: Items, store: str | None) -> str:
    """Return the name of a log in a store: the project's name, plus its id if another project has that name.

    A log belongs to another project if its first event records another id and its items are not ours. So a
    project whose folder was created again finds its log by its items.
    """
    if store is None or not own_id:
        return name
    try:
        with closing(Store(store, name, write=False)) as log:
            first, before = log.first(), log.items()
    except StoreError:  # there is no log yet, or opening it reports the problem
        return name
    owner = first.body.id if first is not None and isinstance(first.body, events.Project) else None
    ours = owner in (None, own_id) or (before is not None and compare(before, items).only_appended)
    return name if ours else f"{name} {own_id}"


def kept_in(project: Project, store: str | None) -> str:
    """Describe where a project is stored, without passwords."""
    return str(project.folder) if store is None else f"{shown_place(store)} and {project.folder}"


def with_other_features(joined: Sequence[object], ids: IdList, features: np.ndarray) -> list[Sequence[str]]:
    """Return items whose features differ from those the log recorded, as far as that can be determined.

    They are grouped as they joined: one hash covers a group, so a single item cannot be determined. Groups
    with items that are gone cannot be compared.
    """
    place = ids.position
    later, found = set[str](), list[Sequence[str]]()
    bodies = [body for body in joined if isinstance(body, events.Extended)]
    for body in reversed(bodies):
        names = body.names
        whole = names == ids  # the usual case, without lookups
        known = later.isdisjoint(names) and (whole or all(name in place for name in names))
        places = None if whole else [place[name] for name in names] if known else []
        if known and names and features_digest(features, places) != body.digest:
            found.insert(0, names)
        if body is not bodies[0]:
            later.update(names)
    return found
