"""Who labelled what, who has what, which classes there are: a pure function of the events.

No model, no clock, no randomness: the same events give the same ledger. Items are known by their
position in the source; events of items that the source no longer has are kept and left alone.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from everylabel.labelling.agreement import Agreement
from everylabel.labelling.events import Event

DEFAULTS: dict[str, Any] = {
    "strategy": "lookahead",
    "check_every": 10,  # one in ten is drawn at random and scored before it is learned from
    "annotators_per_item": 1,
    "lease_seconds": 600,
}
CANNOT_TELL = -1
IMPORT = "import"  # the person whose answers came with the source or from a file
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
    """A random check: what the model said of an item, after so many labels, before it learned."""

    seq: int
    item: int
    labels: int
    guess: int
    sure: float  # the probability of the guess


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
    keys: dict[str, Event] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    checked: set[int] = field(default_factory=set)  # items that were handed out as checks
    curve: list[tuple[int, float]] = field(default_factory=list)  # labels, mean largest probability
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
        self.position = {name: i for i, name in enumerate(self.ids)}
        self._events: dict[int, Event] = {}
        self._by_item: dict[int, list[Event]] = {}

    def apply(self, event: Event) -> int | None:
        """Take in one event; return the item whose place in the model may have changed."""
        self.seq = event.seq
        if event.key is not None:
            self.keys[event.key] = event
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

    def was_skipped(self, item: int, person: str) -> bool:
        """Return whether this person has skipped the item."""
        return any(who == person for _, who in self.skipped.get(item, []))

    def standing_checks(self, last: int) -> list[tuple[Check, bool]]:
        """Return the last checks whose item has a label now, with whether the guess was that label."""
        found: list[tuple[Check, bool]] = []
        for check in reversed(self.checks):
            if len(found) == last:
                break
            if check.item in self.labels:
                found.append((check, check.guess == self.labels[check.item]))
        return found[::-1]

    def expected(self) -> float | None:
        """Return the accuracy on what is left that the model expected of itself last."""
        return self.curve[-1][1] if self.curve else None

    def n_unanswered_checks(self) -> int:
        """Return how many checks were skipped, left or could not be told."""
        return sum(item not in self.labels and item not in self.holder for item in self.checked)

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
        for item in self.answers:
            self._count(item, -1)
        self.settings.update(event.body)
        for item in self.answers:
            self._count(item, 1)

    def _refit(self, event: Event, _: Any) -> None:
        """Nothing here: the model was trained, the labels are as they were."""

    def _out(self, event: Event, item: int) -> None:
        self.leases[event.person] = Lease(item, event.body["reason"], event.at)
        self.holder[item] = event.person
        if event.body["reason"] == "check":
            self.checked.add(item)
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
            self.checks.append(Check(event.seq, item, before, event.body["guess"], event.body["sure"]))

    def _cannot_tell(self, event: Event, item: int) -> None:
        self._note(event, item)
        self._set(item, event, CANNOT_TELL)

    def _skip(self, event: Event, item: int) -> None:
        self._note(event, item)
        self.skipped[item] = [*self.skipped.pop(item, []), (event.seq, event.person)]  # the last comes last

    def _undo(self, event: Event, _: Any) -> int | None:
        undone = self._events.get(event.body["saved"])
        if undone is None:  # of an item that the source no longer has
            return None
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
        self._by_item.setdefault(item, []).append(event)
        self.history.append(event)
        self.done.setdefault(event.person, []).append(event.seq)

    def _set(self, item: int, event: Event, value: int) -> None:
        others = [answer for answer in self.answers.get(item, []) if answer.person != event.person]
        self._settle(item, [*others, Answer(event.seq, event.person, value)])

    def _given(self, item: int) -> list[Answer]:
        """Return each person's last answer that is not taken back, from the record."""
        last: dict[str, Answer] = {}
        for event in self._by_item[item]:
            if event.kind != "skip" and event.seq not in self.undone:
                last[event.person] = Answer(event.seq, event.person, event.body.get("class", CANNOT_TELL))
        return sorted(last.values())

    def _settle(self, item: int, answers: list[Answer]) -> None:
        """Learn what most people say; of a tie, what a person said last, before what was imported."""
        self._count(item, -1)
        told = sorted(answers, key=lambda answer: (answer.person != IMPORT, answer.seq))
        values = [answer.value for answer in told if answer.value != CANNOT_TELL]
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
        values = [answer.value for answer in answers if answer.value != CANNOT_TELL]
        self.agreement.add(values, sign)
        most = [count for _, count in Counter(values).most_common(2)]
        if len(most) == 2 and most[0] == most[1]:
            _mark(self.disputed, item, sign)
        if 0 < len(answers) < self.settings["annotators_per_item"]:
            for answer in answers:
                self.not_wanted[answer.person] += sign
            _mark(self.wanting, item, sign)


def _mark(items: dict[int, None], item: int, sign: int) -> None:
    """Take an item in, as the latest, or take it out (sign -1)."""
    if sign > 0:
        items[item] = None
    else:
        del items[item]
