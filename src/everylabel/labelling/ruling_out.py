"""What people say that an item is not, by the classes of now.

A class that a person gives an item later stands in place of all that they ruled out before. A class that
others were merged into is ruled out if all of them are.
"""

from collections.abc import Iterable
from typing import Protocol

from everylabel.labelling import events
from everylabel.labelling.class_book import ClassBook


class Said(Protocol):
    """What one person said of an item, on record."""

    @property
    def person(self) -> str: ...

    @property
    def body(self) -> events.Answered: ...


def ruled_out(entries: Iterable[Said], book: ClassBook, person: str | None = None) -> frozenset[int]:
    """Return the classes that people (or one of them) say an item is not of, from what stands on record."""
    said: dict[str, set[int]] = {}
    for entry in entries:
        if isinstance(entry.body, events.Not):
            said.setdefault(entry.person, set()).add(entry.body.class_)
        elif isinstance(entry.body, events.Label | events.NoneOfThese):
            said.pop(entry.person, None)
    told = set().union(*said.values()) if person is None else said.get(person, set())
    left = {book.now(number) for number in range(len(book.names)) if number not in told}
    return frozenset(number for number in book.present if number not in left)
