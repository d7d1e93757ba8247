"""A project without a server: what its log adds up to, and whether a source is the one of that log."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from everylabel.data.digests import compare
from everylabel.data.source import Source
from everylabel.labelling.events import NewClass, Rename
from everylabel.labelling.events import Project as FirstEvent
from everylabel.labelling.ledger import Answer, Ledger
from everylabel.projects.project import Opening, Project
from everylabel.projects.store import Store, StoreError

STORE = "labels.sqlite"


class Known:
    """What people said, at one moment."""

    def __init__(self, ledger: Ledger) -> None:
        self.classes: list[str] = list(ledger.classes)
        self.labels: dict[int, int] = dict(ledger.labels)
        self.answers: dict[int, list[Answer]] = dict(ledger.answers)
        self.times: dict[int, float] = {event.seq: event.at for event in ledger.history}


def read_state(project: Project, store: str | None) -> Known:
    """Return what a project's log adds up to."""
    with closing(Store(store_place(project, store), store_name(project, store), write=False)) as log:
        events = log.read()
    ledger = Ledger(project.ids)
    for event in events:
        ledger.apply(event)
    return Known(ledger)


def check_labelled(
    store: str | None, *, accept: bool = False, needed: bool = False
) -> Callable[[Opening], Any]:
    """Return a check for `open_project`: a source that is not the one of the log is refused, with the cause.

    accept : let it pass
    needed : refuse if there is no log at all
    """

    def check(opening: Opening) -> None:
        place = str(opening.folder / STORE) if store is None else store
        if not needed and "://" not in place and not Path(place).exists():
            return
        now = opening.now
        try:
            name = log_name(now.name, now.id, opening.found, store)
            with closing(Store(place, name, write=False)) as log:
                ids, digests = log.items() or ([], [])
        except StoreError:
            if needed:
                raise
            return  # a database without our tables yet; the server will say what else is wrong
        cause = "" if opening.before is None else opening.now.options.differs(opening.before.options)
        compare(ids, digests, opening.found).check(opening.now.source, accept, cause)

    return check


def class_names(project: Project, store: str | None) -> set[str]:
    """Return every name that a class of the project has or had."""
    names = set(project.classes)
    try:
        with closing(Store(store_place(project, store), store_name(project, store), write=False)) as log:
            events = log.read()
    except StoreError:  # nothing is there yet
        return names
    for event in events:
        if isinstance(event.body, FirstEvent):
            names |= set(event.body.classes)
        elif isinstance(event.body, NewClass | Rename):
            names.add(event.body.name)
    return names


def store_place(project: Project, store: str | None) -> str:
    """Return where a project's log is: the store that is passed, or a file in its folder."""
    return store if store is not None else str(project.folder / STORE)


def store_name(project: Project, store: str | None) -> str:
    """Return the name of a project's log in its store."""
    return log_name(project.name, project.id, project, store)


def log_name(name: str, own_id: str, found: Project | Source, store: str | None) -> str:
    """Return the name of a log in a store: the project's own, or with its id if that is another's.

    A log is another's if its first event notes another id and its items are not ours: a project whose folder
    was made anew finds its log by them.
    """
    if store is None or not own_id:
        return name
    try:
        with closing(Store(store, name, write=False)) as log:
            first, items = next(iter(log.read()), None), log.items()
    except StoreError:  # nothing is there yet, or opening it tells what is wrong
        return name
    owner = first.body.id if first is not None and isinstance(first.body, FirstEvent) else None
    ours = owner in (None, own_id) or (items is not None and compare(*items, found).only_appended)
    return name if ours else f"{name} {own_id}"


def kept_in(project: Project, store: str | None) -> str:
    """Return where everything of a project is, in words, without a password."""
    if store is not None and "://" in store:
        return f"the database {store.split('@')[-1]} and {project.folder}"
    return str(project.folder) if store is None else f"{Path(store)} and {project.folder}"
