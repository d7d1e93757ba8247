"""The hash chain of a log, the stored text of its source, and the errors of logs.

    chain(i) = digest(chain(i - 1), event i),    chain(0) = ""

An event that was changed, lost, inserted or moved does not fit its chain. The head holds the number and
chain of the last event, so that a log whose end was cut off is noticed, too. This finds damage and careless
changes; it is no signature: anyone who can write to the log can compute the digests again.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import packed_digests, unpacked_digests
from everylabel.data.items import IdList, Numbered, ids_from_stored, stored_ids
from everylabel.data.source_diff import NOT_NOTED, Known

RECOVER = (
    "nothing was changed; `everylabel doctor PROJECT` copies the events before the damage to a new log "
    "beside this one"
)
MOST_NAMED = 10**7  # rows whose ids are in memory without a digest for each
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**11)]  # of rows: no source has more
# errors caused by damaged values
GARBLED = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, StopIteration)


class StoreError(EverylabelError):
    """The log could not be read or written; everything acknowledged before is safe."""


class NoLog(StoreError):
    """There is no log: no file, or a database without our tables."""

    def __init__(self, shown: str, what: str) -> None:
        super().__init__(f"store {shown} {what}; expected a log of everylabel label")


class Damaged(StoreError):
    """The log is damaged; what : the damage, in a sentence."""

    def __init__(self, shown: str, what: str) -> None:
        super().__init__(f"store {shown} is damaged: {what}; {RECOVER}")
        self.what = what


class Head(NamedTuple):
    """The last event's number and chain, and the digest of the stored source."""

    seq: int = 0
    chain: str = ""
    items: str = ""


BEGIN = Head()  # before the first event


class Row(NamedTuple):
    """An event as it is stored; version 0.1 wrote no chain."""

    seq: int
    block: int  # the same as seq; versions up to 0.2 grouped events by it
    at: float
    person: str
    kind: str
    body: str
    key: str | None
    chain: str | None = None


def digest(text: str) -> str:
    """Return a hash of a text."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def link(before: str, row: Row) -> str:
    """Return the chain of an event whose predecessor has the chain `before`."""
    seq, block, at, person, kind, body, key, _ = row
    size = "-" if key is None else len(key)
    return digest(
        f"{before} {seq:d} {block:d} {float(at)!r} {len(person)} {len(kind)} {len(body)} {size} "
        f"{person}{kind}{body}{key or ''}"
    )


def chained(before: str, rows: Iterable[Row]) -> list[Row]:
    """Return events with their chain, in order; their predecessor has the chain `before`."""
    linked = []
    for row in rows:
        before = link(before, row)
        linked.append(row._replace(chain=before))
    return linked


def fits(before: str, row: Row) -> bool:
    """Return whether an event fits its chain behind one with the chain `before`."""
    try:
        return link(before, row) == row.chain
    except (TypeError, ValueError, AttributeError):  # a field of another type
        return False


def find_damage(rows: Iterable[Row], head: Head | None, start: Head = BEGIN) -> str | None:
    """Return the damage of the events after `start`, given in order; None if there is none.

    head : read in the same transaction as the events; None for a log of version 0.1
    """
    if head is None:
        chains = [row.chain is not None for row in rows]
        lost = f"its head is lost; {len(chains):,} events are there, perhaps not all"
        return lost if any(chains) else None
    other = f"its head is not that of event {head.seq}, its last; the events themselves are whole"
    n, last, chain = 0, start.seq, start.chain
    if last == head.seq and chain != head.chain:
        return other
    for row in rows:
        if not fits(chain, row):
            return f"event {row.seq} does not fit the hash chain; the {n:,} events before it are whole"
        n, last, chain = n + 1, row.seq, row.chain or ""
        if last == head.seq and chain != head.chain:
            return other
    if last == head.seq:
        return None
    if isinstance(head.seq, int) and last < head.seq:
        return f"the events after {last} are missing, of {head.seq:,}; the {n:,} there are whole"
    return f"its head is behind: that of event {head.seq}, and its last is {last}; the events are whole"


def find_other_items(text: str | None, head: Head | None) -> str | None:
    """Return the damage of the stored source; None if there is none, or the log has no head."""
    noted = "" if text is None else digest(text)
    if head is None or noted == head.items:
        return None
    return "the stored source was changed; the events are not affected"


class _StoredSource(msgspec.Struct, forbid_unknown_fields=True):
    """The rows of a source, as JSON."""

    keys: _Count | list[str]  # n stands for the ids "0" to "n - 1"
    digests: str | list[str]
    own_ids: list[str] | None = None
    id_column: str | None = None
    gone: _Count = 0
    numbered: _Count | None = None  # the number of rows whose ids are their numbers


def to_text(known: Known) -> str:
    """Return the rows of a source as JSON text, for the store."""
    stored = known._asdict() | {"digests": packed_digests(known.digests)}
    if isinstance(known.keys, Numbered):
        stored |= {"keys": [], "numbered": len(known.keys)}
    else:
        stored["keys"] = stored_ids(known.keys)
    return json.dumps(stored, ensure_ascii=False)


def from_text(text: str) -> Known:
    """Return the source from its JSON text, of this or an earlier version; raise ValueError if invalid."""
    stored = json.loads(text)
    if isinstance(stored, list) and len(stored) == 2:
        stored = {"keys": stored[0], "digests": stored[1], "id_column": NOT_NOTED}
    found = msgspec.convert(stored, _StoredSource)
    if isinstance(found.keys, int) and found.keys > max(MOST_NAMED, len(found.digests)):
        raise ValueError("it has more rows than digests")
    numbered = found.numbered
    keys = IdList(ids_from_stored(found.keys)) if numbered is None else Numbered(numbered)
    digests = unpacked_digests(found.digests)
    return Known(keys, digests, own_ids=found.own_ids, id_column=found.id_column, gone=found.gone)
