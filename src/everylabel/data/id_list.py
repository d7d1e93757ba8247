"""Ids of items in their order, with the position of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload


class IdList(Sequence[str]):
    """Distinct ids; `position` maps an id to its place. One thread appends, any thread may read."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids = list(ids)
        known = ids.position if isinstance(ids, IdList) else None
        self.position: Mapping[str, int] = (
            dict(known) if isinstance(known, dict) else {name: i for i, name in enumerate(self._ids)}
        )

    def extend(self, ids: Iterable[str]) -> None:
        """Append ids that are not in the list yet."""
        position = self.position
        assert isinstance(position, dict)
        for name in ids:
            self._ids.append(name)
            position[name] = len(self._ids) - 1

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return self._ids[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __contains__(self, name: object) -> bool:
        return name in self.position

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return False
        return self._ids == (other._ids if isinstance(other, IdList) else list(other))

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,})"


class Numbered(IdList):
    """The ids "0" to "n - 1" of the rows of shards; they are computed and never grow."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.position = _Numbers(n)

    def extend(self, ids: Iterable[str]) -> None:
        if list(ids):
            raise TypeError("the rows of shards do not grow")

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        rows = range(self._n)[at]
        if isinstance(rows, range):
            return self if rows == range(self._n) else list(map(str, rows))
        return str(rows)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._n))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbered):
            return other._n == self._n
        return isinstance(other, Sequence) and len(other) == self._n and all(map(str.__eq__, self, other))

    __hash__ = None


class _Numbers(Mapping[str, int]):
    """The position of each of the ids "0" to "n - 1"."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __getitem__(self, name: str) -> int:
        number = int(name) if isinstance(name, str) and name.isascii() and name.isdigit() else self._n
        if number < self._n and str(number) == name:
            return number
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._n))

    def __len__(self) -> int:
        return self._n


def id_list(ids: Sequence[str]) -> IdList:
    """Return ids with their positions, for those that only read them: an `IdList` is returned itself."""
    return ids if isinstance(ids, IdList) else IdList(ids)


def stored_ids(ids: Sequence[str]) -> int | list[str]:
    """Return ids as they are stored: n stands for the ids "0" to "n - 1"."""
    n = len(ids)
    if n and (isinstance(ids, Numbered) or all(map(str.__eq__, ids, map(str, range(n))))):
        return n
    return list(ids)


def ids_from_stored(stored: int | Sequence[str]) -> Sequence[str]:
    """Return ids from their stored form."""
    return Numbered(stored) if isinstance(stored, int) else stored
