"""The state behind a log: replaying it gives the same ledger, model and next instance, bit for bit."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from everylabel.labelling.events import Event, Refit
from everylabel.labelling.learner import Change, Learner
from everylabel.labelling.ledger import Ledger, Place
from everylabel.selection.pool import Where


class Start(NamedTuple):
    """Where a model starts: all it must know of the log up to one event."""

    seq: int
    labels: dict[int, int]
    places: list[tuple[int, Place]]  # instances that are out or set aside, in order
    n_classes: int

    def learner(self, features: np.ndarray) -> Learner:
        """Return a model trained on the labels, with the rest where it belongs."""
        learner = Learner(features, self.labels, self.n_classes)
        learner.follow(Change(self.seq, self.seq, item, place, self.n_classes) for item, place in self.places)
        return learner


def start_of(ledger: Ledger) -> Start:
    """Return where a model that starts at this ledger starts."""
    others = sorted({*ledger.holder, *ledger.answers, *ledger.skipped} - set(ledger.labels))
    places = [(item, place) for item in others if (place := ledger.place(item)).where is not Where.FREE]
    return Start(ledger.seq, dict(ledger.labels), places, len(ledger.classes))


def change_of(ledger: Ledger, event: Event) -> Change:
    """Take an event into the ledger and return what it does to the model."""
    item = ledger.apply(event)
    place = Place(Where.FREE) if item is None else ledger.place(item)
    return Change(event.seq, event.block, item, place, len(ledger.classes))


def replay(
    events: Sequence[Event], ids: Sequence[str], features: np.ndarray
) -> tuple[Ledger, Learner, list[Change]]:
    """Return the ledger, the model, and the changes it has followed since it was last trained."""
    upto = max((event.body.upto for event in events if isinstance(event.body, Refit)), default=0)
    ledger, changes = Ledger(ids), []
    start = start_of(ledger)
    for event in events:
        change = change_of(ledger, event)
        if event.seq == upto:
            start = start_of(ledger)
        if event.seq > upto:
            changes.append(change)
    learner = start.learner(features)
    learner.follow(changes)
    return ledger, learner, changes


def fingerprint(ledger: Ledger, learner: Learner) -> dict[str, int | str]:
    """Return a hash of all numbers of the model and all labels: equal states, equal hashes."""
    pool = learner.pool
    total = hashlib.sha256()
    for array in (pool.posterior.mean, pool.posterior.cov, pool.logits(), pool.state, pool.labels):
        total.update(np.ascontiguousarray(array).tobytes())
    total.update(repr((sorted(ledger.labels.items()), sorted(ledger.leases.items()))).encode())
    return {"version": ledger.seq, "hash": total.hexdigest()}
