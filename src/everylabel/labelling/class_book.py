"""The classes of a project as a value: what they are called, how they are shown, and which were removed.

A class keeps its number for ever, as the log has it. Removing one says where its labels go: to another class,
which may be removed itself later, or nowhere, so that the items are free again. Nothing is forgotten: a class
that is brought back has its labels again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from everylabel.labelling import events


@dataclass(frozen=True, eq=False)
class ClassBook:
    """Classes by number; each change returns another book."""

    names: list[str] = field(default_factory=list)  # of all there ever were
    order: tuple[int, ...] = ()  # those there are, as they are shown
    removed: Mapping[int, int | None] = field(default_factory=dict)  # and the class that has their labels now
    descriptions: Mapping[int, str] = field(default_factory=dict)
    keys: Mapping[int, str] = field(default_factory=dict)
    colours: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def present(self) -> tuple[int, ...]:
        """The classes there are, by number."""
        return tuple(sorted(self.order))

    def named(self, name: str) -> int | None:
        """Return the class there is of this name."""
        return next((number for number in self.order if self.names[number] == name), None)

    def like(self, name: str, but: int | None = None) -> str | None:
        """Return the name of another class that differs in capitals, spaces or joints only."""
        plain = _plain(name)
        others = (self.names[number] for number in self.order if number != but)
        return next((other for other in others if _plain(other) == plain), None)

    def now(self, number: int) -> int | None:
        """Return the class that has a class's labels: itself, another, or None."""
        while number in self.removed:
            into = self.removed[number]
            if into is None:
                return None
            number = into
        return number

    def after(self, body: events.OfClasses) -> ClassBook:
        """Return the book after a change."""
        match body:
            case events.NewClass(name):
                return self.added([name])
            case events.Rename(number, name):
                return replace(self, names=[*self.names[:number], name, *self.names[number + 1 :]])
            case events.Describe(number, text):
                return replace(self, descriptions={**self.descriptions, number: text})
            case events.Remove(number, into):
                order = tuple(other for other in self.order if other != number)
                return replace(self, order=order, removed={**self.removed, number: into})
            case events.Restore(number):
                removed = {other: into for other, into in self.removed.items() if other != number}
                return replace(self, order=(*self.order, number), removed=removed)
            case events.Arrange(order):
                return replace(self, order=tuple(order))
            case events.ClassKey(number, key):
                others = {other: theirs for other, theirs in self.keys.items() if theirs != key}
                return replace(self, keys={**others, number: key})
            case events.Colour(number, colour):
                return replace(self, colours={**self.colours, number: colour})

    def added(self, names: Sequence[str]) -> ClassBook:
        """Return the book with more classes, at the end."""
        n = len(self.names)
        return replace(self, names=[*self.names, *names], order=(*self.order, *range(n, n + len(names))))

    def with_numbers_of(self, later: ClassBook) -> ClassBook:
        """Return this book, as it was before another, with the numbers given since, of removed classes."""
        n = len(self.names)
        gone = dict.fromkeys(range(n, len(later.names)))
        return replace(self, names=[*self.names, *later.names[n:]], removed={**self.removed, **gone})


def _plain(name: str) -> str:
    """Return a name without what people do not see as a difference."""
    return " ".join(name.replace("_", " ").replace("-", " ").casefold().split())


def change_in_words(body: events.OfClasses, before: ClassBook) -> str:
    """Return what a change of classes was, for people."""

    def named(number: int) -> str:
        return f"\u201c{before.names[number]}\u201d"

    match body:
        case events.NewClass(name):
            return f"added \u201c{name}\u201d"
        case events.Rename(number, name):
            return f"renamed {named(number)} to \u201c{name}\u201d"
        case events.Describe(number):
            return f"described {named(number)}"
        case events.Remove(number, None):
            return f"removed {named(number)}"
        case events.Remove(number, into) if into is not None:
            return f"merged {named(number)} into {named(into)}"
        case events.Restore(number):
            return f"brought {named(number)} back"
        case events.ClassKey(number):
            return f"changed the key of {named(number)}"
        case events.Colour(number):
            return f"changed the colour of {named(number)}"
    return "changed the order"
