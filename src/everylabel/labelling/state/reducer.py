"""The effect of each kind of event on the state: one function per kind. No clock, no randomness."""

from collections.abc import Iterable
from functools import singledispatch

from everylabel.core.errors import EverylabelError
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    IMPORT,
    Agreement,
    Answer,
    Check,
    ClassBook,
    ClassChange,
    ClassSet,
    Entry,
    Lease,
    Suggestion,
    Tally,
    Value,
    classes_of,
    majority,
    tied,
    votes,
)
from everylabel.log import events
from everylabel.log.events import GARBLED, Damaged, Event


def vote(state: State, item: int) -> None:
    """Set an item's label by the majority of its standing answers.

    An adjudicator's answer outvotes all others. A tie goes to the latest answer, a person's before an
    imported one.
    """
    count(state, item, -1)
    answers = state.standing(state.by_item.get(item, []))
    if answers:
        state.answers[item] = answers
    else:
        state.answers.pop(item, None)
    for labels in (state.labels, state.test_labels):
        labels.pop(item, None)
    values = [a.value for a in _ranked(state, answers) if a.value != CANNOT_TELL]
    if values:
        labels = state.test_labels if item in state.test else state.labels
        labels[item] = majority(values)
    count(state, item, 1)
    state.n_changes += 1


def _ranked(state: State, answers: list[Answer]) -> list[Answer]:
    """Return the answers that count, with the one that decides a tie last."""
    if len(answers) < 2:
        return answers
    ranked = sorted(answers, key=lambda answer: (answer.person != IMPORT, answer.seq))
    bodies = [state.history[answer.seq].body for answer in ranked]
    by_adjudicator = [isinstance(body, events.Classified) and body.truth for body in bodies]
    return [answer for answer, truth in zip(ranked, by_adjudicator, strict=True) if truth] or ranked


def count(state: State, item: int, sign: int) -> None:
    """Add an item's answers to the counts (sign 1), or subtract them (sign -1)."""
    tally, answers = state.tally, state.answers.get(item, [])
    for answer in answers:
        tally.by_person[answer.person] += sign
    if item in state.labels:
        for number in classes_of(state.labels[item]):
            tally.by_class[number] += sign
    if len(answers) > 1:
        values = [answer.value for answer in answers if answer.value != CANNOT_TELL]
        for question, given in votes(values).items():
            tally.agreement.setdefault(question, Agreement()).add(given, sign)
        if tied(values):
            _mark(tally.disputed, item, sign)
    if 0 < len(answers) < state.answers_needed:
        _mark(tally.wanting, item, sign)


def _mark(items: dict[int, None], item: int, sign: int) -> None:
    """Append an item (sign 1), or remove it (sign -1)."""
    if sign > 0:
        items[item] = None
    else:
        del items[item]


def apply_all(state: State, stored: Iterable[Event], log: str) -> State:
    """Apply all events of a log and return the state; log: the log's name, for errors."""
    for event in stored:
        try:
            apply(state, event)
        except (EverylabelError, *GARBLED) as error:
            what = f"event {event.seq}, {event.body.kind!r}, does not fit the events before it ({error})"
            raise Damaged(log, what) from error
    return state


def apply(state: State, event: Event) -> int | None:
    """Apply one event; return the item whose place in the pool may have changed."""
    state.seq = event.seq
    body, item = event.body, None
    if isinstance(body, events.OfItem):
        item = state.position.get(body.item)
    elif isinstance(body, events.Undo) and body.saved in state.history:
        item = state.history[body.saved].item
    if isinstance(body, events.OfItem) and item is None:
        state.absent.add(body.item)
    else:
        _apply(body, state, event, -1 if item is None else item)
    if event.key is not None:
        state.requests[event.key] = event
    return item


@singledispatch
def _apply(body: events.Body, state: State, event: Event, item: int) -> None:
    """Apply an event by its type; `item` is the position of the item it is about, -1 if there is none."""
    raise EverylabelError(f"event {event.seq} is of kind {body.kind!r}, which has no effect in reducer.py")


@_apply.register
def _(body: events.Retired | events.Sent, state: State, event: Event, item: int) -> None:
    pass  # `Sent` is only looked up by its key


@_apply.register
def _(body: events.Project, state: State, event: Event, item: int) -> None:
    _set_classes(state, state.book.added(body.classes))
    state.seed = body.seed
    state.settings.update(body.settings)


@_apply.register
def _(body: events.OfClasses, state: State, event: Event, item: int) -> None:
    if isinstance(body, events.ClassChanged) and body.imported and body.description is not None:
        state.imported_descriptions[body.class_] = body.description
    change = ClassChange(event.seq, body, state.book)
    state.class_changes = [] if event.person in ("", IMPORT) else [*state.class_changes, change]
    _set_classes(state, state.book.after(body))


@_apply.register
def _(body: events.Settings, state: State, event: Event, item: int) -> None:
    before = state.multi_label
    state.settings.update(events.to_row(body)[1])
    state.tally = Tally()  # the number of answers that an item needs may be another one
    for answered in state.answers:
        count(state, answered, 1)
    if state.multi_label != before:
        state.converted = state.book.present if state.multi_label else ()
        for answered in list(state.by_item):
            vote(state, answered)


@_apply.register
def _(body: events.Extended, state: State, event: Event, item: int) -> None:
    names = body.names
    if state.ids == names:
        return
    new = [name for name in names if name not in state.position]
    state.ids.extend([name for name in new if name in state.source])
    state.absent.update(name for name in new if name not in state.source)


@_apply.register
def _(body: events.Assessed, state: State, event: Event, item: int) -> None:
    state.assessed.append(body)


@_apply.register
def _(body: events.Generation, state: State, event: Event, item: int) -> None:
    state.generations.append(body)


@_apply.register
def _(body: events.Suggested, state: State, event: Event, item: int) -> None:
    if any(number not in range(len(state.classes)) for number in {*body.classes, *body.over}):
        raise EverylabelError("it suggests a class that never existed")
    scores = body.scores or [None] * len(body.items)
    probs = body.probabilities or [None] * len(body.items)
    of_source = state.suggestions.setdefault(body.source, {})
    for name, number, score, row in zip(body.items, body.classes, scores, probs, strict=True):
        by_class = {c: p for c, p in zip(body.over, row or (), strict=False) if p}
        of_source[name] = Suggestion(number, score, by_class)
    state.suggested_at = event.seq
    state.hidden_columns = list(dict.fromkeys([*state.hidden_columns, *body.columns]))
    state.n_changes += 1


@_apply.register
def _(body: events.Wish, state: State, event: Event, item: int) -> None:
    state.wishes.pop(body.class_, None)
    if body.checks:
        state.wishes[body.class_] = body.checks


@_apply.register
def _(body: events.Leased, state: State, event: Event, item: int) -> None:
    state.leases[event.person] = Lease(item, body.reason, event.at, body.by)
    state.last_lease[event.person, item] = event.seq
    if body.reason == "check" and not (body.again and item in state.checked):
        state.checked[item] = body
        if body.among in state.wishes:
            state.wishes[body.among] -= 1
            if not state.wishes[body.among]:
                del state.wishes[body.among]
    if body.reason in ("chosen", "check") and not body.again:
        state.handed += 1
    if body.expected is not None:
        state.curve[len(state.labels)] = body.expected


@_apply.register
def _(body: events.Release, state: State, event: Event, item: int) -> None:
    _release(state, event.person, item)


@_apply.register
def _(
    body: events.Label | events.MultiLabel | events.NoneOfThese | events.CannotTell,
    state: State,
    event: Event,
    item: int,
) -> None:
    unknown = [number for number in mentioned(state, body) if number not in range(len(state.classes))]
    if unknown:
        raise EverylabelError(f"it gives class {unknown[0]!r}, which never existed")
    _release(state, event.person, item)
    _record(state, body, event, item)
    vote(state, item)
    guess: int | tuple[int, ...] | None = None  # by the model, before it learned the answer
    if isinstance(body, events.MultiLabel):
        guess = None if body.guesses is None else tuple(body.guesses)
    elif isinstance(body, events.Guessed):
        guess = body.guess
    if body.check and guess is not None:
        lease = state.checked.get(item)
        among, share = (None, None) if lease is None else (lease.among, lease.share)
        state.checks[event.seq] = Check(item, guess, among, share or 1.0)


@_apply.register
def _(body: events.Not, state: State, event: Event, item: int) -> None:
    _record(state, body, event, item)
    state.doubted[item] = None
    state.n_changes += 1
    lease = state.leases.get(event.person)
    if lease is not None and lease.item == item:
        state.leases[event.person] = lease._replace(at=event.at)


@_apply.register
def _(body: events.Skip, state: State, event: Event, item: int) -> None:
    _release(state, event.person, item)
    _record(state, body, event, item)
    state.skipped[item] = [*state.skipped.pop(item, []), (event.seq, event.person)]  # newest skip last


@_apply.register
def _(body: events.ContentChanged, state: State, event: Event, item: int) -> None:
    if body.confirmed:
        state.withdrawn.pop(item, None)
    else:
        state.withdrawn[item] = event.seq
        for entry in state.by_item.get(item, ()):
            state.checks.pop(entry.seq, None)
        state.checked.pop(item, None)
    vote(state, item)


@_apply.register
def _(body: events.AutoLabel, state: State, event: Event, item: int) -> None:
    state.finished.pop(item, None)
    state.audits.pop(item, None)
    state.proposals.pop(item, None)
    label: Value | None = body.class_
    one_class = state.promise is not None and state.promise.class_ is not None
    if body.present is not None:
        label = ClassSet.of(body.present, state.book.present if body.absent is None else body.absent)
    if label is None:
        state.partly.pop(item, None)
    elif body.level is not None:
        state.proposals[item] = label, body.sure, body.level
    elif one_class and isinstance(label, ClassSet):
        state.partly[item] = state.partly.get(item, ClassSet()).then(label)
    else:
        state.finished[item] = label
    if body.audit:
        state.audits[item] = None


@_apply.register
def _(body: events.Missing, state: State, event: Event, item: int) -> None:
    if body.back:
        state.missing.pop(item, None)
    else:
        state.missing[item] = None
        by_model = (state.finished, state.partly, state.audits, state.proposals)
        for items in (state.skipped, state.checked, *by_model):
            items.pop(item, None)
        _release(state, state.holder.get(item, ""), item)
    vote(state, item)


@_apply.register
def _(body: events.HeldOut, state: State, event: Event, item: int) -> None:
    state.test[item] = None
    if item in state.answers:  # the model must no longer learn its label
        vote(state, item)


@_apply.register
def _(body: events.Undo, state: State, event: Event, item: int) -> None:
    for i, change in enumerate(state.class_changes):
        if change.seq == body.saved:
            del state.class_changes[i:]
            _set_classes(state, change.before.with_numbers_of(state.book))
            return
    undone = state.history.get(body.saved)
    if undone is None:  # its item is no longer in the source
        return
    state.undone.add(undone.seq)
    state.checks.pop(undone.seq, None)
    if isinstance(undone.body, events.Skip):
        others = [(seq, person) for seq, person in state.skipped.pop(item, []) if seq != undone.seq]
        if others:
            state.skipped[item] = others
    elif isinstance(undone.body, events.Not):
        state.n_changes += 1
    else:
        vote(state, item)


@_apply.register
def _(body: events.Promise, state: State, event: Event, item: int) -> None:
    state.promise = None if body.rate is None else body
    state.proposals = {}
    if body.kept:
        state.kept[body.class_] = body
    elif body.rate is None and not state.finished and not state.partly:
        state.kept = {}


def _set_classes(state: State, book: ClassBook) -> None:
    """Replace the classes, and vote again on items whose labels now count for another class."""
    before, state.book = state.book, book
    for number in book.order:
        is_new = number >= len(before.names) or number in before.removed
        if is_new or before.names[number] != book.names[number]:
            state.names[" ".join(book.names[number].split())] = number
    numbers = range(len(before.names))
    moved = {number for number in numbers if before.current(number) != book.current(number)}
    for item, entries in state.by_item.items() if moved else ():
        if any(not moved.isdisjoint(mentioned(state, e.body)) for e in entries):
            vote(state, item)


def mentioned(state: State, body: events.Answered) -> list[int]:
    """Return the classes that an answer says something about."""
    if isinstance(body, events.MultiLabel):
        return [*body.present, *body.absent]
    own = [body.class_] if isinstance(body, events.Label | events.Not) else []
    return [*own, *state.converted]


def _release(state: State, person: str, item: int) -> None:
    """End the person's lease of an item."""
    lease = state.leases.get(person)
    if lease is not None and lease.item == item:
        del state.leases[person]


def _record(state: State, body: events.Answered, event: Event, item: int) -> None:
    """Append an answer to the history."""
    entry = state.history[event.seq] = Entry(event.seq, event.at, event.person, item, body)
    state.by_item.setdefault(item, []).append(entry)
