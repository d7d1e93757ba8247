"""The chain of a log's events: each has a digest over itself and the one before.

    chain(i) = digest(chain(i - 1), event i),    chain(0) = ""

One that was changed, lost, put in or put elsewhere does not fit. A log whose end was cut off is told by its
head, which holds the last number and chain. This finds damage, and changes made in passing; it keeps nobody
out who can write to the log and computes all digests anew.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

SIZE = 16  # bytes of a digest


class Head(NamedTuple):
    """The last event's number and chain, and the digest of the items."""

    seq: int = 0
    chain: str = ""
    items: str = ""


class Row(NamedTuple):
    """An event as it is stored; one of a version before has no chain."""

    seq: int
    block: int
    at: float
    person: str
    kind: str
    body: str
    key: str | None
    chain: str | None = None


def digest(text: str) -> str:
    """Return a hash of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).hexdigest()


def link(before: str, row: Row) -> str:
    """Return the chain of an event behind one with the chain `before`."""
    seq, block, at, person, kind, body, key, _ = row
    size = "-" if key is None else len(key)
    return digest(
        f"{before} {seq:d} {block:d} {float(at)!r} {len(person)} {len(kind)} {len(body)} {size} "
        f"{person}{kind}{body}{key or ''}"
    )


def chained(before: str, rows: Iterable[Row]) -> list[Row]:
    """Return events with their chain, in order, behind one with the chain `before`."""
    linked = []
    for row in rows:
        before = link(before, row)
        linked.append(row._replace(chain=before))
    return linked


def fits(before: str, row: Row) -> bool:
    """Return whether an event is what was written behind one with the chain `before`."""
    try:
        return link(before, row) == row.chain
    except (TypeError, ValueError, AttributeError):  # a number that is none
        return False


BEGIN = Head()  # before the first event


def find_damage(rows: Iterable[Row], head: Head, after: Head = BEGIN) -> str | None:
    """Return what is wrong with all events after one, in order; None if they are whole.

    head : of the very moment at which the events were read
    """
    other = f"its seal is not that of event {head.seq}, its last; the events themselves are whole"
    n, last, chain = 0, after.seq, after.chain
    if last == head.seq and chain != head.chain:
        return other
    for row in rows:
        if not fits(chain, row):
            return f"event {row.seq} is not what was written; the {n:,} events before it are whole"
        n, last, chain = n + 1, row.seq, row.chain or ""
        if last == head.seq and chain != head.chain:
            return other
    if last == head.seq:
        return None
    if isinstance(head.seq, int) and last < head.seq:
        return f"the events after {last} are missing, of {head.seq:,}; the {n:,} there are whole"
    return f"its seal is behind: that of event {head.seq}, and its last is {last}; the events are whole"
