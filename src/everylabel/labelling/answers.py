"""The answers that stand, by item: where they are on record, and what they say by the classes of now."""

from array import array
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from everylabel.labelling.columns import Numbers, as_array
from everylabel.labelling.record import Record
from everylabel.labelling.records import Answer


class Answers(MutableMapping[int, list[Answer]]):
    """Answers of each item that has any; most have one, which takes eight bytes."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._place, self._value = Numbers(), Numbers()  # of items with one
        self._several: dict[int, array[Any]] = {}  # place and value of each, of items with more

    def __getitem__(self, item: int) -> list[Answer]:
        if item in self._place:
            return [self._answer(self._place[item], self._value[item])]
        both = self._several[item]
        return [self._answer(both[i], both[i + 1]) for i in range(0, len(both), 2)]

    def _answer(self, place: int, value: int) -> Answer:
        record = self.record
        return Answer(record.seq[place], record.people[record.person[place]], value)

    def __setitem__(self, item: int, answers: list[Answer]) -> None:
        both: array[Any] = array("i")
        for answer in answers:
            place = self.record.place_of(answer.seq)
            assert place is not None
            both.extend((place, answer.value))
        if item in self:
            del self[item]
        if len(answers) == 1:
            self._place[item], self._value[item] = both
        else:
            self._several[item] = both

    def __delitem__(self, item: int) -> None:
        if item in self._place:
            del self._place[item], self._value[item]
        else:
            del self._several[item]

    def __contains__(self, item: object) -> bool:
        return item in self._place or item in self._several

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self._place, *self._several]))

    def __len__(self) -> int:
        return len(self._place) + len(self._several)

    def packed(self) -> dict[str, np.ndarray]:
        """Return copies as arrays."""
        several: array[Any] = array("i")
        for both in self._several.values():
            several.extend(both)
        return {
            "place": self._place.packed(),
            "value": self._value.packed(),
            "items": np.array(list(self._several), np.int32),
            "sizes": np.array([len(both) for both in self._several.values()], np.int32),
            "several": as_array(several),
        }

    @classmethod
    def unpacked(cls, record: Record, arrays: dict[str, np.ndarray]) -> "Answers":
        """Return what has been packed."""
        made = cls(record)
        made._place, made._value = Numbers.unpacked(arrays["place"]), Numbers.unpacked(arrays["value"])
        at, several = 0, arrays["several"].tolist()
        for item, size in zip(arrays["items"].tolist(), arrays["sizes"].tolist(), strict=True):
            made._several[item] = array("i", several[at : at + size])
            at += size
        return made
