"""Ids of very many items in little memory: a sequence of different texts that knows where each one stands.

A list of a million ids and a dictionary of their places take some 200 MB. Here ids that are their own places
("0", "1", ...) take nothing, and others about 30 bytes each: their characters one behind the other, and the
hashes of all in order, among which a name is looked for. What is appended goes to a list and a dictionary
until it is worth packing. Few ids are left as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from operator import eq
from typing import NamedTuple, Protocol, overload

import numpy as np

PACKED_FROM = 4096  # ids: fewer lie in a list
GROWN = 4  # what was appended is packed when it is more than this part of what is


class Head(Protocol):
    """Ids that do not change."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> str: ...
    def names(self, places: Iterable[int]) -> Iterable[str]:
        """Return the names at some places."""

    def find(self, name: str) -> int | None:
        """Return the place of a name, None if it is not among these."""


class Numbers:
    """The names "0" to "n - 1"."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, at: int) -> str:
        return str(at)

    def names(self, places: Iterable[int]) -> Iterable[str]:
        return map(str, places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.n == other.n

    __hash__ = None  # type: ignore[assignment]

    def find(self, name: str) -> int | None:
        """Return the number that a name is, written as we write it."""
        number = int(name) if len(name) < 20 and name.isascii() and name.isdigit() else self.n
        return number if number < self.n and str(number) == name else None


class Packed:
    """Names as bytes, where each ends, and their hashes in order with the place of each."""

    def __init__(self, names: Sequence[str]) -> None:
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        self._ends = np.cumsum([0, *map(len, encoded)]).data  # one by one these are faster than arrays
        self._bytes = b"".join(encoded)
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        order = np.argsort(hashes, kind="stable").astype(np.int32 if len(names) < 2**31 else np.int64)
        self._order, self._hashes = order.data, hashes[order].data

    def __len__(self) -> int:
        return len(self._hashes)

    def __getitem__(self, at: int) -> str:
        return self._bytes[self._ends[at] : self._ends[at + 1]].decode("utf-8", "surrogatepass")

    def names(self, places: Iterable[int]) -> Iterable[str]:
        return map(self.__getitem__, places)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Packed):
            return self is other
        return self._bytes == other._bytes and np.array_equal(self._ends, other._ends)

    __hash__ = None  # type: ignore[assignment]

    def find(self, name: str) -> int | None:
        """Return the place of a name, None if it is not among these."""
        wanted = hash(name)
        at = bisect_left(self._hashes, wanted)
        while at < len(self) and self._hashes[at] == wanted:
            if self[self._order[at]] == name:
                return self._order[at]
            at += 1
        return None


class State(NamedTuple):
    """Names that do not change, and those that came since; another one when they are packed."""

    head: Head
    tail: list[str]
    at: dict[str, int]  # the places of these


class IdList(Sequence[str]):
    """Different names in order; `position` is the place of each. One thread appends, any may look."""

    _state: State

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Hold names; of others of this kind what is packed is shared."""
        if isinstance(names, IdList):
            head, tail, at = names._state
            self._state = State(head, list(tail), dict(at))
        else:
            self._state = _packed(names if isinstance(names, Sequence) else list(names))

    @classmethod
    def numbered(cls, n: int) -> IdList:
        """Return the names "0" to "n - 1"."""
        names = cls()
        names._state = State(Numbers(n), [], {})
        return names

    def noted(self) -> int | list[str]:
        """Return what is written down of them: all names, or their number where they are "0", "1", ..."""
        head, tail, _ = self._state
        return len(head) if isinstance(head, Numbers) and len(head) and not tail else list(self)

    @classmethod
    def of_noted(cls, noted: int | Sequence[str]) -> IdList:
        """Return the names that were written down."""
        return cls.numbered(noted) if isinstance(noted, int) else cls(noted)

    @property
    def position(self) -> Mapping[str, int]:
        """The place of each name, as a dictionary that follows what is appended."""
        return Places(self)

    def append(self, name: str) -> None:
        """Take in one more, which is not there yet."""
        self.extend([name])

    def extend(self, names: Sequence[str]) -> None:
        """Take in more, which are not there yet."""
        head, tail, at = self._state
        if len(tail) + len(names) > max(PACKED_FROM, len(head) // GROWN):
            self._state = _packed([*self, *names])
            return
        first = len(head) + len(tail)
        tail.extend(names)  # whoever finds a name finds it in its place
        at.update(zip(names, count(first)))

    def find(self, name: object) -> int | None:
        """Return the place of a name, None if it is not among these."""
        if not isinstance(name, str):
            return None
        head, _, at = self._state
        found = at.get(name)
        return head.find(name) if found is None else found

    def __len__(self) -> int:
        head, tail, _ = self._state
        return len(head) + len(tail)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            some = range(len(self))[at]
            if some == range(len(self)):
                return self
            head = self._state.head
            whole = len(some) and max(some[0], some[-1]) < len(head)
            return list(head.names(some)) if whole else [self[i] for i in some]
        head, tail, _ = self._state
        place = range(len(head) + len(tail))[at]
        return head[place] if place < len(head) else tail[place - len(head)]

    def __iter__(self) -> Iterator[str]:
        head, tail, _ = self._state
        return chain(head.names(range(len(head))), tail)

    def __contains__(self, name: object) -> bool:
        return self.find(name) is not None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return False
        if isinstance(other, IdList) and self._state.head == other._state.head:
            return self._state.tail == other._state.tail
        return all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"IdList({len(self):,})"


class Places(Mapping[str, int]):
    """The place of each of some names."""

    def __init__(self, names: IdList) -> None:
        self._names = names

    def __getitem__(self, name: str) -> int:
        found = self._names.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _packed(names: Sequence[str]) -> State:
    """Return names that take as little room as pays."""
    n = len(names)
    if n <= PACKED_FROM:
        return State(Numbers(0), list(names), {name: i for i, name in enumerate(names)})
    if all(map(eq, names, map(str, range(n)))):
        return State(Numbers(n), [], {})
    return State(Packed(names), [], {})
