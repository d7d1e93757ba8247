"""What an event does to the ledger: one function a kind. No clock, no chance: a log is replayed."""

from array import array
from functools import singledispatch

from everylabel.core.errors import EverylabelError
from everylabel.labelling import events
from everylabel.labelling.class_book import ClassBook
from everylabel.labelling.events import Event
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.naming import unpacked
from everylabel.labelling.record import LABEL
from everylabel.labelling.records import AMONG_ALL, IMPORT, Check, ClassChange, Drawn, Lease
from everylabel.labelling.settling import count, settle
from everylabel.labelling.tally import moved, tally_all, tally_of


def apply(ledger: Ledger, event: Event) -> int | None:
    """Take in one event; return the item whose place in the model may have changed."""
    ledger.seq = event.seq
    item = _take_in(ledger, event)
    if event.key is not None:
        ledger.keys.add(event.key, event.seq)
        if ledger.history.place_of(event.seq) is None:
            ledger.requests[event.seq] = event
    return item


def _take_in(ledger: Ledger, event: Event) -> int | None:
    item: int | None
    if isinstance(event.body, events.OfItem):
        item = ledger.position.get(event.body.item)
        if item is None:
            ledger.absent.add(event.body.item)
            return None
    elif isinstance(event.body, events.Undo):
        undone = ledger.entry(event.body.saved)
        item = None if undone is None else undone.item  # of one that the source no longer has
    else:
        _take(event.body, ledger, event, -1)
        return None
    before = tally_of(ledger, item)
    if item is not None:
        _take(event.body, ledger, event, item)
    ledger.tally = moved(ledger.tally, before, tally_of(ledger, item))
    return item


@singledispatch
def _take(body: events.Body, ledger: Ledger, event: Event, item: int) -> None:
    """Apply what an event says, by its type; `item` is what it is about."""
    raise EverylabelError(f"event {event.seq} is of kind {body.kind!r}; the ledger cannot apply it")


@_take.register
def _(body: events.Project, ledger: Ledger, event: Event, item: int) -> None:
    _take_classes(ledger, ledger.book.added(body.classes))
    ledger.seed = body.seed
    ledger.settings.update(body.settings)


@_take.register
def _(body: events.OfClasses, ledger: Ledger, event: Event, item: int) -> None:
    if isinstance(body, events.Describe) and body.imported:
        ledger.imported_descriptions[body.class_] = body.text
    change = ClassChange(event.seq, body, ledger.book)
    ledger.class_changes = [] if event.person in ("", IMPORT) else [*ledger.class_changes, change]
    _take_classes(ledger, ledger.book.after(body))


@_take.register
def _(body: events.UndoClasses, ledger: Ledger, event: Event, item: int) -> None:
    undone = next(change for change in ledger.class_changes if change.seq == body.saved)
    ledger.class_changes = ledger.class_changes[: ledger.class_changes.index(undone)]
    _take_classes(ledger, undone.before.with_numbers_of(ledger.book))


@_take.register
def _(body: events.Named, ledger: Ledger, event: Event, item: int) -> None:
    _unname(ledger, body.class_)
    if body.phrases:
        ledger.phrases[body.class_] = tuple(body.phrases)
        ledger.encoders[body.class_] = body.encoder
        ledger.vectors[body.class_] = unpacked(body.vectors, len(body.phrases))


@_take.register
def _(body: events.Settings, ledger: Ledger, event: Event, item: int) -> None:
    for answered in ledger.answers:
        count(ledger, answered, -1)
    ledger.settings.update(events.to_row(body)[1])
    for answered in ledger.answers:
        count(ledger, answered, 1)


@_take.register
def _(body: events.Refit, ledger: Ledger, event: Event, item: int) -> None:
    ledger.names_hold = ledger.names_hold if body.names is None else body.names
    ledger.trained = max(ledger.trained, body.upto)
    ledger.told_by = body.rows or ledger.told_by


@_take.register
def _(body: events.Sent, ledger: Ledger, event: Event, item: int) -> None:
    pass  # who asks for it finds it by its key


@_take.register
def _(body: events.Extended, ledger: Ledger, event: Event, item: int) -> None:
    ledger.joined = True
    if ledger.ids == body.ids:  # as in most logs, where all were there from the start
        return
    for name in body.ids:
        if name in ledger.position:
            continue
        if ledger.source is not None and name in ledger.source:
            ledger.ids.append(name)
        else:
            ledger.absent.add(name)


@_take.register
def _(body: events.Assessed, ledger: Ledger, event: Event, item: int) -> None:
    ledger.assessed.append(body)


@_take.register
def _(body: events.Out, ledger: Ledger, event: Event, item: int) -> None:
    ledger.leases[event.person] = Lease(item, body.reason, event.at, body.by)
    ledger.holder[item] = event.person
    ledger.shown[item, event.person] = event.seq
    if body.reason == "check" and not (body.again and item in ledger.checked):
        ledger.checked[item] = Drawn(body.among, body.share) if body.among is not None else AMONG_ALL
        _fulfil(ledger, body.among)
    if body.reason in ("chosen", "check") and not body.again:
        ledger.handed += 1
    if body.expected is not None:
        ledger.curve.add(len(ledger.labels), body.expected)


@_take.register
def _(body: events.Release, ledger: Ledger, event: Event, item: int) -> None:
    _release(ledger, event.person, item)


@_take.register
def _(body: events.Label | events.NoneOfThese, ledger: Ledger, event: Event, item: int) -> None:
    if isinstance(body, events.Label) and body.class_ not in range(len(ledger.classes)):
        raise EverylabelError(f"event {event.seq} gives class {body.class_!r}, which never was")
    _record(ledger, body, event, item)
    if isinstance(body, events.Label) and body.bulk is not None:
        ledger.bulks.setdefault(body.bulk, array("q")).append(event.seq)
    settle(ledger, item, ledger.standing(item))
    if body.check and body.guess is not None:
        among, share = ledger.checked.get(item, AMONG_ALL)
        ledger.checks[event.seq] = Check(event.seq, item, body.guess, among, share or 1.0)


@_take.register
def _(body: events.CannotTell, ledger: Ledger, event: Event, item: int) -> None:
    _record(ledger, body, event, item)
    settle(ledger, item, ledger.standing(item))


@_take.register
def _(body: events.Not, ledger: Ledger, event: Event, item: int) -> None:
    _note(ledger, body, event, item)
    ledger.doubted[item] = None
    ledger.n_changes += 1
    lease = ledger.leases.get(event.person)
    if lease is not None and lease.item == item:
        ledger.leases[event.person] = lease._replace(at=event.at)


@_take.register
def _(body: events.Skip, ledger: Ledger, event: Event, item: int) -> None:
    _record(ledger, body, event, item)
    ledger.skipped[item] = [*ledger.skipped.pop(item, []), (event.seq, event.person)]  # the last comes last


@_take.register
def _(body: events.Changed, ledger: Ledger, event: Event, item: int) -> None:
    ledger.aside[item] = ledger.changed[item] = event.seq
    for place in ledger.history.places(item):
        ledger.checks.pop(ledger.history.seq[place], None)
    ledger.checked.pop(item, None)
    settle(ledger, item, ledger.standing(item))


@_take.register
def _(body: events.Confirmed, ledger: Ledger, event: Event, item: int) -> None:
    ledger.aside.pop(item, None)
    settle(ledger, item, ledger.standing(item))


@_take.register
def _(body: events.Wish, ledger: Ledger, event: Event, item: int) -> None:
    ledger.wishes.pop(body.class_, None)
    if body.checks:
        ledger.wishes[body.class_] = body.checks


@_take.register
def _(body: events.Finished, ledger: Ledger, event: Event, item: int) -> None:
    ledger.finished[item] = body.class_
    if body.audit:
        ledger.audits[item] = None


@_take.register
def _(body: events.Unfinished, ledger: Ledger, event: Event, item: int) -> None:
    ledger.finished.pop(item, None)
    ledger.audits.pop(item, None)


@_take.register
def _(body: events.Left, ledger: Ledger, event: Event, item: int) -> None:
    if body.back:
        ledger.left.pop(item, None)
    else:
        ledger.left[item] = None
        for known in (ledger.skipped, ledger.finished, ledger.audits, ledger.checked):
            known.pop(item, None)
        _release(ledger, ledger.holder.get(item, ""), item)
    settle(ledger, item, ledger.standing(item))


@_take.register
def _(body: events.HeldOut, ledger: Ledger, event: Event, item: int) -> None:
    answers = ledger.answers.get(item, [])
    if answers:  # what was learned from it is learned no more
        settle(ledger, item, [])
    ledger.test[item] = None
    if answers:
        settle(ledger, item, answers)


@_take.register
def _(body: events.Undo, ledger: Ledger, event: Event, item: int) -> None:
    undone = ledger.entry(body.saved)
    if undone is None:
        raise LookupError(f"no answer {body.saved}")
    ledger.undone.add(undone.seq)
    done = ledger.done[undone.person]
    done.pop(-1 if done[-1] == undone.seq else done.index(undone.seq))
    ledger.checks.pop(undone.seq, None)
    if isinstance(undone.body, events.Skip):
        left = [entry for entry in ledger.skipped.pop(undone.item, []) if entry[0] != undone.seq]
        if left:
            ledger.skipped[undone.item] = left
    elif isinstance(undone.body, events.Not):
        ledger.n_changes += 1
    else:
        settle(ledger, undone.item, ledger.standing(undone.item))


def _fulfil(ledger: Ledger, among: int | None) -> None:
    """Count a check of a class that is to be tested more."""
    if among in ledger.wishes:
        ledger.wishes[among] -= 1
        if not ledger.wishes[among]:
            del ledger.wishes[among]


def _unname(ledger: Ledger, number: int) -> None:
    """Take away what a class's name was to an encoder."""
    ledger.n_names += 1
    for known in (ledger.phrases, ledger.encoders, ledger.vectors):
        known.pop(number, None)


def _take_classes(ledger: Ledger, book: ClassBook) -> None:
    """Go on with other classes; where labels of a class go elsewhere now, all are counted anew."""
    before, ledger.book = ledger.book, book
    known = dict(enumerate(before.names))
    for number in book.order:
        if known.get(number) != book.names[number]:
            ledger.phrases.pop(number, None)  # the old vectors teach until there are new ones
        if known.get(number) != book.names[number] or number in before.removed:
            ledger.names[" ".join(book.names[number].split())] = number
    moved_on = {number for number in known if before.now(number) != book.now(number)}
    if before.order and before.removed != book.removed:
        ledger.n_names += 1
    record = ledger.history
    for item in list(record.latest) if moved_on else ():
        if any(record.kind[i] == LABEL and record.class_[i] in moved_on for i in record.places(item)):
            settle(ledger, item, ledger.standing(item))
    if moved_on:
        ledger.tally = tally_all(ledger)


def _release(ledger: Ledger, person: str, item: int) -> None:
    lease = ledger.leases.get(person)
    if lease is not None and lease.item == item:
        del ledger.leases[person]
        if ledger.holder.get(item) == person:
            del ledger.holder[item]


def _record(ledger: Ledger, body: events.Answered, event: Event, item: int) -> None:
    """Put an answer on record, and take the item back from the person."""
    _release(ledger, event.person, item)
    _note(ledger, body, event, item)


def _note(ledger: Ledger, body: events.Answered, event: Event, item: int) -> None:
    """Put on record what was said of an item."""
    shown = ledger.shown.pop((item, event.person), None)
    if shown is None:  # answered before, maybe
        shown = _shown_before(ledger, item, event.person)
    ledger.history.add(event, item, body, shown)
    ledger.done.setdefault(event.person, array("q")).append(event.seq)


def _shown_before(ledger: Ledger, item: int, person: str) -> int:
    """Return the event by which an item was shown to a person before they said something of it last."""
    record = ledger.history
    own = [i for i in record.places(item) if record.people[record.person[i]] == person]
    return record.shown(own[-1]) if own else 0
