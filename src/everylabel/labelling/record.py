"""All that people said of items, on record in columns: an entry is made when somebody looks at it."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from everylabel.labelling import events
from everylabel.labelling.columns import Numbers, as_array, as_column, taken
from everylabel.labelling.records import Entry

KINDS = (events.Label, events.NoneOfThese, events.Not, events.CannotTell, events.Skip)
LABEL, NONE_OF_THESE, NOT, CANNOT, SKIP = range(len(KINDS))
_KIND = {kind: number for number, kind in enumerate(KINDS)}
CHECK, TRUTH = 1, 2  # flags
NO = -1  # class, or place
COLUMNS = {
    "seq": "q",  # number of the event
    "at": "d",
    "person": "i",  # by the order in which people came
    "item": "i",
    "kind": "b",  # of KINDS
    "class_": "i",
    "guess": "i",
    "sure": "d",  # NaN: none
    "flags": "b",
    "origin": "b",  # of a label: 0 a person's, else one of `origins`
    "since_bulk": "i",  # events since the first that was given with it, and one; 0: given alone
    "since_shown": "i",  # events since the item was handed to the person; 0: it never was
    "before": "i",  # place of what was said of the item before
}


class Record(Sequence[Entry]):
    """Entries in the order in which they came; places in it stay.

    ids : of the items; theirs is the sequence, which grows
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.people: list[str] = []
        self.origins: list[str | bool] = [False]
        self.latest = Numbers()  # item -> place of what was said of it last
        self._number: dict[str, int] = {}  # of a person
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in COLUMNS.items()}
        self._name_columns()

    def _name_columns(self) -> None:
        columns = self.columns
        self.seq, self.at = columns["seq"], columns["at"]
        self.person, self.kind = columns["person"], columns["kind"]
        self.class_, self.flags, self.before = columns["class_"], columns["flags"], columns["before"]

    def add(self, event: events.Event, item: int, body: events.Answered, shown: int = 0) -> None:
        """Put on record what was said of an item; shown : the event by which it was handed to the person."""
        values = (
            event.seq,
            event.at,
            self._person(event.person),
            item,
            _KIND[type(body)],
            *_said(body),
            self._origin(getattr(body, "imported", False)),
            _since(event.seq, getattr(body, "bulk", None) or 0),
            _since(event.seq, shown),
            self.latest.get(item, NO),
        )
        here = len(self)
        try:
            for column, value in zip(self.columns.values(), values, strict=True):
                column.append(value)
        except (TypeError, OverflowError):  # a log of somebody else's making: nothing of it is on record
            for column in self.columns.values():
                del column[here:]
            raise
        self.latest[item] = here

    def _person(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self.people)
            self.people.append(name)
        return number

    def _origin(self, imported: str | bool) -> int:
        if imported is False:
            return 0
        known = [i for i, one in enumerate(self.origins) if one is imported or one == imported]
        if not known:
            self.origins.append(imported)
        return known[0] if known else len(self.origins) - 1

    def __len__(self) -> int:
        return len(self.seq)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        columns = self.columns
        item: int = columns["item"][place]
        person = self.people[self.person[place]]
        return Entry(self.seq[place], self.at[place], person, item, self.body(place))

    def body(self, place: int) -> events.Answered:
        """Return what was said."""
        columns, kind = self.columns, self.kind[place]
        name, check = self.ids[columns["item"][place]], bool(self.flags[place] & CHECK)
        if kind == CANNOT:
            return events.CannotTell(name, check)
        if kind == SKIP:
            return events.Skip(name, check)
        guess, sure = columns["guess"][place], columns["sure"][place]
        foretold = None if guess == NO else guess, None if sure != sure else sure
        if kind == NONE_OF_THESE:
            return events.NoneOfThese(name, *foretold, check)
        if kind == NOT:
            return events.Not(name, self.class_[place], *foretold, check)
        since, truth = columns["since_bulk"][place], bool(self.flags[place] & TRUTH)
        bulk = self.seq[place] - since + 1 if since else None
        origin = self.origins[columns["origin"][place]]
        return events.Label(name, self.class_[place], *foretold, check, origin, bulk, truth)

    def place_of(self, seq: int) -> int | None:
        """Return where an event is on record."""
        place = bisect_left(self.seq, seq)
        return place if place < len(self) and self.seq[place] == seq else None

    def entry(self, seq: int) -> Entry | None:
        """Return what is on record by the number of its event."""
        place = self.place_of(seq)
        return None if place is None else self[place]

    def places(self, item: int) -> list[int]:
        """Return where all is that was said of an item, in order."""
        found, place, before = [], self.latest.get(item, NO), self.before
        while place != NO:
            found.append(place)
            place = before[place]
        return found[::-1]

    def of(self, item: int) -> list[Entry]:
        """Return all that was said of an item, in order."""
        return [self[place] for place in self.places(item)]

    def shown(self, place: int) -> int:
        """Return the event by which the item had been handed to whoever said this; 0 if it never was."""
        since = self.columns["since_shown"][place]
        return int(self.seq[place] - since + 1) if since else 0

    def newest_first(self, person: str = "") -> Iterator[int]:
        """Return the places of all that a person, or anybody, said, the latest first."""
        number = self._number.get(person, NO)
        places = range(len(self) - 1, -1, -1)
        return (i for i in places if self.person[i] == number) if person else iter(places)

    def imported(self) -> list[int]:
        """Return the places of labels that no person gave on the page."""
        places: list[int] = np.flatnonzero(as_array(self.columns["origin"])).tolist()
        return places

    def foretold(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return guesses (-1: none) and how sure the model was (NaN: not a label, or unknown) at places."""
        kind, guess, sure = (taken(self.columns[name], places) for name in ("kind", "guess", "sure"))
        return guess, np.where(kind == LABEL, sure, np.nan)

    def packed(self) -> dict[str, np.ndarray]:
        """Return copies of the columns."""
        return {name: as_array(column) for name, column in self.columns.items()}

    @classmethod
    def unpacked(
        cls,
        ids: Sequence[str],
        people: Sequence[str],
        origins: Sequence[str | bool],
        latest: Numbers,
        columns: Mapping[str, np.ndarray],
    ) -> "Record":
        """Return a record that has been packed."""
        made = cls(ids)
        made.people, made.origins, made.latest = list(people), list(origins), latest
        made._number = {name: i for i, name in enumerate(people)}
        made.columns = {name: as_column(code, columns[name]) for name, code in COLUMNS.items()}
        made._name_columns()
        return made


def _said(body: events.Answered) -> tuple[int, int, float, int]:
    """Return class, guess, how sure the model was, and flags."""
    class_: int = getattr(body, "class_", NO)
    guess: int | None = getattr(body, "guess", None)
    sure: float | None = getattr(body, "sure", None)
    flags = CHECK * bool(body.check) + TRUTH * bool(getattr(body, "truth", False))
    return class_, NO if guess is None else guess, np.nan if sure is None else sure, flags


def _since(seq: int, earlier: int) -> int:
    return seq - earlier + 1 if earlier else 0
