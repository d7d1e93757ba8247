"""Who labelled what, who has what, which classes there are: a pure function of the events.

No model, no clock, no randomness: the same events give the same ledger. Items are known by their
place in the order in which they came; events of items that the source no longer has are kept and left alone.
Here is what it holds and what can be asked of it; `applying` has what events do to it.
"""

from array import array
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from everylabel.data.id_list import IdList
from everylabel.labelling import events
from everylabel.labelling.agreement import Agreement
from everylabel.labelling.answers import Answers
from everylabel.labelling.class_book import ClassBook
from everylabel.labelling.columns import Numbers
from everylabel.labelling.curve import Curve
from everylabel.labelling.events import Event
from everylabel.labelling.keys import Keys
from everylabel.labelling.record import LABEL, NONE_OF_THESE, NOT, SKIP, Record
from everylabel.labelling.records import (
    CANNOT_TELL,
    DEFAULTS,
    NONE,
    Answer,
    Check,
    ClassChange,
    Drawn,
    Entry,
    Lease,
    Place,
    Tally,
    bulk_of,
)
from everylabel.labelling.ruling_out import ruled_out
from everylabel.selection.pool import Where


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
    leases: dict[str, Lease] = field(default_factory=dict)
    holder: dict[int, str] = field(default_factory=dict)
    shown: dict[tuple[int, str], int] = field(default_factory=dict)  # item, person -> when handed out last
    skipped: dict[int, list[tuple[int, str]]] = field(default_factory=dict)  # item -> (event, person)
    done: dict[str, "array[int]"] = field(default_factory=dict)  # person -> events that can be taken back
    doubted: dict[int, None] = field(default_factory=dict)  # items that somebody said a class is not that of
    undone: set[int] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)  # items that events are of and the source no longer has
    aside: dict[int, int] = field(default_factory=dict)  # item -> event up to which answers are set aside
    changed: dict[int, int] = field(default_factory=dict)  # item -> event since which its content is another
    finished: dict[int, int] = field(default_factory=dict)  # item -> class that the model has given
    audits: dict[int, None] = field(default_factory=dict)  # of them, those to be confirmed by people
    left: dict[int, None] = field(default_factory=dict)  # items that are no more where they came from
    bulks: dict[int, "array[int]"] = field(default_factory=dict)  # first event -> all given at once with it
    keys: Keys = field(default_factory=Keys)
    requests: dict[int, Event] = field(default_factory=dict)  # events with a key that are not on record
    checks: dict[int, Check] = field(default_factory=dict)  # by the number of their event
    checked: dict[int, Drawn] = field(default_factory=dict)  # items that were handed out as checks
    wishes: dict[int, int] = field(default_factory=dict)  # classes to test more, and how many checks yet
    test: dict[int, None] = field(default_factory=dict)  # items that are never learned from
    test_labels: dict[int, int] = field(default_factory=dict)  # and the class of those that have one
    curve: Curve = field(default_factory=Curve)  # labels, mean largest probability
    assessed: list[events.Assessed] = field(default_factory=list)
    handed: int = 0  # items picked by the strategy or at random
    labels: Numbers = field(default_factory=Numbers)  # item -> class, what is learned
    first: Numbers = field(default_factory=Numbers)  # of each of these, the first that stands: on record
    tally: Tally = field(default_factory=Tally)  # kept by `apply`
    n_changes: int = 0  # of labels, so far
    n_answers: int = 0
    by_person: Counter[str] = field(default_factory=Counter)  # answers of each
    by_class: Counter[int] = field(default_factory=Counter)  # items of each
    agreement: Agreement = field(default_factory=Agreement)
    wanting: dict[int, None] = field(default_factory=dict)  # items that want another person's answer
    not_wanted: Counter[str] = field(default_factory=Counter)  # how many of those each has answered
    disputed: dict[int, None] = field(default_factory=dict)  # items on which no class has most voices
    trained: int = 0  # the last event that a model was trained on
    told_by: int | None = None  # how many items told the scale last, if a training says
    joined: bool = False  # whether the log says who joined

    def __post_init__(self) -> None:
        self.ids = IdList(self.given)  # of all that have come, in that order
        self.position = self.ids.position
        self.history = Record(self.ids)  # answers and skips, in order
        self.answers = Answers(self.history)  # those that stand, by item

    @property
    def classes(self) -> list[str]:
        """The names of all classes there ever were, by number."""
        return self.book.names

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the classes that the model knows, in the order of its columns; NONE is the last."""
        return (*self.book.present, NONE) if self.by_class[NONE] else self.book.present

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
        return self.history.entry(done[-1]) if done else None

    def entry(self, seq: int) -> Entry | None:
        """Return an answer on record by the number of its event."""
        return self.history.entry(seq)

    def sent(self, key: str) -> Entry | Event | None:
        """Return what the request with this key led to."""
        seq = self.keys.get(key)
        return None if seq is None else self.led_to(seq)

    def led_to(self, seq: int) -> Entry | Event | None:
        """Return what a request led to by the number of its event."""
        return self.requests.get(seq) or self.history.entry(seq)

    def given_with(self, entry: Entry) -> list[int]:
        """Return the events that were given at once with an answer and still stand, itself among them."""
        first = bulk_of(entry)
        together = [entry.seq] if first is None else self.bulks[first].tolist()
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

    def meanwhile(self, item: int, seq: int) -> list[Answer]:
        """Return what was said of an item after it was shown to a person and before event `seq`, theirs."""
        place = self.history.place_of(seq)
        return [] if place is None else self.standing(item, self.history.shown(place), seq)

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
        return [check for check in self.checks.values() if check.item in self.labels]

    def foretold(self) -> dict[int, tuple[int, float]]:
        """Return what the model said of each labelled item, and how sure it was, before it learned its label.

        That is with the first answer that stands: those who answer again ask a model that knows.
        """
        return Foretold.of(self).found()

    def n_cannot_tell(self) -> int:
        return len(self.answers) - len(self.labels) - len(self.test_labels)

    def lost(self, item: int) -> bool:
        """Return whether an item had a label whose class was removed."""
        record = self.history
        standing = [i for i in record.places(item) if record.seq[i] not in self.undone]
        return any(self.value_at(i) is None for i in standing)

    def _valid(self, item: int) -> list[Entry]:
        """Return what was said of an item and neither taken back nor set aside with other content."""
        after = self.aside.get(item, 0)
        return [each for each in self.history.of(item) if each.seq > after and each.seq not in self.undone]

    def stands(self, item: int, place: int) -> bool:
        """Return whether there is an answer on record neither taken back nor set aside, of an item there."""
        record = self.history
        seq, said = record.seq[place], record.kind[place]
        old = seq <= self.aside.get(item, 0) or seq in self.undone
        return not old and said != SKIP and said != NOT and item not in self.left

    def value_at(self, place: int) -> int | None:
        """Return what an answer on record says by the classes of now; see `value_of`."""
        kind = self.history.kind[place]
        if kind == LABEL:
            return self.book.now(self.history.class_[place])
        return NONE if kind == NONE_OF_THESE else CANNOT_TELL

    def standing(self, item: int, after: int = 0, before: float = np.inf) -> list[Answer]:
        """Return each person's last answer between two events that stands, from the record.

        It does not if it was taken back or set aside because the content changed, or if its class is gone.
        """
        record, last = self.history, dict[int, int]()
        for place in record.places(item):
            if after < record.seq[place] < before and self.stands(item, place):
                last[record.person[place]] = place
        values = [(place, self.value_at(place)) for place in last.values()]
        found = [
            Answer(record.seq[place], record.people[record.person[place]], value)
            for place, value in values
            if value is not None
        ]
        return found if len(found) < 2 else sorted(found)


class Foretold(NamedTuple):
    """What the model said with the first answers to items, in copies; see `Ledger.foretold`."""

    items: np.ndarray
    guesses: np.ndarray  # -1: none
    sure: np.ndarray  # NaN: unknown
    book: ClassBook

    @classmethod
    def of(cls, ledger: Ledger) -> "Foretold":
        """Copy what a ledger says now."""
        first = ledger.first.as_dict()
        places = np.fromiter(first.values(), np.intp, len(first))
        return cls(np.fromiter(first, np.intp, len(first)), *ledger.history.foretold(places), ledger.book)

    def found(self) -> dict[int, tuple[int, float]]:
        """Return guess and how sure by item, by the classes of now; -1 is no class of now."""
        known = ~np.isnan(self.sure)
        now = {guess: self.book.now(guess) for guess in np.unique(self.guesses[known]).tolist()}
        said = zip(self.items[known], self.guesses[known], self.sure[known], strict=True)
        return {
            int(item): (-1 if (guess := now[int(before)]) is None else guess, float(sure))
            for item, before, sure in said
        }
