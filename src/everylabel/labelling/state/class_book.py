"""The classes of a project: names, descriptions, keys, colours, order, and which were removed.

A class has one identity, its number in the log, which never changes and is never reused. The model's column
of a class (`State.columns`) and its place on the page (`ClassBook.order`) are looked up from it. A removed
class passes its labels to another class, or its items are free again; a restored one has its labels back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from everylabel.log import events


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
    """Return a change of classes in words for people."""

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
