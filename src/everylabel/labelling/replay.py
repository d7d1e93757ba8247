"""The state behind a log: replaying it gives the same ledger, model and next instance, bit for bit."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from everylabel.labelling.events import Event, Named, Refit, Settings, Undo
from everylabel.labelling.learner import Change, Learner
from everylabel.labelling.ledger import Ledger, Place, bulk_of
from everylabel.models.scaling import Scaling
from everylabel.selection.pool import Where


class Start(NamedTuple):
    """Where a model starts: all it must know of the log up to one event."""

    seq: int
    labels: dict[int, int]
    places: list[tuple[int, Place]]  # instances that are out or set aside, in order
    n_classes: int
    vectors: dict[int, np.ndarray]  # of class names, if they are to teach
    names_hold: bool  # whether the labels bear them out

    def learner(self, features: np.ndarray, scaling: Scaling | None = None) -> Learner:
        """Return a model trained on the labels, with the rest where it belongs."""
        names = self.vectors if self.names_hold else {}
        learner = Learner(features, self.labels, self.n_classes, names, scaling)
        learner.follow(Change(self.seq, self.seq, item, place, self.n_classes) for item, place in self.places)
        return learner


def start_of(ledger: Ledger) -> Start:
    """Return where a model that starts at this ledger starts."""
    others = sorted({*ledger.holder, *ledger.answers, *ledger.skipped} - set(ledger.labels))
    places = [(item, place) for item in others if (place := ledger.place(item)).where is not Where.FREE]
    k, vectors = len(ledger.classes), ledger.to_teach()
    return Start(ledger.seq, dict(ledger.labels), places, k, vectors, ledger.names_hold)


def change_of(ledger: Ledger, event: Event) -> Change:
    """Take an event into the ledger and return what it does to the model."""
    before = ledger.teaching() if isinstance(event.body, Named | Settings) else None
    item = ledger.apply(event)
    place = Place(Where.FREE) if item is None else ledger.place(item)
    now = None if before is None else ledger.teaching()
    taught = now if before is not None and now is not None and not same_vectors(before, now) else None
    many = isinstance(event.body, Undo) and bulk_of(ledger.entry(event.body.saved)) is not None
    return Change(event.seq, event.block, item, place, len(ledger.classes), taught, many)


def same_vectors(some: dict[int, np.ndarray], others: dict[int, np.ndarray]) -> bool:
    """Return whether these are the very same vectors of the same classes."""
    return some.keys() == others.keys() and all(some[c] is others[c] for c in some)


def replay(
    events: Sequence[Event], ids: Sequence[str], features: np.ndarray, scaling: Scaling | None = None
) -> tuple[Ledger, Learner, list[Change]]:
    """Return the ledger, the model, and the changes it has followed since it was last trained."""
    refits = (event.body for event in reversed(events) if isinstance(event.body, Refit))
    last = max(refits, key=lambda body: body.upto, default=Refit(0))  # of equals, the latest
    upto = last.upto
    ledger, changes = Ledger(ids), []
    start = start_of(ledger)
    for event in events:
        change = change_of(ledger, event)
        if event.seq == upto:
            start = start_of(ledger)
            start = start._replace(names_hold=start.names_hold if last.names is None else last.names)
        if event.seq > upto:
            changes.append(change)
    learner = start.learner(features, scaling)
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
