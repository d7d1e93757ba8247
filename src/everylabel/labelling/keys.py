"""The keys of requests, and the events they led to: one that is sent twice counts once, for ever.

Texts lie one behind the other; a digest of each, sorted, tells where to look. What came lately waits in a
dictionary and is sorted in at times, so that a look costs the same after a million.
"""

import hashlib
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from everylabel.labelling.columns import as_array, as_column

LATELY = 4096  # keys that wait to be sorted in


class Keys:
    """Which event has which key, in the order in which they came."""

    def __init__(self) -> None:
        self._texts = bytearray()
        self._ends: array[Any] = array("q")  # where the text of each ends
        self._seqs: array[Any] = array("q")  # and its event
        self._digests = np.zeros(0, np.uint64)  # of the keys that are sorted in
        self._order = np.zeros(0, np.int64)  # and the place of each
        self._lately: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, key: str, seq: int) -> None:
        """Take a key in that was not there, or that is another event's from now on."""
        self._texts += key.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._texts))
        self._seqs.append(seq)
        self._lately[key] = seq
        if len(self._lately) >= LATELY:
            self._sort_in()

    def get(self, key: str) -> int | None:
        """Return the number of a key's event."""
        if key in self._lately:
            return self._lately[key]
        digest = _digest(key.encode("utf-8", "surrogatepass"))
        end = int(np.searchsorted(self._digests, digest, side="right"))
        while end > 0 and self._digests[end - 1] == digest:
            end -= 1
            place = int(self._order[end])
            if self._text(place) == key:
                return int(self._seqs[place])
        return None

    def since(self, n: int) -> Iterator[tuple[str, int]]:
        """Return keys and events but the first n, in order."""
        return ((self._text(place), self._seqs[place]) for place in range(n, len(self)))

    def _text(self, place: int) -> str:
        start = self._ends[place - 1] if place else 0
        return self._texts[start : self._ends[place]].decode("utf-8", "surrogatepass")

    def _sort_in(self) -> None:
        places = range(len(self._order), len(self))
        fresh = [_digest(self._text(place).encode("utf-8", "surrogatepass")) for place in places]
        digests = np.r_[self._digests, np.array(fresh, np.uint64)]
        order = np.argsort(digests, kind="stable")  # of one key, the last event last
        self._digests, self._order = digests[order], np.r_[self._order, np.array(places, np.int64)][order]
        self._lately = {}

    def packed(self) -> dict[str, np.ndarray]:
        """Return copies of the texts, of where they end, and of the events."""
        texts = np.frombuffer(bytes(self._texts), np.uint8)
        return {"texts": texts, "ends": as_array(self._ends), "seqs": as_array(self._seqs)}

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray]) -> "Keys":
        """Return what has been packed."""
        made = cls()
        made._texts = bytearray(np.ascontiguousarray(arrays["texts"]).tobytes())
        made._ends, made._seqs = as_column("q", arrays["ends"]), as_column("q", arrays["seqs"])
        made._sort_in()
        return made


def _digest(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))
