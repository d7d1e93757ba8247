"""Who labelled what, who has what, which classes there are: a pure function of the events.

No model, no clock, no randomness: the same events give the same ledger. Items are known by their
place in the order in which they came; events of items that the source no longer has are kept and left alone.
"""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.labelling import events
from everylabel.labelling.agreement import Agreement
from everylabel.labelling.class_book import ClassBook
from everylabel.labelling.events import Event
from everylabel.labelling.naming import unpacked
from everylabel.labelling.ruling_out import ruled_out
from everylabel.selection.pool import Where
from everylabel.selection.strategies import DEFAULT

DEFAULTS: dict[str, Any] = {
    "strategy": DEFAULT,
    "check_every": 10,  # one in ten is drawn at random and scored before it is learned from
    "annotators_per_item": 1,
    "lease_seconds": 600,
    "names": True,  # class names teach, where the encoder of the texts knows words
    "tester": "",  # who labels the test set; everybody unless one is named
}
CANNOT_TELL = -1
NONE = -2  # none of the classes: to the model a class of its own, which nobody sees and nothing exports
IMPORT = "import"  # the person whose answers came with the source or from a file


class Place(NamedTuple):
    """What an item is to the model: where it is, and its class if it is labelled."""

    where: Where
    label: int | None = None
    ruled_out: frozenset[int] = frozenset()  # the classes that it is not of, if it has no label


class Lease(NamedTuple):
    """An item that is with a person."""

    item: int
    reason: str
    at: float
    by: str = ""  # which strategy chose it in fact


class Answer(NamedTuple):
    """A person's answer: a class number, or CANNOT_TELL."""

    seq: int
    person: str
    value: int


class Entry(NamedTuple):
    """An answer or a skip on record."""

    seq: int
    at: float
    person: str
    item: int
    body: events.Answered


class Check(NamedTuple):
    """A random check: what the model said of an item before it learned, and what it was drawn from."""

    seq: int
    item: int
    guess: int
    among: int | None = None  # the class it was predicted as, if it was drawn among those
    share: float = 1.0  # of what was free that was predicted so


class ClassChange(NamedTuple):
    """A change of classes by a person, and the classes before."""

    seq: int
    body: events.OfClasses
    before: ClassBook


@dataclass(eq=False)
class Ledger:
    """The state that the events add up to."""

    given: Sequence[str]  # ids of the items that are there from the start
    source: Container[str] | None = None  # ids that can join: those that have features; None: no others
    seq: int = 0
    book: ClassBook = field(default_factory=ClassBook)  # the classes
    class_changes: list[ClassChange] = field(default_factory=list)  # that can be taken back, the last first
    names: dict[str, int] = field(default_factory=dict)  # every name that a class has or had -> its number
    phrases: dict[int, tuple[str, ...]] = field(default_factory=dict)  # of a class, that have vectors
    encoders: dict[int, str] = field(default_factory=dict)  # which one made them
    vectors: dict[int, np.ndarray] = field(default_factory=dict)
    n_names: int = 0  # changes of vectors, so far
    imported_descriptions: dict[int, str] = field(default_factory=dict)  # as a file had them last
    names_hold: bool = True  # the labels bear the names out, as far as was looked
    settings: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    seed: int = 0
    answers: dict[int, list[Answer]] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    holder: dict[int, str] = field(default_factory=dict)
    shown: dict[tuple[int, str], int] = field(default_factory=dict)  # item, person -> when handed out last
    skipped: dict[int, list[tuple[int, str]]] = field(default_factory=dict)  # item -> (event, person)
    done: dict[str, list[int]] = field(default_factory=dict)  # person -> events that can be taken back
    history: list[Entry] = field(default_factory=list)  # answers and skips, in order
    doubted: dict[int, None] = field(default_factory=dict)  # items that somebody said a class is not that of
    undone: set[int] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)  # items that events are of and the source no longer has
    aside: dict[int, int] = field(default_factory=dict)  # item -> event up to which answers are set aside
    finished: dict[int, int] = field(default_factory=dict)  # item -> class that the model has given
    audits: dict[int, None] = field(default_factory=dict)  # of them, those to be confirmed by people
    left: dict[int, None] = field(default_factory=dict)  # items that are no more where they came from
    bulks: dict[int, list[int]] = field(default_factory=dict)  # first event -> all that were given at once
    keys: dict[str, Event] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    checked: dict[int, events.Out] = field(default_factory=dict)  # items that were handed out as checks
    wishes: dict[int, int] = field(default_factory=dict)  # classes to test more, and how many checks yet
    test: dict[int, None] = field(default_factory=dict)  # items that are never learned from
    test_labels: dict[int, int] = field(default_factory=dict)  # and the class of those that have one
    curve: list[tuple[int, float]] = field(default_factory=list)  # labels, mean largest probability
    assessed: list[events.Assessed] = field(default_factory=list)
    handed: int = 0  # items picked by the strategy or at random
    labels: dict[int, int] = field(default_factory=dict)  # item -> class, what is learned
    n_changes: int = 0  # of labels, so far
    n_answers: int = 0
    by_person: Counter[str] = field(default_factory=Counter)  # answers of each
    by_class: Counter[int] = field(default_factory=Counter)  # items of each
    agreement: Agreement = field(default_factory=Agreement)
    wanting: dict[int, None] = field(default_factory=dict)  # items that want another person's answer
    not_wanted: Counter[str] = field(default_factory=Counter)  # how many of those each has answered
    disputed: dict[int, None] = field(default_factory=dict)  # items on which no class has most voices

    def __post_init__(self) -> None:
        self.ids = list(self.given)  # of all that have come, in that order
        self.position = {name: i for i, name in enumerate(self.ids)}
        self._apply = self._take  # looked up once: a log has many events
        self._entries: dict[int, Entry] = {}
        self._by_item: dict[int, list[Entry]] = {}

    @property
    def classes(self) -> list[str]:
        """The names of all classes there ever were, by number."""
        return self.book.names

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the classes that the model knows, in the order of its columns; NONE is the last."""
        return (*self.book.present, NONE) if self.by_class[NONE] else self.book.present

    def apply(self, event: Event) -> int | None:
        """Take in one event; return the item whose place in the model may have changed."""
        self.seq = event.seq
        if event.key is not None:
            self.keys[event.key] = event
        if not isinstance(event.body, events.OfItem):
            return self._apply(event.body, event, -1)
        item = self.position.get(event.body.item)
        if item is None:
            self.absent.add(event.body.item)
        else:
            self._apply(event.body, event, item)
        return item

    def place(self, item: int) -> Place:
        """Return what the item is to the model: labelled, out with a person, set aside, or free."""
        if item in self.test or item in self.left:
            return Place(Where.ASIDE)
        if item in self.labels:
            return Place(Where.LABELLED, self.labels[item])
        where = Where.FREE
        if item in self.holder:
            where = Where.OUT
        elif item in self.answers or item in self.skipped or item in self.finished:
            where = Where.ASIDE
        return Place(where, None, self.ruled_out(item))

    def ruled_out(self, item: int, person: str | None = None) -> frozenset[int]:
        """Return the classes of now that people (or one of them) say an item is not of."""
        return ruled_out(self._valid(item), self.book, person) if item in self.doubted else frozenset()

    def first_doubt(self, item: int) -> events.Not | None:
        """Return the first that was said an item is not: it has what the model said before."""
        said = (entry.body for entry in self._valid(item)) if item in self.doubted else ()
        return next((body for body in said if isinstance(body, events.Not)), None)

    def to_teach(self) -> dict[int, np.ndarray]:
        """Return the vectors of names that teach if the labels bear them out, by class."""
        here = set(self.book.order) if self.settings["names"] else ()
        return {number: some for number, some in self.vectors.items() if number in here}

    def teaching(self) -> dict[int, np.ndarray]:
        """Return the vectors of names that teach now, by class."""
        return self.to_teach() if self.names_hold else {}

    def last(self, person: str) -> Entry | None:
        """Return the person's last answer that is not taken back."""
        done = self.done.get(person)
        return self._entries[done[-1]] if done else None

    def entry(self, seq: int) -> Entry | None:
        """Return an answer on record by the number of its event."""
        return self._entries.get(seq)

    def given_with(self, entry: Entry) -> list[int]:
        """Return the events that were given at once with an answer and still stand, itself among them."""
        first = bulk_of(entry)
        together = [entry.seq] if first is None else self.bulks[first]
        return [seq for seq in together if seq not in self.undone]

    def answer_of(self, item: int, person: str) -> int | None:
        """Return this person's own answer."""
        own = [answer.value for answer in self.answers.get(item, []) if answer.person == person]
        return own[-1] if own else None

    def value_of(self, body: events.Answered) -> int | None:
        """Return what an answer says by the classes of now: a class, NONE, CANNOT_TELL, or None if gone."""
        if isinstance(body, events.Label):
            return self.book.now(body.class_)
        return NONE if isinstance(body, events.NoneOfThese) else CANNOT_TELL

    def meanwhile(self, item: int, person: str, seq: int) -> list[Answer]:
        """Return what was said of an item after it was shown to the person and before event `seq`, theirs."""
        return self._given(item, self.shown.get((item, person), 0), seq)

    def was_skipped(self, item: int, person: str) -> bool:
        """Return whether this person has skipped the item."""
        return any(who == person for _, who in self.skipped.get(item, []))

    def set_aside(self) -> list[int]:
        """Return items whose content changed after they were answered, and that have no answer since."""
        return [item for item in self.aside if item not in self.answers]

    def label_of(self, item: int) -> int | None:
        """Return the class of an item, whether it is learned from or tested by."""
        return self.labels.get(item, self.test_labels.get(item))

    def standing_checks(self) -> list[Check]:
        """Return the random checks whose item has a label now."""
        return [check for check in self.checks if check.item in self.labels]

    def foretold(self) -> dict[int, tuple[int, float]]:
        """Return what the model said of each labelled item, and how sure it was, before it learned its label.

        That is with the first answer that stands: those who answer again ask a model that knows.
        """
        found: dict[int, tuple[int, float]] = {}
        for item in self.labels:
            first = next(entry for entry in self._by_item[item] if self._stands(entry))
            if isinstance(first.body, events.Label) and first.body.sure is not None:
                guess = None if first.body.guess is None else self.book.now(first.body.guess)
                found[item] = -1 if guess is None else guess, first.body.sure  # -1: no class of now
        return found

    def n_unanswered_checks(self) -> int:
        """Return how many checks were skipped, left or could not be told."""
        return sum(
            item not in self.labels and item not in self.holder and not self._lost(item)
            for item in self.checked
        )

    def n_cannot_tell(self) -> int:
        return len(self.answers) - len(self.labels) - len(self.test_labels)

    @singledispatchmethod
    def _take(self, body: events.Body, event: Event, item: int) -> int | None:
        """Apply what an event says, by its type; return an item that it is about without naming it."""
        raise EverylabelError(f"event {event.seq} is of kind {body.kind!r}; the ledger cannot apply it")

    @_take.register
    def _(self, body: events.Project, event: Event, item: int) -> None:
        self._take_classes(self.book.added(body.classes))
        self.seed = body.seed
        self.settings.update(body.settings)

    @_take.register
    def _(self, body: events.OfClasses, event: Event, item: int) -> None:
        if isinstance(body, events.Describe) and body.imported:
            self.imported_descriptions[body.class_] = body.text
        change = ClassChange(event.seq, body, self.book)
        self.class_changes = [] if event.person in ("", IMPORT) else [*self.class_changes, change]
        self._take_classes(self.book.after(body))

    @_take.register
    def _(self, body: events.UndoClasses, event: Event, item: int) -> None:
        undone = next(change for change in self.class_changes if change.seq == body.saved)
        self.class_changes = self.class_changes[: self.class_changes.index(undone)]
        self._take_classes(undone.before.with_numbers_of(self.book))

    @_take.register
    def _(self, body: events.Named, event: Event, item: int) -> None:
        self._unname(body.class_)
        if body.phrases:
            self.phrases[body.class_] = tuple(body.phrases)
            self.encoders[body.class_] = body.encoder
            self.vectors[body.class_] = unpacked(body.vectors, len(body.phrases))

    @_take.register
    def _(self, body: events.Settings, event: Event, item: int) -> None:
        for answered in self.answers:
            self._count(answered, -1)
        self.settings.update(events.to_row(body)[1])
        for answered in self.answers:
            self._count(answered, 1)

    @_take.register
    def _(self, body: events.Refit, event: Event, item: int) -> None:
        self.names_hold = self.names_hold if body.names is None else body.names

    @_take.register
    def _(self, body: events.Sent, event: Event, item: int) -> None:
        pass  # who asks for it finds it by its key

    @_take.register
    def _(self, body: events.Extended, event: Event, item: int) -> None:
        for name in body.ids:
            if name in self.position:
                continue
            if self.source is not None and name in self.source:
                self.position[name] = len(self.ids)
                self.ids.append(name)
            else:
                self.absent.add(name)

    @_take.register
    def _(self, body: events.Assessed, event: Event, item: int) -> None:
        self.assessed.append(body)

    @_take.register
    def _(self, body: events.Out, event: Event, item: int) -> None:
        self.leases[event.person] = Lease(item, body.reason, event.at, body.by)
        self.holder[item] = event.person
        self.shown[item, event.person] = event.seq
        if body.reason == "check" and not (body.again and item in self.checked):
            self.checked[item] = body
            self._fulfil(body.among)
        if body.reason in ("chosen", "check") and not body.again:
            self.handed += 1
        if body.expected is not None:
            self.curve.append((len(self.labels), body.expected))

    @_take.register
    def _(self, body: events.Release, event: Event, item: int) -> None:
        self._release(event.person, item)

    @_take.register
    def _(self, body: events.Label | events.NoneOfThese, event: Event, item: int) -> None:
        if isinstance(body, events.Label) and body.class_ not in range(len(self.classes)):
            raise EverylabelError(f"event {event.seq} gives class {body.class_!r}, which never was")
        self._record(body, event, item)
        if isinstance(body, events.Label) and body.bulk is not None:
            self.bulks.setdefault(body.bulk, []).append(event.seq)
        self._settle(item, self._given(item))
        if body.check and body.guess is not None:
            out = self.checked.get(item)
            among = (None, None) if out is None else (out.among, out.share)
            self.checks.append(Check(event.seq, item, body.guess, among[0], among[1] or 1.0))

    @_take.register
    def _(self, body: events.CannotTell, event: Event, item: int) -> None:
        self._record(body, event, item)
        self._settle(item, self._given(item))

    @_take.register
    def _(self, body: events.Not, event: Event, item: int) -> None:
        self._note(body, event, item)
        self.doubted[item] = None
        self.n_changes += 1
        lease = self.leases.get(event.person)
        if lease is not None and lease.item == item:
            self.leases[event.person] = lease._replace(at=event.at)

    @_take.register
    def _(self, body: events.Skip, event: Event, item: int) -> None:
        self._record(body, event, item)
        self.skipped[item] = [*self.skipped.pop(item, []), (event.seq, event.person)]  # the last comes last

    @_take.register
    def _(self, body: events.Changed, event: Event, item: int) -> None:
        self.aside[item] = event.seq
        self.checks = [check for check in self.checks if check.item != item]
        self.checked.pop(item, None)
        self._settle(item, self._given(item))

    @_take.register
    def _(self, body: events.Confirmed, event: Event, item: int) -> None:
        self.aside.pop(item, None)
        self._settle(item, self._given(item))

    @_take.register
    def _(self, body: events.Wish, event: Event, item: int) -> None:
        self.wishes.pop(body.class_, None)
        if body.checks:
            self.wishes[body.class_] = body.checks

    @_take.register
    def _(self, body: events.Finished, event: Event, item: int) -> None:
        self.finished[item] = body.class_
        if body.audit:
            self.audits[item] = None

    @_take.register
    def _(self, body: events.Unfinished, event: Event, item: int) -> None:
        self.finished.pop(item, None)
        self.audits.pop(item, None)

    @_take.register
    def _(self, body: events.Left, event: Event, item: int) -> None:
        if body.back:
            self.left.pop(item, None)
        else:
            self.left[item] = None
            for known in (self.skipped, self.finished, self.audits, self.checked):
                known.pop(item, None)
            self._release(self.holder.get(item, ""), item)
        self._settle(item, self._given(item))

    @_take.register
    def _(self, body: events.HeldOut, event: Event, item: int) -> None:
        answers = self.answers.get(item, [])
        if answers:  # what was learned from it is learned no more
            self._settle(item, [])
        self.test[item] = None
        if answers:
            self._settle(item, answers)

    @_take.register
    def _(self, body: events.Undo, event: Event, item: int) -> int | None:
        undone = self._entries.get(body.saved)
        if undone is None:  # of an item that the source no longer has
            return None
        self.undone.add(undone.seq)
        self.done[undone.person].remove(undone.seq)
        self.checks = [check for check in self.checks if check.seq != undone.seq]
        if isinstance(undone.body, events.Skip):
            left = [entry for entry in self.skipped.pop(undone.item, []) if entry[0] != undone.seq]
            if left:
                self.skipped[undone.item] = left
        elif isinstance(undone.body, events.Not):
            self.n_changes += 1
        else:
            self._settle(undone.item, self._given(undone.item))
        return undone.item

    def _lost(self, item: int) -> bool:
        """Return whether an item had a label whose class was removed."""
        standing = (entry.body for entry in self._by_item.get(item, ()) if entry.seq not in self.undone)
        return any(self.value_of(body) is None for body in standing)

    def _fulfil(self, among: int | None) -> None:
        """Count a check of a class that is to be tested more."""
        if among in self.wishes:
            self.wishes[among] -= 1
            if not self.wishes[among]:
                del self.wishes[among]

    def _unname(self, number: int) -> None:
        """Take away what a class's name was to an encoder."""
        self.n_names += 1
        for known in (self.phrases, self.encoders, self.vectors):
            known.pop(number, None)

    def _take_classes(self, book: ClassBook) -> None:
        """Go on with other classes; where labels of a class go elsewhere now, all are counted anew."""
        before, self.book = self.book, book
        known = dict(enumerate(before.names))
        for number in book.order:
            if known.get(number) != book.names[number]:
                self.phrases.pop(number, None)  # the old vectors teach until there are new ones
            if known.get(number) != book.names[number] or number in before.removed:
                self.names[" ".join(book.names[number].split())] = number
        moved = {number for number in known if before.now(number) != book.now(number)}
        if before.order and before.removed != book.removed:
            self.n_names += 1
        for item, entries in self._by_item.items() if moved else ():
            if any(isinstance(entry.body, events.Label) and entry.body.class_ in moved for entry in entries):
                self._settle(item, self._given(item))

    def _release(self, person: str, item: int) -> None:
        lease = self.leases.get(person)
        if lease is not None and lease.item == item:
            del self.leases[person]
            del self.holder[item]

    def _record(self, body: events.Answered, event: Event, item: int) -> None:
        """Put an answer on record, and take the item back from the person."""
        self._release(event.person, item)
        self._note(body, event, item)

    def _note(self, body: events.Answered, event: Event, item: int) -> None:
        """Put on record what was said of an item."""
        entry = Entry(event.seq, event.at, event.person, item, body)
        self._entries[event.seq] = entry
        self._by_item.setdefault(item, []).append(entry)
        self.history.append(entry)
        self.done.setdefault(event.person, []).append(event.seq)

    def _valid(self, item: int) -> list[Entry]:
        """Return what was said of an item and neither taken back nor set aside with other content."""
        after = self.aside.get(item, 0)
        return [each for each in self._by_item[item] if each.seq > after and each.seq not in self.undone]

    def _stands(self, entry: Entry) -> bool:
        """Return whether it is an answer neither taken back nor set aside, of an item that is there."""
        old = entry.seq <= self.aside.get(entry.item, 0) or entry.seq in self.undone
        said = isinstance(entry.body, events.Skip | events.Not)
        return not old and not said and entry.item not in self.left

    def _given(self, item: int, after: int = 0, before: float = np.inf) -> list[Answer]:
        """Return each person's last answer between two events that stands, from the record.

        It does not if it was taken back or set aside because the content changed, or if its class is gone.
        """
        last: dict[str, Entry] = {}
        for entry in self._by_item.get(item, []):
            if after < entry.seq < before and self._stands(entry):
                last[entry.person] = entry
        values = ((entry, self.value_of(entry.body)) for entry in last.values())
        return sorted(Answer(entry.seq, entry.person, value) for entry, value in values if value is not None)

    def _settle(self, item: int, answers: list[Answer]) -> None:
        """Learn what most people say; of a tie, what a person said last, before what was imported.

        Where somebody speaks for all, only such answers count.
        """
        self._count(item, -1)
        told = sorted(answers, key=lambda answer: (answer.person != IMPORT, answer.seq))
        told = [answer for answer in told if self._is_truth(answer)] or told
        values = [answer.value for answer in told if answer.value != CANNOT_TELL]
        labels = self.test_labels if item in self.test else self.labels
        if values:
            counts = Counter(values)
            most = max(counts.values())
            labels[item] = next(value for value in reversed(values) if counts[value] == most)
        else:
            labels.pop(item, None)
        self.answers[item] = answers
        self._count(item, 1)
        if not answers:
            del self.answers[item]
        self.n_changes += 1

    def _is_truth(self, answer: Answer) -> bool:
        """Return whether an answer speaks for all."""
        body = self._entries[answer.seq].body
        return isinstance(body, events.Label) and body.truth

    def _count(self, item: int, sign: int) -> None:
        """Add an item's answers to the counts, or take them off."""
        answers = self.answers.get(item, [])
        self.n_answers += sign * len(answers)
        for answer in answers:
            self.by_person[answer.person] += sign
        if item in self.labels:
            self.by_class[self.labels[item]] += sign
        values = [answer.value for answer in answers if answer.value != CANNOT_TELL]
        self.agreement.add(values, sign)
        if len(values) > 1 and is_tied(values):
            _mark(self.disputed, item, sign)
        if 0 < len(answers) < self.settings["annotators_per_item"]:
            for answer in answers:
                self.not_wanted[answer.person] += sign
            _mark(self.wanting, item, sign)


def bulk_of(entry: Entry | None) -> int | None:
    """Return the first event of those that an answer was given with, if it was given to many at once."""
    return entry.body.bulk if entry is not None and isinstance(entry.body, events.Label) else None


def is_tied(values: Sequence[int]) -> bool:
    """Return whether no value has most voices."""
    most = [count for _, count in Counter(values).most_common(2)]
    return len(most) == 2 and most[0] == most[1]


def _mark(items: dict[int, None], item: int, sign: int) -> None:
    """Take an item in, as the latest, or take it out (sign -1)."""
    if sign > 0:
        items[item] = None
    else:
        del items[item]
