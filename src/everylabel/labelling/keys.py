"""The keys of requests, and the events they led to: one that is sent twice counts once, for ever.

Texts lie one behind the other, those that are UUIDs (as the page's are) as their 16 bytes; a digest of each,
sorted, tells where to look. What came lately waits in a dictionary and is merged in at times, so that a look
costs the same after a million.
"""

import hashlib
import re
from array import array
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import numpy as np

from everylabel.labelling.columns import as_array, as_column

LATELY = 4096  # keys that wait to be merged in
UUIDS = b"\xff"  # begins those that are UUIDs: no text in UTF-8 does
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Keys:
    """Which event has which key, in the order in which they came."""

    def __init__(self) -> None:
        self._texts = bytearray()
        self._ends: array[Any] = array("q")  # where the text of each ends
        self._seqs: array[Any] = array("q")  # and its event
        self._digests = np.zeros(0, np.uint32)  # of the keys that are merged in, sorted
        self._order = np.zeros(0, np.int32)  # and the place of each
        self._lately: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, key: str, seq: int) -> None:
        """Take a key in that was not there, or that is another event's from now on."""
        self._texts += _shortened(key)
        self._ends.append(len(self._texts))
        self._seqs.append(seq)
        self._lately[key] = seq
        if len(self._lately) >= LATELY:
            self._merge_in()

    def get(self, key: str) -> int | None:
        """Return the number of a key's event."""
        if key in self._lately:
            return self._lately[key]
        stored = _shortened(key)
        digest = np.uint32(_digest(stored))
        end = int(np.searchsorted(self._digests, digest, side="right"))
        while end > 0 and self._digests[end - 1] == digest:
            end -= 1
            place = int(self._order[end])
            if self._stored(place) == stored:
                return int(self._seqs[place])
        return None

    def since(self, n: int) -> Iterator[tuple[str, int]]:
        """Return keys and events but the first n, in order."""
        return ((_text(self._stored(place)), self._seqs[place]) for place in range(n, len(self)))

    def _stored(self, place: int) -> bytearray:
        start = self._ends[place - 1] if place else 0
        return self._texts[start : self._ends[place]]

    def _merge_in(self) -> None:
        places = np.arange(len(self._order), len(self), dtype=np.int32)
        fresh = np.array([_digest(self._stored(place)) for place in places.tolist()], np.uint32)
        order = np.argsort(fresh, kind="stable")  # of one key, the last event last
        at = np.searchsorted(self._digests, fresh[order], side="right")
        self._digests = np.insert(self._digests, at, fresh[order])
        self._order = np.insert(self._order, at, places[order])
        self._lately = {}

    def packed(self) -> dict[str, np.ndarray]:
        """Return copies of the texts, of where they end, of the events, and of what is sorted."""
        texts = np.frombuffer(bytes(self._texts), np.uint8)
        known = {"texts": texts, "ends": as_array(self._ends), "seqs": as_array(self._seqs)}
        return {**known, "digests": self._digests, "order": self._order}  # others take their place

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray]) -> "Keys":
        """Return what has been packed."""
        made = cls()
        made._texts = bytearray(np.ascontiguousarray(arrays["texts"]))
        made._ends, made._seqs = as_column("q", arrays["ends"]), as_column("q", arrays["seqs"])
        made._digests, made._order = arrays["digests"], arrays["order"]
        made._merge_in()
        return made


def _shortened(key: str) -> bytes:
    if _UUID.fullmatch(key):
        return UUIDS + bytes.fromhex(key.replace("-", ""))
    return key.encode("utf-8", "surrogatepass")


def _text(stored: bytearray) -> str:
    if stored.startswith(UUIDS):
        return str(UUID(bytes=bytes(stored[1:])))
    return stored.decode("utf-8", "surrogatepass")


def _digest(stored: bytes | bytearray) -> int:
    return int.from_bytes(hashlib.blake2b(stored, digest_size=4).digest(), "big")
