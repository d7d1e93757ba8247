"""What of a damaged log is whole, and what that adds up to without the rest.

An event is whole if it fits its chain behind the event before, or if its chain was damaged and the next event
fits behind it. One that is lost is left out if it was about an item or a figure: the others mean the same
without it. If it may have changed the classes, or cannot be read, what follows might mean something else: it
is left out, too, unless it is asked for.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from everylabel.labelling import events
from everylabel.labelling.applying import apply
from everylabel.labelling.events import Event, from_row
from everylabel.labelling.ledger import Ledger
from everylabel.projects.database.chain import Head, Row, fits, link
from everylabel.projects.database.mending import mended
from everylabel.projects.database.noted import from_text
from everylabel.projects.database.raw_log import RawLog

ALONE = frozenset(
    body.kind
    for body in (
        *(events.Label, events.NoneOfThese, events.CannotTell, events.Not, events.Skip, events.Undo),
        *(events.Out, events.Sent),
        *(events.Release, events.Refit, events.Assessed, events.Wish, events.Finished, events.Unfinished),
    )
)  # the others mean the same without one of these
NAMED = 10**7  # names that help to put bits right, at most
_WORDS = {"cannot_tell": "an answer 'cannot tell'", "label": "a label", "undo": "an undo", "skip": "a skip"}


class Salvage(NamedTuple):
    """The events to go on with, and in sentences what was lost, put right or left out."""

    rows: list[Row]
    lost: list[str]
    mended: list[str]
    left: int = 0  # events after a loss that may have changed what they mean

    @property
    def whole(self) -> bool:
        return not self.lost and not self.mended


def salvage(log: RawLog, keep_later: bool = False) -> Salvage:
    """Return what can be kept of a log; keep_later: also what a loss may have given another meaning."""
    if log.head is None and all(row.chain is None for row in log.rows):
        return _unsealed(log)
    kept: list[Row] = []
    lost: list[str] = []
    put_right: list[str] = []
    names = _names(log.items)
    before, last = {""}, 0  # chains that the event before may have, and its number
    for i, row in enumerate(log.rows):
        then = log.rows[i + 1] if i + 1 < len(log.rows) else None
        found, before = _as_written(row, before, then, log.head, names)
        if found is not None:
            kept.append(found)
            if found[:-1] != row[:-1]:
                put_right.append(f"event {found.seq}: one bit had changed, and was put right")
            elif before != {row.chain}:
                put_right.append(f"event {found.seq}: its digest had changed; the event is whole")
        else:
            lost.append(_told(row, last))
            alone = row.kind in ALONE and row.seq == last + 1
            if not alone and not keep_later:
                return Salvage(kept, lost, put_right, len(log.rows) - i - 1)
        last = row.seq
    if log.head is not None and isinstance(log.head.seq, int) and log.head.seq > last:
        lost.append(f"the events after {last}, up to {log.head.seq}, are missing")
    return Salvage(kept, lost, put_right)


def _as_written(
    row: Row, before: set[str], then: Row | None, head: Head | None, names: Sequence[str]
) -> tuple[Row | None, set[str]]:
    """Return the event as it was written, if that can be known, and the chains it may have."""
    if any(fits(one, row) for one in before):
        return row, {str(row.chain)}
    computed = {chain for one in before if (chain := _link(one, row)) is not None}
    for chain in computed:
        if fits(chain, then) if then is not None else (head is not None and chain == head.chain):
            return row, {chain}
    for one in before:
        other = mended(row, one, names)
        if other is not None:
            return other, {str(row.chain)}
    return None, {str(row.chain), *computed}


def _names(items: str | None) -> list[str]:
    """Return what the source's items are called, if that can be read, and they are not too many."""
    try:
        keys = from_text(items or "").keys
    except (ValueError, RecursionError):
        return []
    return list(keys) if len(keys) <= NAMED else []


def _link(before: str, row: Row) -> str | None:
    try:
        return link(before, row)
    except (TypeError, ValueError, AttributeError):
        return None


def _unsealed(log: RawLog) -> Salvage:
    """Return the events of a log of a version before: those that can be understood."""
    kept, lost = list[Row](), list[str]()
    for row in log.rows:
        if _body(row) is None or not _is_text(row):
            lost.append(_told(row, row.seq - 1))
        else:
            kept.append(row)
    return Salvage(kept, lost, [])


def _is_text(row: Row) -> bool:
    """Return whether an event is of texts and numbers that can be written again."""
    try:
        "".join([row.person, row.kind, row.body, row.key or ""]).encode()
        return isinstance(row.block, int) and isinstance(row.at, float | int)
    except (TypeError, UnicodeEncodeError):
        return False


def _body(row: Row) -> Any:
    try:
        return from_row(row.kind, json.loads(row.body))
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        return None


def _told(row: Row, last: int) -> str:
    """Return what is lost, as far as it can be read."""
    gone = f"the events from {last + 1} to {row.seq - 1} are missing, and " if row.seq > last + 1 else ""
    body, when = _body(row), ""
    if isinstance(row.at, float) and 0 < row.at < 1e11:
        when = f" of {datetime.fromtimestamp(row.at):%Y-%m-%d %H:%M}"
    what = _WORDS.get(row.kind, f"of kind {row.kind}") if body is not None else "cannot be read"
    item = getattr(body, "item", None)
    about = "" if item is None else f" on item {item!r}"
    who = f" by {row.person!r}" if body is not None and row.person else ""
    return f"{gone}event {row.seq}{when} is not what was written (now: {what}{about}{who})"


def understood(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the events that mean something one after the other, and those that stand on one that is lost."""
    bodies = {row.seq: _body(row) for row in rows}
    joined = [name for body in bodies.values() if isinstance(body, events.Extended) for name in body.ids]
    named = [body.item for body in bodies.values() if isinstance(body, events.OfItem)]
    ledger = Ledger(list(dict.fromkeys(joined or named)))
    kept, unclear = list[Row](), list[Row]()
    for row in rows:
        body = bodies[row.seq]
        try:
            if getattr(body, "class_", -1) >= len(ledger.classes):
                raise LookupError
            apply(ledger, Event(row.seq, row.block, row.at, row.person, body, row.key))
            kept.append(row)
        except (LookupError, ValueError, TypeError, AttributeError, StopIteration):
            unclear.append(row)
    return kept, unclear
