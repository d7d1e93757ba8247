"""Rows that are known by their numbers alone: those of shards, which never come or go."""

from everylabel.data.id_list import IdList, Numbers, State


class Numbered(IdList):
    """The names "0" to "n - 1", for ever."""

    def __init__(self, n: int) -> None:
        self._state = State(Numbers(n), [], {})
