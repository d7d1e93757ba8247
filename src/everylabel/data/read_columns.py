"""Columns of a source that lie elsewhere and are read when they are asked for."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, overload


class ReadColumn(Sequence[Any]):
    """A column whose values are of one type, which is known before any is read: int, float or str."""

    type: type

    @abstractmethod
    def at(self, i: int) -> Any:
        """Return the value of a row."""

    @overload
    def __getitem__(self, i: int) -> Any: ...

    @overload
    def __getitem__(self, i: slice) -> list[Any]: ...

    def __getitem__(self, i: int | slice) -> Any:
        some = range(len(self))[i]
        return self.at(some) if isinstance(some, int) else [self.at(each) for each in some]
