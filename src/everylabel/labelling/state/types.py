"""The records that a state consists of (classes, answers, leases, checks, agreement), and the refusal error.

A class has one identity, its number in the log, which never changes and is never reused. The model's column
of a class (`State.columns`) and its place on the page (`ClassBook.order`) are looked up from it. A removed
class passes its labels to another class, or its items are free again; a restored class has its labels back.

Agreement is the share of pairs that agree, and Krippendorff's alpha (2004) for nominal answers. Both are kept
as sums, so that adding an answer costs the same however many there are. "Cannot tell" is a missing value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, nearest
from everylabel.log import events
from everylabel.selection.pool import Where
from everylabel.selection.strategies import DEFAULT

DEFAULTS: dict[str, Any] = {
    "strategy": DEFAULT,
    "check_every": 10,  # one item in ten is drawn at random and scored before the model learns it
    "annotators_per_item": 1,  # or AUTO
    "lease_seconds": 600,
    "names": True,  # the model learns from class names, if the encoder can embed words
    "network": "auto",  # the encoder is fine-tuned if possible
    "tester": "",  # the person who labels the test set; "": everybody
    "multi_label": False,  # each item has exactly one class
}
AUTO = "auto"  # as many answers to an item as its label needs
CANNOT_TELL = -1
NONE = -2  # none of the classes: the model has a hidden class for it, which is neither shown nor exported
WHICH = -3  # the only question of a project with one class per item: which class?
GIVEN = "given"  # the source of labels that people review
REVIEW = "review"  # the strategy that asks about given labels that are probably wrong
IMPORT = "import"  # the person whose answers came with the source or from a file
Items = dict[int, None]  # item numbers, in the order in which they were added


class Refused(EverylabelError):
    """A request that cannot be met; the person sees the reason, and nothing has changed."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True, eq=False)
class ClassBook:
    """Classes by number; each change returns a new book."""

    names: list[str] = field(default_factory=list)  # names of all classes that ever existed
    order: tuple[int, ...] = ()  # the current classes, in the order shown
    removed: Mapping[int, int | None] = field(default_factory=dict)  # -> class that has its labels
    descriptions: Mapping[int, str] = field(default_factory=dict)
    keys: Mapping[int, str] = field(default_factory=dict)
    colours: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def present(self) -> tuple[int, ...]:
        """The current classes, sorted by number."""
        return tuple(sorted(self.order))

    def named(self, name: str) -> int | None:
        """Return the current class with this name."""
        return next((number for number in self.order if self.names[number] == name), None)

    def number(self, value: int | str) -> int:
        """Return the number of a current class, from its number or name; refuse any other."""
        found = self.named(value) if isinstance(value, str) else value
        if found is not None and found in self.order:
            return found
        if found is not None and found in self.removed:
            name = self.names[found]
            raise Refused(422, "unknown_class", f"class {name!r} was removed; expected a current class")
        if len(self.order) < len(self.names):
            expected = f"one of {', '.join(map(str, self.present))} or a class's name"
        else:
            expected = f"0 to {len(self.names) - 1} or a class's name"
        expected = expected if self.order else "a class: add one first"
        near = nearest(value, [self.names[i] for i in self.order]) if isinstance(value, str) else None
        expected += "" if near is None else f"; did you mean {near!r}?"
        raise Refused(422, "unknown_class", f"class is {value!r:.80}; expected {expected}")

    def like(self, name: str, but: int | None = None) -> str | None:
        """Return a class name (not of class `but`) equal up to case, spaces, hyphens and underscores."""
        plain = _normalised(name)
        others = (self.names[number] for number in self.order if number != but)
        return next((other for other in others if _normalised(other) == plain), None)

    def current(self, number: int) -> int | None:
        """Return the class that now has this class's labels: itself, another, or None."""
        while number in self.removed:
            into = self.removed[number]
            if into is None:
                return None
            number = into
        return number

    def after(self, body: events.OfClasses) -> ClassBook:
        """Return the book after a change of classes."""
        match body:
            case events.NewClass(name):
                return self.added([name])
            case events.Remove(number, into):
                order = tuple(other for other in self.order if other != number)
                return replace(self, order=order, removed={**self.removed, number: into})
            case events.Restore(number):
                removed = {other: into for other, into in self.removed.items() if other != number}
                return replace(self, order=(*self.order, number), removed=removed)
            case events.Arrange(order):
                return replace(self, order=tuple(order))
            case events.ClassChanged():
                return self._changed(body)

    def _changed(self, body: events.ClassChanged) -> ClassBook:
        number, book = body.class_, self
        if body.name is not None:
            book = replace(book, names=[*book.names[:number], body.name, *book.names[number + 1 :]])
        if body.description is not None:
            book = replace(book, descriptions={**book.descriptions, number: body.description})
        if body.key is not None:
            others = {other: key for other, key in book.keys.items() if key != body.key}
            book = replace(book, keys={**others, number: body.key})
        if body.colour is not None:
            book = replace(book, colours={**book.colours, number: body.colour})
        return book

    def added(self, names: Sequence[str]) -> ClassBook:
        """Return the book with more classes at the end."""
        n = len(self.names)
        return replace(self, names=[*self.names, *names], order=(*self.order, *range(n, n + len(names))))

    def with_numbers_of(self, later: ClassBook) -> ClassBook:
        """Return this earlier book with the class numbers assigned since marked as removed."""
        n = len(self.names)
        new = dict.fromkeys(range(n, len(later.names)))
        return replace(self, names=[*self.names, *later.names[n:]], removed={**self.removed, **new})


def _normalised(name: str) -> str:
    """Return a name without case, hyphens, underscores and repeated spaces, for comparison."""
    return " ".join(name.replace("_", " ").replace("-", " ").casefold().split())


def change_in_words(body: events.OfClasses, before: ClassBook) -> str:
    """Describe a change of classes in words."""

    def named(number: int) -> str:
        return f"\u201c{before.names[number]}\u201d"

    match body:
        case events.NewClass(name):
            return f"added \u201c{name}\u201d"
        case events.Remove(number, None):
            return f"removed {named(number)}"
        case events.Remove(number, into) if into is not None:
            return f"merged {named(number)} into {named(into)}"
        case events.Restore(number):
            return f"brought {named(number)} back"
        case events.ClassChanged(number):
            what = {
                f"renamed {named(number)} to \u201c{body.name}\u201d": body.name,
                f"described {named(number)}": body.description,
                f"changed the key of {named(number)}": body.key,
                f"changed the colour of {named(number)}": body.colour,
            }
            return ", ".join(words for words, value in what.items() if value is not None)
    return "changed the order"


@dataclass
class Agreement:
    """Agreement between people, as sums over items with two or more answers."""

    items: int = 0
    same: int = 0
    pairs: int = 0
    observed: float = 0.0
    totals: Counter[int] = field(default_factory=Counter)

    def add(self, values: Sequence[int], sign: int = 1) -> None:
        """Add the answers to one item, or subtract them (sign -1)."""
        m = len(values)
        if m < 2:
            return
        alike = sum(c * (c - 1) for c in Counter(values).values())
        self.items += sign
        self.same += sign * alike
        self.pairs += sign * m * (m - 1)
        self.observed += sign * (m * (m - 1) - alike) / (m - 1)
        for value in values:
            self.totals[value] += sign

    def chance(self) -> float:
        """Return the disagreement expected by chance."""
        n = sum(self.totals.values())
        return sum(c * (n - c) for c in self.totals.values()) / (n - 1)

    def figures(self) -> dict[str, Any] | None:
        """Return items, share of agreeing pairs and alpha; None while no item has two answers."""
        return pooled([self])


def pooled(questions: Iterable[Agreement]) -> dict[str, Any] | None:
    """Return items, share of agreeing pairs and alpha over several questions; None without two answers."""
    some = [each for each in questions if each.items]
    if not some:
        return None
    chance = sum(each.chance() for each in some)
    # undefined if all answers are equal
    alpha = 1.0 - sum(each.observed for each in some) / chance if chance else None
    share = sum(each.same for each in some) / sum(each.pairs for each in some)
    return {"items": max(each.items for each in some), "share": share, "alpha": alpha}


@dataclass
class Tally:
    """Counts over all answers and labels, kept up to date answer by answer."""

    by_person: Counter[str] = field(default_factory=Counter)  # number of answers
    by_class: Counter[int] = field(default_factory=Counter)  # number of labels
    agreement: dict[int, Agreement] = field(default_factory=dict)  # by question: see `votes`
    wanting: Items = field(default_factory=dict)  # items that need another person's answer
    disputed: Items = field(default_factory=dict)  # items with tied votes


class ClassSet(NamedTuple):
    """The label of an item in a multi-label project; classes in neither list are unanswered."""

    present: tuple[int, ...] = ()  # ascending
    absent: tuple[int, ...] = ()  # ascending

    @classmethod
    def of(cls, present: Collection[int], absent: Collection[int] = ()) -> ClassSet:
        """Return a set from classes in any order; a class in both is present."""
        return cls(tuple(sorted({*present})), tuple(sorted({*absent} - {*present})))

    def then(self, later: ClassSet) -> ClassSet:
        """Return the set after a later answer, which may cover only some classes."""
        kept = {*self.present} - {*later.absent}
        return ClassSet.of(kept | {*later.present}, {*self.absent, *later.absent} - {*later.present})

    def current(self, book: ClassBook) -> ClassSet | None:
        """Return the set mapped to the current classes; None if none of its classes remain.

        A class into which others were merged is present if any of them is. It is absent if its own answer
        says so or if all of them are absent.
        """
        if not book.removed:
            return self if self.present or self.absent else None
        present = {book.current(number) for number in self.present} - {None}
        members: dict[int | None, set[int]] = {}
        for number in range(len(book.names)):
            members.setdefault(book.current(number), set()).add(number)
        denied = {*self.absent}
        absent = {number for number in book.present if number in denied or members[number] <= denied}
        mapped = ClassSet.of([number for number in present if number is not None], absent)
        return mapped if mapped.present or mapped.absent else None

    def answers_all(self, k: int) -> bool:
        """Return whether all k classes are answered."""
        return len(self.present) + len(self.absent) >= k

    def numbered(self, to: Mapping[int, int]) -> ClassSet:
        """Return the set with classes renumbered by `to`; classes missing from `to` are dropped."""
        present = [to[number] for number in self.present if number in to]
        return ClassSet.of(present, [to[number] for number in self.absent if number in to])

    def row(self, columns: Sequence[int]) -> np.ndarray:
        """Return a row (k,) of 1 for present classes, 0 for absent ones and nan for unanswered ones."""
        known = dict.fromkeys(self.absent, 0.0) | dict.fromkeys(self.present, 1.0)
        return np.array([known.get(number, np.nan) for number in columns])


Value = int | ClassSet  # a class number or a set of classes


def partly_answered(labels: Iterable[Value], k: int) -> int:
    """Return the number of labels that leave some of the k classes of a multi-label project unanswered."""
    return sum(not label.answers_all(k) for label in labels if isinstance(label, ClassSet))


def classes_of(value: Value) -> tuple[int, ...]:
    """Return the classes that a label gives an item."""
    return value.present if isinstance(value, ClassSet) else (value,)


def in_reply(value: Value | None) -> Any:
    """Return a label in the form of a reply: a class number, a list of class numbers, or None."""
    return list(value.present) if isinstance(value, ClassSet) else value


def absent_in_reply(value: Value | None) -> dict[str, list[int]]:
    """Return the field `absent` of a reply: classes that a set of classes rules out; no field otherwise."""
    return {"absent": list(value.absent)} if isinstance(value, ClassSet) else {}


def votes(values: Iterable[Value]) -> dict[int, list[int]]:
    """Return the votes on each question.

    A multi-label project has one question per class: 1 is yes, 0 is no. Otherwise the only question is WHICH
    class, and a vote is its number.
    """
    found: dict[int, list[int]] = {}
    for value in values:
        if isinstance(value, ClassSet):
            said = dict.fromkeys(value.present, 1) | dict.fromkeys(value.absent, 0)
        else:
            said = {WHICH: value}
        for question, vote in said.items():
            found.setdefault(question, []).append(vote)
    return found


def majority(values: Sequence[Value]) -> Value:
    """Return the label with the most votes on each question; in a tie, the last vote counts."""
    if len(values) == 1:
        return values[0]
    label = {question: max(reversed(given), key=given.count) for question, given in votes(values).items()}
    if WHICH in label:
        return label[WHICH]
    return ClassSet.of([c for c in label if label[c]], [c for c in label if not label[c]])


def tied(values: Iterable[Value]) -> list[int]:
    """Return the questions on which the vote is tied."""
    most = {question: Counter(given).most_common(2) for question, given in votes(values).items()}
    return [question for question, two in most.items() if len(two) == 2 and two[0][1] == two[1][1]]


class Place(NamedTuple):
    """An item's place in the pool, its label if it has one, and the classes ruled out if it has none."""

    where: Where = Where.FREE
    label: Value | None = None
    ruled_out: frozenset[int] = frozenset()


FREE = Place()


class Lease(NamedTuple):
    """An item that is leased to a person."""

    item: int
    reason: str
    at: float
    by: str = ""  # the strategy that chose it, which may stand in for the one in the settings


class Answer(NamedTuple):
    """A person's answer: a class number, a set of classes, or CANNOT_TELL."""

    seq: int
    person: str
    value: Value


class Entry(NamedTuple):
    """An answer in the history."""

    seq: int
    at: float
    person: str
    item: int
    body: events.Answered


class FirstAnswer(NamedTuple):
    """The first answer to an item, and the model's guess from before it."""

    seq: int
    guess: int = -1  # -1: unknown, or a removed class
    sure: float | None = None  # probability of the guess, if known


class Check(NamedTuple):
    """A random check: the model's guess for an item before it learned the answer, and how it was drawn."""

    item: int
    guess: int | tuple[int, ...]  # several classes in a multi-label project
    among: int | None = None  # the predicted class it was drawn among; None: all free items
    share: float = 1.0  # share of the free items that were predicted as that class


def check_weights(checks: Sequence[Check]) -> dict[int, float]:
    """Return the weight m of each checked item; it corrects for classes that were checked more than others.

    n checks are drawn among all free items, and n_c more among the items predicted as c, which are a share
    s_c of the free ones. Each check has the weight (the balance heuristic, Veach & Guibas 1995)
        m = n / (n + sum_c n_c / s_c)
    summed over the classes c that its item was predicted as: one, or any number in a multi-label project.
    """
    n = sum(check.among is None for check in checks)
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for check in checks:
        if check.among is not None:
            shares[check.among].append(check.share)
    more = {c: len(some) ** 2 / sum(some) for c, some in shares.items()}  # n_c / s_c, s_c the mean share
    weights = {}
    for check in checks:
        if isinstance(check.guess, tuple):  # the classes that the item was predicted as
            guess = {*check.guess} if check.among is None else {*check.guess, check.among}
        else:
            guess = {check.guess if check.among is None else check.among}
        by_class = sum(more.get(c, 0.0) for c in guess)
        weights[check.item] = n / (n + by_class) if by_class else 1.0
    return weights


class Suggestion(NamedTuple):
    """A class suggested for one item by a source that is not fully trusted."""

    class_: int
    score: float | None = None  # probability of the class by the source
    probs: Mapping[int, float] = MappingProxyType({})  # probability of each class, if the source gave any


def most_probable(probabilities: Mapping[str, float]) -> tuple[str, float]:
    """Return the most probable class, the first of equal ones, and its normalised probability."""
    total = sum(probabilities.values())
    name = max(probabilities, key=lambda each: probabilities[each])
    return name, probabilities[name] / total if total > 0.0 else 0.0


class Suggestions(NamedTuple):
    """One source's suggestions for some items; classes are columns of the model, or numbers of the log."""

    source: str
    items: np.ndarray  # (m,) positions in the pool, each once
    classes: np.ndarray  # (m,)
    scores: np.ndarray | None = None  # (m,) probability of the class by the source; nan where it gave none
    probs: np.ndarray | None = None  # (m, k) probability of each class by the source

    def translated(self, to: Mapping[int, int], but: Collection[int] = ()) -> Suggestions:
        """Renumber the classes by `to`; drop classes missing from it, and items in `but`."""
        known = {number: to.get(number, -1) for number in np.unique(self.classes).tolist()}
        classes = np.array([known[number] for number in self.classes.tolist()], np.int64)
        keep = (classes >= 0) & ~np.isin(self.items, list(but))
        scores = None if self.scores is None else self.scores[keep]
        probs = None if self.probs is None else _moved(self.probs[keep], to, classes[keep])
        return Suggestions(self.source, self.items[keep], classes[keep], scores, probs)


def _moved(probs: np.ndarray, to: Mapping[int, int], classes: np.ndarray) -> np.ndarray:
    """Return probabilities (m, k) of renumbered classes; those of classes missing from `to` are dropped.

    classes : (m,) the only probable class of a row that has no probabilities, or none left
    """
    found = np.zeros((len(probs), max(to.values(), default=-1) + 1), probs.dtype)
    for number, column in to.items():
        if 0 <= number < probs.shape[1]:
            found[:, column] += probs[:, number]
    empty = found.sum(axis=1) <= 0.0
    found[empty, classes[empty]] = 1.0
    return np.asarray(found / found.sum(axis=1, keepdims=True))


class ClassChange(NamedTuple):
    """A change of classes by a person, and the classes before it."""

    seq: int
    body: events.OfClasses
    before: ClassBook


def bulk_of(entry: Entry | events.Event | None) -> int | None:
    """Return the first event of the bulk label that an answer belongs to; None if it was given singly."""
    return entry.body.bulk if entry is not None and isinstance(entry.body, events.Classified) else None
