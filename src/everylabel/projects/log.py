"""What is written to a log before the server starts: its first event, labels that exist already, settings.

Everything is written once: a label is not if the last one from there (the source, or files) of this person
and item was the same, whatever people said since; a class is known by any name it ever had. Imported labels
are followed by a `refit`, so that the model starts trained on them exactly.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from everylabel.labelling import events
from everylabel.labelling.events import Event
from everylabel.labelling.ledger import Ledger
from everylabel.projects.project import check_class_count, class_name
from everylabel.projects.store import Store

IMPORTER = "import"  # who gave labels that came with the source
SOURCE, FILE = "source", "file"  # where labels came from
LONGEST_PERSON = 64


class Label(NamedTuple):
    """One label of one item that exists already; person None where nothing says who gave it."""

    id: str
    label: str
    person: str | None = None


class _Writer:
    """Events to append, taken into a ledger as they are made."""

    def __init__(self, before: Sequence[Event], ids: Sequence[str]) -> None:
        self.ledger, self.fresh = Ledger(ids), list[Event]()
        self.names: dict[str, int] = {}  # every name that a class has or had
        self.imported: dict[tuple[str, str, str], int] = {}  # item, person, from where -> class
        for event in before:
            self._take(event)
        self.block = self.ledger.seq + 1

    def emit(self, person: str, body: events.Body) -> None:
        event = Event(self.ledger.seq + 1, self.block, time.time(), person, body)
        self._take(event)
        self.fresh.append(event)

    def _take(self, event: Event) -> None:
        self.ledger.apply(event)
        body = event.body
        if isinstance(body, events.Project | events.NewClass | events.Rename):
            self.names |= {" ".join(name.split()): i for i, name in enumerate(self.ledger.classes)}
        if isinstance(body, events.Label) and body.imported:
            for origin in (SOURCE, FILE) if body.imported is True else (body.imported,):
                self.imported[body.item, event.person, origin] = body.class_


def begin(
    store: Store,
    ids: Sequence[str],
    *,
    classes: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    source: Iterable[Label] = (),
    labels: Iterable[Label] = (),
    project: str = "",
) -> int:
    """Bring a log up to date with what the command says; return how many labels were imported.

    `source` are the labels that came with the items, `labels` those of files. `project` is the project's
    id, noted in the first event: see `run.store_name`.
    """
    writer = _Writer(store.read(), ids)
    settings = settings or {}
    if writer.ledger.seq == 0:
        check_class_count(classes)
        names = list(dict.fromkeys(map(class_name, classes)))
        writer.emit("", events.Project(names, settings, seed=0, id=project or None))
    changed = {name: value for name, value in settings.items() if writer.ledger.settings[name] != value}
    if changed:
        writer.emit("", events.Settings(**changed))
    for name in classes:
        _number(writer, name)
    before = writer.ledger.seq
    imported = _import(writer, source, SOURCE) + _import(writer, labels, FILE)
    if writer.ledger.seq > before and imported:
        writer.emit("", events.Refit(writer.ledger.seq))
    store.append(writer.fresh)
    return imported


def _number(writer: _Writer, name: str) -> int:
    """Return a class's number; a name never seen before is added."""
    clean = class_name(name)
    if clean not in writer.names:
        check_class_count([*writer.ledger.classes, clean])
        writer.emit(IMPORTER, events.NewClass(clean))
    return writer.names[clean]


def _import(writer: _Writer, labels: Iterable[Label], origin: str) -> int:
    """Write labels that are not what was imported last from there; return how many."""
    known = [label for label in labels if label.id in writer.ledger.position]
    last = {(label.id, _person(label.person)): label.label for label in known}  # of several, the last counts
    count = 0
    for (item, person), name in last.items():
        number = _number(writer, name)
        if writer.imported.get((item, person, origin)) != number:
            writer.emit(person, events.Label(item, number, imported=origin))
            count += 1
    return count


def _person(name: str | None) -> str:
    """Return a person's name as the page would take it; databases cannot hold every character."""
    shown = "".join(each if each.isprintable() else " " for each in name or "")
    return " ".join(shown.split())[:LONGEST_PERSON].strip() or IMPORTER
