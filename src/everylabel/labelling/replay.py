"""The state behind a log: replaying it gives the same ledger, model and next instance, bit for bit."""

import hashlib
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.labelling.applying import apply
from everylabel.labelling.events import Answered, Event, Extended, Label, Named, Refit, Settings, Undo
from everylabel.labelling.kept import Kept, rows_digest
from everylabel.labelling.learner import Beginning, Change, Learner, MakePool, ruled_out
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.packing import unpack
from everylabel.labelling.records import Place, bulk_of
from everylabel.labelling.rows import Rows
from everylabel.models.scaling import Scaling
from everylabel.selection.pool import Where
from everylabel.selection.pool.scaled import Scaled
from everylabel.selection.pool.sparse import Sparse

LATELY = 300  # answers since the last training up to which they are replayed one by one


class Start(NamedTuple):
    """Where a model starts: all it must know of the log up to one event."""

    seq: int
    labels: dict[int, int]  # by column of the model, as all below
    places: list[tuple[int, Place]]  # instances that are out or set aside, in order
    columns: tuple[int, ...]  # the class of each column
    vectors: dict[int, np.ndarray]  # of class names, if they are to teach
    names_hold: bool  # whether the labels bear them out
    here: int = 0  # how many instances there are

    @property
    def n_classes(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> dict[int, np.ndarray]:
        """The vectors that teach."""
        return self.vectors if self.names_hold else {}

    def learner(
        self,
        features: np.ndarray | Scaled,
        scaling: Scaling | None = None,
        told_by: int | None = None,
        more: Callable[[int, int], np.ndarray | Scaled] | None = None,
        make_pool: MakePool | None = None,
    ) -> Learner:
        """Return a model trained on the labels, with the rest where it belongs."""
        known = self.labels, self.n_classes, self.names
        learner = Learner(features, *known, scaling, told_by, more, ruled_out(self.places), make_pool)
        learner.follow(Change(self.seq, self.seq, item, place, self.n_classes) for item, place in self.places)
        return learner


def start_of(ledger: Ledger) -> Start:
    """Return where a model that starts at this ledger starts."""
    others = sorted(
        {
            *ledger.holder,
            *ledger.answers,
            *ledger.skipped,
            *ledger.test,
            *ledger.finished,
            *ledger.left,
        }.union(ledger.doubted)
        - set(ledger.labels)
    )
    columns = ledger.columns
    places = [(item, _place(ledger, item, columns)) for item in others]
    places = [(item, place) for item, place in places if place != Place(Where.FREE)]
    column = {number: j for j, number in enumerate(columns)}
    labels = {item: column[number] for item, number in ledger.labels.as_dict().items()}
    vectors = taught(ledger, columns)
    return Start(ledger.seq, labels, places, columns, vectors, ledger.names_hold, len(ledger.ids))


def _place(ledger: Ledger, item: int, columns: tuple[int, ...]) -> Place:
    """Return what an item is to the model, by its columns; if all classes are ruled out, none of them is."""
    where, label, numbers = ledger.place(item)
    left_out = frozenset(columns.index(number) for number in numbers)
    return Place(
        where,
        None if label is None else columns.index(label),
        left_out if len(left_out) < len(columns) else frozenset(),
    )


def taught(ledger: Ledger, columns: tuple[int, ...]) -> dict[int, np.ndarray]:
    """Return the vectors of names that teach if the labels bear them out, by column."""
    vectors = ledger.to_teach()
    return {j: vectors[number] for j, number in enumerate(columns) if number in vectors}


def change_of(ledger: Ledger, event: Event) -> Change:
    """Take an event into the ledger and return what it does to the model.

    A class that comes is a column more; where columns go or move, the model begins anew.
    """
    body, columns = event.body, ledger.columns
    before = taught(ledger, columns) if ledger.names_hold and isinstance(body, Named | Settings) else {}
    item = apply(ledger, event)
    now = ledger.columns
    if now[: len(columns)] != columns:
        start = start_of(ledger)
        anew = Beginning(start.labels, start.names, start.places)
        return Change(event.seq, event.block, None, Place(Where.FREE), len(now), anew=anew)
    place = Place(Where.FREE) if item is None else _place(ledger, item, now)
    later = isinstance(body, Label) and bool(body.imported) and place.where is Where.LABELLED
    names: dict[int, np.ndarray] | None = None
    if isinstance(body, Named | Settings):
        names = taught(ledger, now) if ledger.names_hold else {}
        names = None if same_vectors(before, names) else names
    many = isinstance(body, Undo) and bulk_of(ledger.entry(body.saved)) is not None
    here = len(ledger.ids) if isinstance(body, Extended) else 0
    return Change(event.seq, event.block, item, place, len(now), names, many, here, later)


def same_vectors(some: dict[int, np.ndarray], others: dict[int, np.ndarray]) -> bool:
    """Return whether these are the very same vectors of the same classes."""
    return some.keys() == others.keys() and all(some[c] is others[c] for c in some)


State = tuple[Ledger, Learner, list[Change]]


def replay(events: Sequence[Event], rows: Rows) -> State:
    """Return the ledger, the model, and the changes it has followed since it was last trained, or kept."""
    found = replay_since(None, events, rows)
    assert found is not None
    return found


def replay_since(
    past: Kept | None, events: Sequence[Event], rows: Rows, kept: Kept | None = None
) -> State | None:
    """Return the same from a kept ledger, a kept model, or both, and the events since the former.

    past : a ledger of this log; None is returned if the model must start before it
    kept : a model of this log, which saves all that came before it; the same comes out without one

    What came between the labels it was trained on and the event up to which it was settled was followed
    without the logits, which were brought up once, and is so here; what came since moved them.
    """
    if kept is not None:
        found = _from_kept(events, rows, kept, past)
        if found is not None:
            return found
    refits = [(event.seq, event.body) for event in events if isinstance(event.body, Refit)]
    taken, last = max(reversed(refits), key=lambda refit: refit[1].upto, default=(0, Refit(0)))  # the latest
    upto = last.upto
    if past is not None and upto < past.seq:
        return None
    ledger, changes = _begun(events, rows, past), list[Change]()
    start = start_of(ledger)
    for event in events:
        if ledger.seq == upto:
            start = start_of(ledger)
        change = change_of(ledger, event)
        if event.seq > upto:
            changes.append(change)
    start = start if ledger.seq > upto else start_of(ledger)
    start = start if last.names is None else start._replace(names_hold=last.names)
    told_by = ledger.told_by or len(ledger.given)
    learner = learner_at(start, ledger, rows, min(told_by, start.here))
    settled = taken if last.settled is None else last.settled
    aside = bisect_right(changes, settled, key=lambda change: change.seq)
    learner.follow(changes[:aside], later=True)
    learner.settle()
    learner.follow(changes[aside:])
    return ledger, learner, changes


def _begun(events: Sequence[Event], rows: Rows, past: Kept | None) -> Ledger:
    """Return the ledger before the events."""
    return Ledger(_first(events, rows), rows) if past is None else unpack(past, rows)


def _from_kept(events: Sequence[Event], rows: Rows, kept: Kept, past: Kept | None) -> State | None:
    """Return what `replay` does, from a kept model on; None if it is of other items or features."""
    ledger = _begun(events, rows, past)
    since = bisect_right(events, kept.seq, key=lambda event: event.seq)
    for event in events[:since]:
        apply(ledger, event)
    told_by, here = int(kept.arrays["told_by"]), len(kept.arrays["state"])
    if here != len(ledger.ids) or not 0 < told_by <= here:
        return None
    learner = learner_at(Start(0, {}, [], (), {}, True, here), ledger, rows, told_by)
    if rows_digest(ledger.ids, learner.pool.features) != kept.rows:
        return None
    learner.restore(kept.arrays)
    changes = [change_of(ledger, event) for event in events[since:]]
    learner.follow(changes)
    return ledger, learner, changes


def training_due(events: Sequence[Event], kept: Kept | None = None) -> Event | None:
    """Return a training to be written behind a log whose last one was of labels (or a kept model) long ago.

    Opened without it, the log would be replayed label by label: training on all of them takes seconds.
    """
    trained = max((event.body.upto for event in events if isinstance(event.body, Refit)), default=0)
    begins = trained if kept is None else max(trained, kept.seq)
    since = sum(isinstance(event.body, Answered | Undo) for event in events if event.seq > begins)
    if since <= LATELY:
        return None
    last = events[-1].seq
    return Event(last + 1, last + 1, time.time(), "", Refit(last))


def learner_at(
    start: Start, ledger: Ledger, rows: Rows, told_by: int, features: np.ndarray | Scaled | None = None
) -> Learner:
    """Return a model that starts there, on the scale that the first rows tell, and can take what comes.

    features : all that are there, on that scale, if they are at hand
    """
    scaling = rows.scaling(ledger.ids, told_by)

    folded = rows.folds(start.here)

    def more(begin: int, end: int) -> np.ndarray | Scaled:
        return rows.on_scale(ledger.ids, begin, end, scaling, folded)

    features = more(0, start.here) if features is None else features
    return start.learner(features, scaling, told_by, more, rows.make_pool)


def _first(events: Sequence[Event], rows: Rows) -> Sequence[str]:
    """Return the items that are there from the start: all, in a log where none ever joined."""
    joined = next((event.body.ids for event in events if isinstance(event.body, Extended)), None)
    if joined is None or joined == rows.ids:
        return rows.ids
    return [name for name in joined if name in rows]


def fingerprint(ledger: Ledger, learner: Learner) -> dict[str, int | str]:
    """Return a hash of all numbers of the model and all labels: equal states, equal hashes.

    Logits that lie elsewhere are left out: they follow from the mean.
    """
    pool = learner.pool
    total, logits = hashlib.sha256(), [pool.logits()] if pool.is_here else []
    said = [part for own in (pool.state, pool.labels) for part in _parts(own)]
    for array in (pool.posterior.mean, pool.posterior.cov, *logits, *said):
        total.update(np.ascontiguousarray(array).tobytes())
    total.update(repr((sorted(ledger.labels.items()), sorted(ledger.leases.items()))).encode())
    return {"version": ledger.seq, "hash": total.hexdigest()}


def _parts(numbers: Any) -> tuple[np.ndarray, ...]:
    """Return an array, or what is other than usual in one of which nothing else is kept."""
    return numbers.unusual() if isinstance(numbers, Sparse) else (numbers,)
