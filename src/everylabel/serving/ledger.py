"""Who labelled what, who has what, which classes there are: a pure function of the events.

No model, no clock, no randomness: the same events give the same ledger. Items are known by their
position in the source; events of items that the source no longer has are kept and left alone.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from everylabel.serving.events import Event

DEFAULTS: dict[str, Any] = {
    "strategy": "lookahead",
    "check_every": 10,  # one in ten is drawn at random and scored before it is learned from
    "annotators_per_item": 1,
    "lease_seconds": 600,
}
CANNOT_TELL = -1
FREE, OUT, ASIDE = "free", "out", "aside"
Target = int | str  # a class number, or one of the three words: what an item is to the model


class Lease(NamedTuple):
    """An item that is with a person."""

    item: int
    reason: str
    at: float


class Answer(NamedTuple):
    """A person's answer: a class number, or CANNOT_TELL."""

    seq: int
    person: str
    value: int


class Check(NamedTuple):
    """A random check: after so many labels, whether the model was right before it learned."""

    seq: int
    labels: int
    right: bool


@dataclass(eq=False)
class Ledger:
    """The state that the events add up to."""

    ids: Sequence[str]
    seq: int = 0
    classes: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    seed: int = 0
    answers: dict[int, list[Answer]] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    holder: dict[int, str] = field(default_factory=dict)
    skipped: dict[int, list[tuple[int, str]]] = field(default_factory=dict)  # item -> (event, person)
    done: dict[str, list[int]] = field(default_factory=dict)  # person -> events that can be taken back
    history: list[Event] = field(default_factory=list)  # answers, in order
    undone: set[int] = field(default_factory=set)
    keys: dict[str, int] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    curve: list[tuple[int, float]] = field(default_factory=list)  # labels, mean largest probability
    handed: int = 0  # items picked by the strategy or at random
    labels: dict[int, int] = field(default_factory=dict)  # item -> class, what is learned
    n_changes: int = 0  # of labels, so far
    n_answers: int = 0
    by_person: Counter[str] = field(default_factory=Counter)  # answers of each
    by_class: Counter[int] = field(default_factory=Counter)  # items of each
    several: set[int] = field(default_factory=set)  # items with more than one answer
    wanting: dict[int, None] = field(default_factory=dict)  # items that want another person's answer
    refitted: int = 0  # the labels up to this event were trained on

    def __post_init__(self) -> None:
        self.position = {name: i for i, name in enumerate(self.ids)}
        self._events: dict[int, Event] = {}

    def apply(self, event: Event) -> int | None:
        """Take in one event; return the item whose place in the model may have changed."""
        self.seq = event.seq
        if event.key is not None:
            self.keys[event.key] = event.seq
        item = None
        if "item" in event.body:
            item = self.position.get(event.body["item"])
            if item is None:
                return None
        touched = getattr(self, f"_{event.kind}")(event, item)
        return item if touched is None else touched

    def target(self, item: int) -> Target:
        """Return what the item is to the model: a class, out with a person, set aside, or free."""
        if item in self.labels:
            return self.labels[item]
        if item in self.holder:
            return OUT
        return ASIDE if item in self.answers or item in self.skipped else FREE

    def last(self, person: str) -> Event | None:
        """Return the person's last answer that is not taken back."""
        done = self.done.get(person)
        return self._events[done[-1]] if done else None

    def answer_of(self, item: int, person: str) -> int | None:
        """Return this person's own answer."""
        own = [answer.value for answer in self.answers.get(item, []) if answer.person == person]
        return own[-1] if own else None

    def n_cannot_tell(self) -> int:
        return len(self.answers) - len(self.labels)

    def _project(self, event: Event, _: Any) -> None:
        self.classes = list(event.body["classes"])
        self.seed = event.body["seed"]
        self.settings.update(event.body["settings"])

    def _class(self, event: Event, _: Any) -> None:
        self.classes.append(event.body["name"])

    def _rename(self, event: Event, _: Any) -> None:
        self.classes[event.body["class"]] = event.body["name"]

    def _settings(self, event: Event, _: Any) -> None:
        self.settings.update(event.body)

    def _refit(self, event: Event, _: Any) -> None:
        self.refitted = event.body["upto"]

    def _out(self, event: Event, item: int) -> None:
        self.leases[event.person] = Lease(item, event.body["reason"], event.at)
        self.holder[item] = event.person
        if event.body["reason"] in ("chosen", "check") and not event.body.get("again"):
            self.handed += 1
        if "expected" in event.body:
            self.curve.append((len(self.labels), event.body["expected"]))

    def _release(self, event: Event, item: int) -> None:
        lease = self.leases.get(event.person)
        if lease is not None and lease.item == item:
            del self.leases[event.person]
            del self.holder[item]

    def _label(self, event: Event, item: int) -> None:
        self._note(event, item)
        before = len(self.labels)
        self._set(item, event, event.body["class"])
        if event.body.get("check"):
            right = event.body["guess"] == event.body["class"]
            self.checks.append(Check(event.seq, before, right))

    def _cannot_tell(self, event: Event, item: int) -> None:
        self._note(event, item)
        self._set(item, event, CANNOT_TELL)

    def _skip(self, event: Event, item: int) -> None:
        self._note(event, item)
        self.skipped.setdefault(item, []).append((event.seq, event.person))

    def _undo(self, event: Event, _: Any) -> int | None:
        undone = self._events[event.body["saved"]]
        item = self.position[undone.body["item"]]
        self.undone.add(undone.seq)
        self.done[undone.person].remove(undone.seq)
        self.checks = [check for check in self.checks if check.seq != undone.seq]
        if undone.kind == "skip":
            left = [entry for entry in self.skipped.pop(item, []) if entry[0] != undone.seq]
            if left:
                self.skipped[item] = left
        else:
            self._settle(item, self._given(item))
        return item

    def _note(self, event: Event, item: int) -> None:
        """Put an answer on record, and take the item back from the person."""
        self._release(event, item)
        self._events[event.seq] = event
        self.history.append(event)
        self.done.setdefault(event.person, []).append(event.seq)

    def _set(self, item: int, event: Event, value: int) -> None:
        self.skipped.pop(item, None)  # somebody could answer it
        others = [answer for answer in self.answers.get(item, []) if answer.person != event.person]
        self._settle(item, [*others, Answer(event.seq, event.person, value)])

    def _given(self, item: int) -> list[Answer]:
        """Return each person's last answer that is not taken back, from the record."""
        last: dict[str, Answer] = {}
        for event in self.history:
            if event.kind != "skip" and event.body["item"] == self.ids[item] and event.seq not in self.undone:
                last[event.person] = Answer(event.seq, event.person, event.body.get("class", CANNOT_TELL))
        return sorted(last.values())

    def _settle(self, item: int, answers: list[Answer]) -> None:
        """Learn what most people say; of a tie, what was said last."""
        self._count(item, -1)
        values = [answer.value for answer in answers if answer.value != CANNOT_TELL]
        if values:
            counts = Counter(values)
            most = max(counts.values())
            self.labels[item] = next(value for value in reversed(values) if counts[value] == most)
        else:
            self.labels.pop(item, None)
        self.answers[item] = answers
        self._count(item, 1)
        if not answers:
            del self.answers[item]
        self.n_changes += 1

    def _count(self, item: int, sign: int) -> None:
        """Add an item's answers to the counts, or take them off."""
        answers = self.answers.get(item, [])
        self.n_answers += sign * len(answers)
        for answer in answers:
            self.by_person[answer.person] += sign
        if item in self.labels:
            self.by_class[self.labels[item]] += sign
        self.several.discard(item)
        self.wanting.pop(item, None)
        if sign > 0 and len(answers) > 1:
            self.several.add(item)
        if sign > 0 and 0 < len(answers) < self.settings["annotators_per_item"]:
            self.wanting[item] = None
