"""The state of a project: who labelled what, who has which item, which classes exist.

It is a pure function of the events of the log: no model, no clock, no randomness. An item's number is its
position in the order in which items joined. `reducer` applies events; this module answers questions. A
`LabelSet` is a copy of all labels at one moment, for an export or for training on any thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from everylabel.data.items import IdList, Numbered, id_list, stored_ids
from everylabel.labelling.state.types import (
    AUTO,
    CANNOT_TELL,
    DEFAULTS,
    FREE,
    GIVEN,
    NONE,
    Answer,
    Check,
    ClassBook,
    ClassChange,
    ClassSet,
    Entry,
    FirstAnswer,
    Items,
    Lease,
    Place,
    Refused,
    Suggestion,
    Suggestions,
    Tally,
    Value,
    bulk_of,
    check_weights,
)
from everylabel.log import events
from everylabel.log.events import Body, Event
from everylabel.selection.pool import Where


@dataclass(eq=False)
class State:
    """The state after all events so far; all fields are plain data, so that `digest` can hash them."""

    # items
    ids: Any = ()  # IdList of the items that joined, in that order; any sequence is accepted
    absent: set[str] = field(default_factory=set)  # items with events that the source no longer has
    missing: Items = field(default_factory=dict)  # items that are gone from their source
    test: Items = field(default_factory=dict)  # the test set

    # the project
    seq: int = 0  # number of the last event
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    requests: dict[str, Event] = field(default_factory=dict)  # key of a request -> its event

    # classes
    book: ClassBook = field(default_factory=ClassBook)
    names: dict[str, int] = field(default_factory=dict)  # every name that a class has or had -> its number
    class_changes: list[ClassChange] = field(default_factory=list)  # changes that can be undone, oldest first
    imported_descriptions: dict[int, str] = field(default_factory=dict)  # as last read from a file
    converted: tuple[int, ...] = ()  # classes at the conversion to multi-label: older labels deny the others

    # leases
    leases: dict[str, Lease] = field(default_factory=dict)  # by person
    last_lease: dict[tuple[str, int], int] = field(default_factory=dict)  # (person, item) -> event number
    handed: int = 0  # number of leases of items chosen by the strategy or drawn at random

    # answers of people
    history: dict[int, Entry] = field(default_factory=dict)  # all answers by event number, undone ones too
    undone: set[int] = field(default_factory=set)  # event numbers
    withdrawn: dict[int, int] = field(default_factory=dict)  # item -> event up to which answers do not count
    skipped: dict[int, list[tuple[int, str]]] = field(default_factory=dict)  # item -> (event, person)
    doubted: Items = field(default_factory=dict)  # items for which somebody ruled out a class

    # their result: standing answers, labels and counts
    answers: dict[int, list[Answer]] = field(default_factory=dict)  # item -> standing answers
    labels: dict[int, Value] = field(default_factory=dict)  # item -> label that the model learns
    test_labels: dict[int, Value] = field(default_factory=dict)
    n_changes: int = 0  # number of label changes so far
    tally: Tally = field(default_factory=Tally)

    # labels by the model
    finished: dict[int, Value] = field(default_factory=dict)  # auto-labelled item -> label
    partly: dict[int, ClassSet] = field(default_factory=dict)  # free item -> classes that the model answered
    audits: Items = field(default_factory=dict)  # auto-labelled items that people should confirm
    # item -> the label that the model proposes, its probability, the item's level in the certificate
    proposals: dict[int, tuple[Value, float, int]] = field(default_factory=dict)
    promise: events.Promise | None = None  # the last promise of an error rate; None: none, or ended
    kept: dict[int | None, events.Promise] = field(default_factory=dict)  # of auto-labels; by class, or None

    # accuracy and fine-tuning
    checked: dict[int, events.Leased] = field(default_factory=dict)  # item -> its lease as a random check
    checks: dict[int, Check] = field(default_factory=dict)  # answered random checks by event number
    wishes: dict[int, int] = field(default_factory=dict)  # class -> further checks still wanted
    curve: dict[int, float] = field(default_factory=dict)  # number of labels -> mean largest probability
    assessed: list[events.Assessed] = field(default_factory=list)  # estimates of the accuracy, oldest first
    generations: list[events.Generation] = field(default_factory=list)  # attempts to fine-tune the encoder

    # sources that are not fully trusted
    suggestions: dict[str, dict[str, Suggestion]] = field(default_factory=dict)  # source -> item
    suggested_at: int = 0  # number of the last event with suggestions
    hidden_columns: list[str] = field(default_factory=list)  # columns of the source that hold suggestions

    def __post_init__(self) -> None:
        self.ids = self.ids if isinstance(self.ids, Numbered) else IdList(self.ids)
        self.source: Container[str] = self.ids.position  # ids that can join: the items with features
        self.by_item: dict[int, list[Entry]] = {}  # the history of each item
        self._suggested: tuple[Any, tuple[Suggestions, ...]] = None, ()  # cached result, after its key

    @property
    def position(self) -> Any:
        """The position of each item by its id."""
        return self.ids.position

    @property
    def classes(self) -> list[str]:
        """The names of all classes that ever existed, by number."""
        return self.book.names

    @property
    def holder(self) -> dict[int, str]:
        """The person who has leased an item, by item."""
        return {lease.item: person for person, lease in self.leases.items()}

    @property
    def n_answers(self) -> int:
        """The number of standing answers."""
        return self.tally.by_person.total()

    @property
    def columns(self) -> tuple[int, ...]:
        """The class number of each column of the model; NONE comes last, if any item belongs to no class."""
        return (*self.book.present, NONE) if self.tally.by_class[NONE] else self.book.present

    def place(self, item: int) -> Place:
        """Return the item's place in the pool, with class numbers."""
        if item in self.test or item in self.missing:
            return Place(Where.EXCLUDED)
        if item in self.labels:
            return Place(Where.LABELLED, self.labels[item])
        where = Where.FREE
        if item in self.holder:
            where = Where.LEASED
        elif item in self.answers or item in self.skipped or self.by_model(item) is not None:
            where = Where.EXCLUDED
        return Place(where, None, self.ruled_out(item))

    def by_model(self, item: int) -> Value | None:
        """Return the label of an auto-labelled item, mapped to the current classes; None if it has none."""
        value = self.finished.get(item)
        return None if value is None else self.current(value)

    def classes_by_model(self, item: int) -> ClassSet | None:
        """Return the classes that the model answered for an item that nobody has answered.

        The item stays in the pool: people may be asked about its other classes.
        """
        value = None if item in self.answers else self.partly.get(item)
        return None if value is None else value.current(self.book)

    @property
    def confirmation(self) -> events.Promise | None:
        """The promise for which people confirm labels now; None without one, or if its class was removed."""
        promise = self.promise
        if promise is None or promise.kept or promise.class_ not in (None, *self.book.order):
            return None
        return promise

    def labelled_by_model(self) -> list[int]:
        """Return the auto-labelled items whose classes remain."""
        return [item for item in self.finished if self.by_model(item) is not None]

    def current(self, value: Value) -> Value | None:
        """Return a label mapped to the current classes; None if none of its classes remain."""
        return value.current(self.book) if isinstance(value, ClassSet) else self.book.current(value)

    def placed(self) -> list[int]:
        """Return all items that are not free."""
        items = {*self.holder, *self.answers, *self.skipped, *self.test, *self.finished, *self.missing}
        return [item for item in sorted(items | self.doubted.keys()) if self.place(item) != FREE]

    def ruled_out(self, item: int, person: str | None = None) -> frozenset[int]:
        """Return the classes that people (or one person) ruled out for an item, by the current classes.

        A later label by the same person replaces the classes that they ruled out. A class into which others
        were merged is ruled out only if all of them are. Empty in a multi-label project, where such an answer
        is part of the label.
        """
        if item not in self.doubted or self.multi_label:
            return frozenset()
        by_person: dict[str, set[int]] = {}
        for entry in filter(self.is_valid, self.by_item[item]):
            if isinstance(entry.body, events.Not):
                by_person.setdefault(entry.person, set()).add(entry.body.class_)
            elif isinstance(entry.body, events.Label | events.NoneOfThese):
                by_person.pop(entry.person, None)
        denied = set().union(*by_person.values()) if person is None else by_person.get(person, set())
        possible = {self.book.current(number) for number in range(len(self.classes)) if number not in denied}
        return frozenset(number for number in self.book.present if number not in possible)

    def first_doubt(self, item: int) -> events.Not | None:
        """Return the first answer that ruled out a class; it holds the guess from before any answer."""
        valid = filter(self.is_valid, self.by_item[item] if item in self.doubted else ())
        return next((entry.body for entry in valid if isinstance(entry.body, events.Not)), None)

    def last(self, person: str) -> Entry | None:
        """Return the person's last answer that was not undone."""
        return next((entry for entry in self.newest_first(person) if entry.seq not in self.undone), None)

    def sent_before(self, person: str, key: str | None, same: Callable[[Body], bool]) -> Event | None:
        """Return the event of a request that was sent before; refuse another request with its key."""
        event = None if key is None else self.requests.get(key)
        if event is not None and not (event.person == person and same(event.body)):
            raise Refused(
                409, "key_used", f"key is {key!r}, which another request has used; expected a new one"
            )
        return event

    def bulk_events(self, bulk: int) -> list[int]:
        """Return all events of a bulk label, by the number of its first event; the latest first."""
        later = takewhile(lambda entry: entry.seq >= bulk, self.newest_first())
        return [entry.seq for entry in later if bulk_of(entry) == bulk]

    def answer_of(self, item: int, person: str) -> Value | None:
        """Return this person's own answer to an item."""
        return next((answer.value for answer in self.answers.get(item, []) if answer.person == person), None)

    @property
    def asks_again(self) -> bool:
        """Whether people are asked again about items whose label is doubtful."""
        return bool(self.settings["annotators_per_item"] == AUTO)

    @property
    def answers_needed(self) -> int:
        """The number of people who answer each item."""
        return 1 if self.asks_again else int(self.settings["annotators_per_item"])

    @property
    def multi_label(self) -> bool:
        """Whether an item may have several classes, or none."""
        return bool(self.settings["multi_label"])

    def value_of(self, body: events.Answered) -> Value | None:
        """Return an answer by the current classes, or CANNOT_TELL; None if its classes were removed."""
        if self.multi_label and isinstance(body, events.Guessed):
            return self._set_of(body).current(self.book)
        if isinstance(body, events.Label):
            return self.book.current(body.class_)
        if isinstance(body, events.MultiLabel):  # the project became single-label again
            return None
        return NONE if isinstance(body, events.NoneOfThese) else CANNOT_TELL

    def _set_of(self, body: events.Answered) -> ClassSet:
        """Return an answer as a set of classes; one from before the conversion says no to all others."""
        if isinstance(body, events.MultiLabel):
            return ClassSet.of(body.present, body.absent)
        if isinstance(body, events.Not):
            return ClassSet.of((), (body.class_,))
        return ClassSet.of([body.class_] if isinstance(body, events.Label) else (), self.converted)

    def answers_since_lease(self, item: int, event: Event) -> list[Answer]:
        """Return other people's answers to an item between its lease to a person and the person's answer."""
        leased = self.last_lease.get((event.person, item), 0)
        return self.standing(e for e in self.by_item[item] if leased < e.seq < event.seq)

    def was_skipped(self, item: int, person: str) -> bool:
        """Return whether this person has skipped the item."""
        return any(who == person for _, who in self.skipped.get(item, []))

    def withdrawn_items(self) -> list[int]:
        """Return the items whose content changed after they were answered, without an answer since."""
        return [item for item in self.withdrawn if item not in self.answers]

    def suggested(self) -> tuple[Suggestions, ...]:
        """Return each source's suggestions for the items that joined, mapped to the current classes."""
        key = self.suggested_at, len(self.ids), self.book
        if self._suggested[0] != key:
            self._suggested = key, tuple(self._of_source(name) for name in self.suggestions)
        return self._suggested[1]

    def _of_source(self, source: str) -> Suggestions:
        current = {number: self.book.current(number) for number in range(len(self.classes))}
        to = {number: now for number, now in current.items() if now is not None}
        known = ((self.position.get(name), one) for name, one in self.suggestions[source].items())
        found = [(item, one) for item, one in known if item is not None and one.class_ in to]
        probs = None
        if any(one.probs for _, one in found):
            probs = np.zeros((len(found), len(self.classes)), np.float32)
            for row, (_, one) in zip(probs, found, strict=True):
                for number, p in one.probs.items():
                    row[number] = p
        made = Suggestions(
            source,
            np.array([item for item, _ in found], np.int64),
            np.array([one.class_ for _, one in found], np.int64),
            np.array([np.nan if one.score is None else one.score for _, one in found], float),
            probs,
        )
        return made.translated(to)

    def suggestions_to(self, item: int) -> list[tuple[str, Suggestion]]:
        """Return (source, suggestion) pairs for one item, mapped to the current classes."""
        found = []
        for source, by_name in self.suggestions.items():
            suggestion = by_name.get(self.ids[item])
            number = None if suggestion is None else self.book.current(suggestion.class_)
            if suggestion is not None and number is not None:
                found.append((source, suggestion._replace(class_=number)))
        return found

    def without_suggestions(self) -> frozenset[int]:
        """Return items whose suggestions are not learned: test items, removed items and "cannot tell"."""
        answered = (item for item in self.answers if item not in self.labels)
        return frozenset({*self.test, *self.missing, *answered} if self.suggestions else ())

    def adjudicated(self) -> dict[int, Value]:
        """Return the latest standing answer by an adjudicator to each item that has one."""
        pairs = ((item, answer) for item, given in self.answers.items() for answer in given)
        bodies = ((item, answer.value, self.history[answer.seq].body) for item, answer in pairs)
        return {item: value for item, value, body in bodies if isinstance(body, events.Label) and body.truth}

    def label_of(self, item: int) -> Value | None:
        """Return the label of an item, including test items."""
        return self.labels.get(item, self.test_labels.get(item))

    def unanswered_checks(self) -> int:
        """Return how many items were leased as random checks, have no label, and are no longer leased."""
        labels, holder = self.labels, self.holder
        missing = (i for i in self.checked if i not in labels and i not in holder)
        return sum(not self.lost_its_class(item) for item in missing)

    def standing_checks(self) -> list[Check]:
        """Return the random checks whose item has a label now."""
        return [check for check in self.checks.values() if check.item in self.labels]

    def first_answers(self) -> dict[int, FirstAnswer]:
        """Return the first standing answer to each labelled item."""
        found = {}
        for item in self.labels:
            entry = next(e for e in self.by_item[item] if self.stands(e))
            body, guess, sure = entry.body, None, None
            if isinstance(body, events.Label):
                guess, sure = body.guess, body.sure
            current = None if guess is None else self.book.current(guess)
            found[item] = FirstAnswer(entry.seq, -1 if current is None else current, sure)
        return found

    @property
    def generation(self) -> events.Generation | None:
        """The fine-tuned generation of features in use; None if the original encoder's are."""
        if self.settings["network"] == "frozen":
            return None
        return next((each for each in reversed(self.generations) if each.trusted), None)

    def n_cannot_tell(self) -> int:
        return len(self.answers) - len(self.labels) - len(self.test_labels)

    def lost_its_class(self, item: int) -> bool:
        """Return whether an item had a label whose class was removed."""
        entries = self.by_item.get(item, ())
        return any(self.value_of(e.body) is None for e in entries if e.seq not in self.undone)

    def newest_first(self, person: str = "") -> Iterator[Entry]:
        """Iterate over the answers of one person, or of all, the latest first."""
        entries = reversed(self.history.values())
        return (entry for entry in entries if entry.person == person) if person else entries

    def stands(self, entry: Entry) -> bool:
        """Return whether an answer counts: it was not undone or withdrawn, and its item still exists."""
        votes = entry.body.votes or (self.multi_label and isinstance(entry.body, events.Not))
        return votes and self.is_valid(entry) and entry.item not in self.missing

    def is_valid(self, entry: Entry) -> bool:
        """Return whether an answer was neither undone nor withdrawn."""
        return entry.seq not in self.undone and entry.seq > self.withdrawn.get(entry.item, 0)

    def standing(self, entries: Iterable[Entry]) -> list[Answer]:
        """Return each person's last answer that counts and whose class still exists.

        In a multi-label project an answer may cover only some classes; the person's earlier answers supply
        the rest.
        """
        last: dict[str, tuple[int, Value | None]] = {}
        for entry in entries:
            if not self.stands(entry):
                continue
            value = self.value_of(entry.body)
            before = last.get(entry.person, (0, None))[1]
            if isinstance(value, ClassSet) and isinstance(before, ClassSet):
                value = before.then(value)
            last[entry.person] = entry.seq, value
        found = [Answer(seq, person, value) for person, (seq, value) in last.items() if value is not None]
        return found if len(found) < 2 else sorted(found, key=lambda answer: answer.seq)


def digest(state: State) -> str:
    """Return a hash of a state; equal states have equal hashes."""
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in values.items()}
    content = msgspec.msgpack.encode(plain | {"ids": stored_ids(state.ids)})
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def new_state(stored: Sequence[Event], source: Sequence[str]) -> State:
    """Return the state before the first event of a log; source: ids of the items with features.

    The items of the first `extended` event exist from the start; in logs without one, all items do.
    """
    source = id_list(source)
    joined = next((e.body.names for e in stored if isinstance(e.body, events.Extended)), source)
    state = State(source if joined == source else [name for name in joined if name in source.position])
    state.source = source.position
    return state


class LabelSet(NamedTuple):
    """Items, classes, labels and answers; classes are numbered in the order in which they are shown."""

    ids: Sequence[str]
    classes: list[str]
    labels: dict[int, Any]  # item -> class, or `ClassSet` in a multi-label project
    answers: dict[int, list[Answer]]
    times: dict[int, float]  # event number of an answer -> time
    names: dict[int, np.ndarray]  # class -> vectors of its name, from which the model may learn
    withdrawn: list[int]  # items whose labels no longer count because their content changed
    test: dict[int, Any]  # labels of the test set: never trained on
    none: list[int]  # items that belong to no class; learned, too
    by_model: dict[int, Value]  # auto-labels of items that people have not labelled
    ruled_out: dict[int, frozenset[int]]  # classes ruled out for items without a label; learned, too
    missing: Sequence[int] = ()  # items that are gone from their source
    trust_names: bool = False  # learn from names even if leave-one-out does not confirm them
    generation: events.Generation | None = None  # the fine-tuned encoder's generation of features
    suggestions: Sequence[Suggestions] = ()  # from sources that are not fully trusted; learned, too
    drawn: Mapping[int, float] | None = None  # weights of labelled items that were drawn at random
    given: Mapping[int, int] = MappingProxyType({})  # labels that came with the source, for review
    multi_label: bool = False
    final: Mapping[int, Value] = MappingProxyType({})  # latest standing answers of adjudicators

    @classmethod
    def of(cls, state: State, vectors: Mapping[int, np.ndarray], trust_names: bool = False) -> LabelSet:
        """Return the labels of a state; vectors: class number -> vectors of its name."""
        book = state.book
        position = {number: j for j, number in enumerate(book.order)}

        def renumbered(value: Value) -> Value:
            return value.numbered(position) if isinstance(value, ClassSet) else position.get(value, value)

        def by_item(values: Mapping[int, Value | None]) -> dict[int, Any]:
            return {i: renumbered(value) for i, value in sorted(values.items()) if value not in (None, NONE)}

        labelled = {*state.labels, *state.test_labels}
        by_model = {i: state.by_model(i) for i in state.finished if i not in labelled}
        by_model |= {i: state.classes_by_model(i) for i in state.partly.keys() - by_model.keys()}
        ruled_out = {i: frozenset(position[c] for c in state.place(i).ruled_out) for i in state.doubted}
        without = state.without_suggestions()
        suggestions = [one.translated(position, without) for one in state.suggested()]
        given = [one.translated(position, state.missing) for one in state.suggested() if one.source == GIVEN]
        return cls(
            ids=_copied(state.ids),
            classes=[book.names[number] for number in book.order],
            labels=by_item(state.labels),
            answers={
                item: [answer._replace(value=renumbered(answer.value)) for answer in answers]
                for item, answers in state.answers.items()
            },
            times={seq: entry.at for seq, entry in state.history.items()},
            names={position[number]: some for number, some in vectors.items() if number in position},
            withdrawn=state.withdrawn_items(),
            test=by_item(state.test_labels),
            none=sorted(item for item, number in state.labels.items() if number == NONE),
            by_model=by_item(by_model),
            ruled_out={i: some for i, some in ruled_out.items() if 0 < len(some) < len(book.order)},
            missing=list(state.missing),
            trust_names=trust_names,
            generation=state.generation,
            suggestions=suggestions,
            drawn=check_weights(state.standing_checks()) if suggestions else None,
            given={
                i: c for one in given for i, c in zip(one.items.tolist(), one.classes.tolist(), strict=True)
            },
            multi_label=state.multi_label,
            final=by_item(state.adjudicated()),
        )

    def seen_from(self, ids: Sequence[str]) -> LabelSet:
        """Return the same labels with items numbered by another list of ids that contains all of them."""
        if self.ids == ids:
            return self
        ids = _copied(ids)
        to = [ids.position[name] for name in self.ids]  # old item number -> new one
        by_item = ("labels", "answers", "test", "by_model", "ruled_out", "given", "final")
        moved: dict[str, Any] = {
            name: {to[item]: value for item, value in getattr(self, name).items()} for name in by_item
        }
        moved |= {
            name: [to[item] for item in getattr(self, name)] for name in ("withdrawn", "none", "missing")
        }
        return self._replace(
            ids=ids,
            suggestions=[one._replace(items=np.array(to, np.int64)[one.items]) for one in self.suggestions],
            drawn={to[item]: weight for item, weight in (self.drawn or {}).items()},
            **moved,
        )


def _copied(ids: Sequence[str]) -> IdList:
    return ids if isinstance(ids, Numbered) else IdList(ids)
