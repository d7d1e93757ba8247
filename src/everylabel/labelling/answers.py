"""The answers that stand, by item: where they are on record, and what they say by the classes of now."""

from array import array
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from everylabel.labelling.columns import Numbers, as_array, as_column
from everylabel.labelling.record import NO, Record
from everylabel.labelling.records import Answer


class Answers(MutableMapping[int, list[Answer]]):
    """Answers of each item that has any: a chain through the record, which takes eight bytes an answer."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._first = Numbers()  # item -> place of its first answer; NO: of none, while they are counted
        self._next: array[Any] = array("i")  # by place on record: that of the item's next answer; NO: no more
        self._value: array[Any] = array("i")  # and what this one says

    def __getitem__(self, item: int) -> list[Answer]:
        record, place, found = self.record, self._first[item], list[Answer]()
        while place != NO:
            person = record.people[record.person[place]]
            found.append(Answer(record.seq[place], person, self._value[place]))
            place = self._next[place]
        return found

    def __setitem__(self, item: int, answers: list[Answer]) -> None:
        more = [NO] * (len(self.record) - len(self._next))
        self._next.extend(more)
        self._value.extend(more)
        following = NO
        for answer in reversed(answers):
            place = self.record.place_of(answer.seq)
            assert place is not None
            self._next[place], self._value[place] = following, answer.value
            following = place
        self._first[item] = following

    def __delitem__(self, item: int) -> None:
        del self._first[item]

    def __contains__(self, item: object) -> bool:
        return item in self._first

    def __iter__(self) -> Iterator[int]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def packed(self) -> dict[str, np.ndarray]:
        """Return copies as arrays."""
        return {
            "first": self._first.packed(),
            "next": as_array(self._next),
            "value": as_array(self._value),
        }

    @classmethod
    def unpacked(cls, record: Record, arrays: dict[str, np.ndarray]) -> "Answers":
        """Return what has been packed."""
        made = cls(record)
        made._first = Numbers.unpacked(arrays["first"])
        made._next, made._value = as_column("i", arrays["next"]), as_column("i", arrays["value"])
        return made
