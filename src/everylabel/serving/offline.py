"""A project without a server: what its log adds up to, and whether a source is the one of that log."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from everylabel.serving.digests import compare
from everylabel.serving.ledger import Answer, Ledger
from everylabel.serving.project import Opening, Project
from everylabel.serving.run import STORE, log_name, store_name, store_place
from everylabel.serving.store import Store, StoreError


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
        names |= set(event.body.get("classes", ())) if event.kind == "project" else set()
        names |= {event.body["name"]} if event.kind in ("class", "rename") else set()
    return names
