"""Sequences that grow at their end without a copy of what is there: each one made so far stays what it is.

What comes goes to a list that all share, each with its own end: a million items, and one more, cost one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
Join = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


class Appended(Sequence[T], Generic[T]):
    """A sequence, which does not change, and what came behind it."""

    def __init__(self, head: Sequence[T], tail: list[T], n: int) -> None:
        self._head, self._tail, self._n = head, tail, n  # of the list, the first n are ours

    def and_then(self, more: Sequence[T]) -> "Appended[T]":
        """Return these and more."""
        tail = self._tail if len(self._tail) == self._n else self._tail[: self._n]  # another has gone on
        tail.extend(more)
        return Appended(self._head, tail, self._n + len(more))

    def __len__(self) -> int:
        return len(self._head) + self._n

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return [self[i] for i in places]
        before = len(self._head)
        return self._head[places] if places < before else self._tail[places - before]

    def __iter__(self) -> Iterator[T]:
        return chain(self._head, islice(self._tail, self._n))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


def copied(some: Sequence[Any], more: Sequence[Any]) -> Sequence[Any]:
    """Return both in a list."""
    return [*some, *more]


def appended(some: Sequence[Any], more: Sequence[Any]) -> Sequence[Any]:
    """Return both, at the cost of the second."""
    return some.and_then(more) if isinstance(some, Appended) else Appended(some, list(more), len(more))
