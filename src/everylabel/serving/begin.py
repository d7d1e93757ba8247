"""What is written to a log before the server starts: its first event, labels that exist already, settings.

Everything is written once: a label that was imported before is known by its key, a class by any name it
ever had. Imported labels are followed by a `refit`, so that the model starts trained on them exactly.
"""

import hashlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

from everylabel.serving.events import Event
from everylabel.serving.imports import Label
from everylabel.serving.ledger import Ledger
from everylabel.serving.store import Store

IMPORTER = "import"  # who gave labels that came with the source


class _Writer:
    """Events to append, taken into a ledger as they are made."""

    def __init__(self, events: Sequence[Event], ids: Sequence[str]) -> None:
        self.ledger, self.fresh = Ledger(ids), list[Event]()
        self.names: dict[str, int] = {}  # every name that a class has or had
        for event in events:
            self._take(event)
        self.block = self.ledger.seq + 1

    def emit(self, kind: str, person: str, body: dict[str, Any], key: str | None = None) -> None:
        event = Event(self.ledger.seq + 1, self.block, time.time(), person, kind, body, key)
        self._take(event)
        self.fresh.append(event)

    def _take(self, event: Event) -> None:
        self.ledger.apply(event)
        if event.kind in ("project", "class", "rename"):
            self.names |= {name: i for i, name in enumerate(self.ledger.classes)}


def begin(
    store: Store,
    ids: Sequence[str],
    *,
    classes: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    labels: Iterable[Label] = (),
) -> int:
    """Bring a log up to date with what the command says; return how many labels were imported."""
    writer = _Writer(store.read(), ids)
    settings = settings or {}
    if writer.ledger.seq == 0:
        writer.emit("project", "", {"classes": list(classes), "settings": settings, "seed": 0})
    changed = {name: value for name, value in settings.items() if writer.ledger.settings[name] != value}
    if changed:
        writer.emit("settings", "", changed)
    for name in classes:
        _number(writer, name)
    before = writer.ledger.seq
    imported = sum(_import(writer, label) for label in labels)
    if writer.ledger.seq > before and imported:
        writer.emit("refit", "", {"upto": writer.ledger.seq})
    store.append(writer.fresh)
    return imported


def _number(writer: _Writer, name: str) -> int:
    """Return a class's number; a name never seen before is added."""
    if name not in writer.names:
        writer.emit("class", IMPORTER, {"name": name})
    return writer.names[name]


def _import(writer: _Writer, label: Label) -> bool:
    person = (label.person or IMPORTER)[:64]
    content = "\0".join((label.id, label.label, person))
    key = f"import {hashlib.sha256(content.encode()).hexdigest()[:32]}"
    if key in writer.ledger.keys or label.id not in writer.ledger.position:
        return False
    number = _number(writer, label.label)
    writer.emit("label", person, {"item": label.id, "class": number, "imported": True}, key)
    return True
