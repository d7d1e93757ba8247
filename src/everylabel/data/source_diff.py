"""The difference between a source and the rows in a project's log.

A row is identified by its own id if the source has ids, else by its content, so that moved rows are found.
Rows with equal content are distinguished by their order. A row with different content counts as changed, as
do rows that replace the same number of others: their labels may not fit any more.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.digests import features_digest
from everylabel.data.items import IdList, Items, Numbered, id_list

NOT_NOTED = "?"  # earlier versions did not record whether ids were the source's own


class RecordedRows(NamedTuple):
    """The recorded rows: the source as it was last time, followed by rows that were missing already.

    keys : permanent ids in the log
    digests : one per row, or a single one for all
    own_ids : the source's own ids, "" for a row without one; None if the source had none
    id_column : the column of these ids
    gone : number of rows, at the end, that were missing already
    """

    keys: Sequence[str]
    digests: Sequence[str]
    own_ids: Sequence[str] | None = None
    id_column: str | None = None
    gone: int = 0

    @property
    def is_of_each(self) -> bool:
        """Whether each row has a digest of its own."""
        return len(self.digests) == len(self.keys)

    def name(self, i: int) -> str:
        """Return a row's name for people: its own id or its id in the log."""
        return self.keys[i] if self.own_ids is None else self.own_ids[i] or self.keys[i]

    def knows_ids_of(self, items: Items) -> bool:
        """Return whether the rows can be matched with `items` by their own ids."""
        return self.own_ids is not None and items.own_ids is not None and self.id_column == items.id_column

    def resolved(self, items: Items) -> "RecordedRows":
        """Return the rows with own ids if their keys are such; if not recorded, the contents decide."""
        if self.id_column != NOT_NOTED:
            return self
        own = items.own_ids
        if own is not None and self.is_of_each and len(items.digests) == len(own):
            digest = dict(zip(own, items.digests, strict=True))
            pairs = zip(self.keys, self.digests, strict=True)
            same = [digest[key] == old for key, old in pairs if key in digest]
            if not same or 2 * sum(same) < len(same):
                own = None
        if own is None:
            return self._replace(id_column=None)
        return self._replace(own_ids=self.keys, id_column=items.id_column)

    def renewed(self, items: Items) -> "RecordedRows":
        """Return the current rows of a source by their ids in the log, followed by all missing rows."""
        items = items.of_source()
        known = self.resolved(items)
        keys = id_list(items.ids)
        now = RecordedRows(keys, list(items.digests), items.own_ids and list(items.own_ids))
        now = now._replace(id_column=items.id_column)
        if not (known.is_of_each and now.is_of_each):
            return now
        all_there = now.keys == known.keys
        gone = [] if all_there else [i for i, key in enumerate(known.keys) if key not in now.keys]
        if now.own_ids is not None:
            same = known.own_ids if known.knows_ids_of(items) else None
            now = now._replace(own_ids=[*now.own_ids, *("" if same is None else same[i] for i in gone)])
        return now._replace(
            keys=IdList([*now.keys, *(known.keys[i] for i in gone)]) if gone else now.keys,
            digests=[*now.digests, *(known.digests[i] for i in gone)],
            gone=len(gone),
        )


Matches = list[int | None]  # for each new row, the position of the matching old row


@dataclass(frozen=True)
class Change:
    """The names of new, missing and changed rows since last time.

    keys : ids in the log of all current rows
    changed_keys : ids of the rows with different content
    swapped : number of changed rows whose content another id had before
    moved : number of rows in another position
    others : number of rows identified by number alone that seem to differ from last time's
    """

    appended: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    keys: Sequence[str] = ()
    changed_keys: tuple[str, ...] = ()
    swapped: int = 0
    moved: int = 0
    others: int = 0

    def __bool__(self) -> bool:
        return bool(self.appended or self.gone or self.changed or self.moved or self.others)

    @property
    def only_appended(self) -> bool:
        """Whether all earlier rows are present and unchanged."""
        return not (self.gone or self.changed or self.others)

    def __str__(self) -> str:
        parts = ((self.appended, "new"), (self.gone, "gone"), (self.changed, "with other content"))
        parts_text = [f"{len(ids):,} {what}: {listed(list(ids))}" for ids, what in parts if ids]
        if self.moved:
            parts_text.append(f"{self.moved:,} moved, with their labels")
        if self.others:
            parts_text.append(
                f"{self.others:,} rows of shards have changed; labels stay with their row numbers"
            )
        return "; ".join(parts_text)

    def check(
        self, source: str, accept: bool = False, cause: str = "", unlabelled: bool = False
    ) -> str | None:
        """Return a note on the changes, None without any; raise an error if labels may not fit any more.

        cause : the option that differs from last time, if known
        unlabelled : there are no answers yet, so no label can be wrong
        """
        if not self:
            return None
        if unlabelled and not self.only_appended:
            return f"{source} is read again, since nothing is labelled yet ({self})"
        if self.only_appended or accept:
            return f"{source} has changed since last time ({self})"
        if self.others:
            text = (
                f"{_other_rows(self.others, self.others)}. If each row is still of the same item (the shards "
                "were embedded again, or an earlier version of everylabel recognised them by less), continue "
                "labelling with --accept-changes: labels stay with their row numbers"
            )
            raise EverylabelError(text)
        advice = "Put the old file back; or"
        if cause:
            advice = f"Last time {cause}: leave that as it was; or"
        elif Path(source).is_dir():
            advice = "Put the files back under their old names; or"
        elif 2 * self.swapped > len(self.changed):
            advice = "If the rows got new ids, pass --id-column none to recognise rows by their content; or"
        then = ["labels of missing rows are kept and not used"] if self.gone else []
        if self.changed:
            then.append("labels of changed rows do not count, and the page asks for them again")
            then.append("--confirm-labels instead keeps these labels valid")
        raise EverylabelError(
            f"source {source!r} has changed since it was labelled ({self}). {advice} continue labelling with "
            f"--accept-changes: {'; '.join(then)}"
        )


def match_rows(old: Sequence[str], new: Sequence[str]) -> Matches:
    """Return for each new row the position of the matching old row, or None.

    old, new : ids of the rows, or digests of their contents; equal ones are matched in order, first to first
    """
    unmatched: dict[str, deque[int]] = {}
    for i, name in enumerate(old):
        unmatched.setdefault(name, deque()).append(i)
    return [unmatched[name].popleft() if unmatched.get(name) else None for name in new]


def compare(known: RecordedRows, items: Items, taken: Sequence[str] = ()) -> Change:
    """Return the changes since the rows were recorded; none if there is no record. Sent items never change.

    taken : ids that no new row may get, besides those of sent items
    """
    if isinstance(items.ids, Numbered):
        return _compare_numbered(known, items)
    if items.sent:
        sent = tuple(items.ids[len(items.ids) - items.sent :])
        change = _compare(known, items.of_source(), (*taken, *sent))
        return replace(change, keys=IdList([*change.keys, *sent]))
    return _compare(known, items, taken)


def _compare_numbered(known: RecordedRows, items: Items) -> Change:
    """Return the change of rows identified by number alone; refuse a different number of rows."""
    if known.keys and known.keys != items.ids:
        raise EverylabelError(_other_rows(len(items.ids), len(known.keys)))
    same = not known.keys or list(known.digests) == list(items.digests)
    return Change(keys=items.ids, others=0 if same else len(items.ids))


def _other_rows(now: int, before: int) -> str:
    return (
        f"these {now:,} rows are not the {before:,} that were labelled last time; expected the same features "
        "in the same order, since rows of shards are known by their number: put the old ones back, or name "
        "another folder by --project"
    )


def _compare(known: RecordedRows, items: Items, sent: Sequence[str]) -> Change:
    if not known.keys:
        fresh = _keys(sent, items.ids, [None] * len(items.ids)) if sent else items.ids
        return Change(keys=IdList(fresh))
    known = known.resolved(items)
    there = len(known.keys) - known.gone
    by_id = known.knows_ids_of(items)
    if _as_it_was(known, items, there, by_id):
        keys = known.keys[:there]
        return Change(keys=id_list(items.ids) if items.ids == keys else IdList(keys))
    if known.is_of_each and len(items.digests) == len(items.ids):
        names = known.own_ids if by_id else known.digests
        found = match_rows(names or (), (items.own_ids if by_id else items.digests) or ())
        if not by_id:
            _fill_edited(found, there)
        pairs = enumerate(found)
        changed = [j for j, i in pairs if i is not None and known.digests[i] != items.digests[j]]
    else:
        found = match_rows(known.keys, items.ids)
        changed = [] if _same_arrays(known, items) else [j for j, i in enumerate(found) if i is not None]
    now, taken, before = _keys(known.keys, items.ids, found, sent), set(found), set(known.digests)
    return Change(
        appended=tuple(items.known_as(j) for j, i in enumerate(found) if i is None or i >= there),
        gone=tuple(known.name(i) for i in range(there) if i not in taken),
        changed=tuple(items.known_as(j) for j in changed),
        keys=IdList(now),
        changed_keys=tuple(now[j] for j in changed),
        swapped=sum(items.digests[j] in before for j in changed) if by_id else 0,
        moved=_moved([i for i in found if i is not None and i < there]),
    )


def _as_it_was(known: RecordedRows, items: Items, there: int, by_id: bool) -> bool:
    """Return whether all rows are unchanged and in the same order."""
    contents = known.digests[:there] if known.is_of_each else known.digests
    if there != len(items.ids) or list(contents) != list(items.digests):
        return False
    return not by_id or list((known.own_ids or ())[:there]) == list(items.own_ids or ())


def _fill_edited(found: Matches, there: int) -> None:
    """Match a run of new rows with an equally long run of old rows at the same position: they were edited."""
    taken, at = set(found), 0
    while at < len(found):
        end = at
        while end < len(found) and found[end] is None:
            end += 1
        before, after = found[at - 1] if at else -1, found[end] if end < len(found) else there
        if end > at and before is not None and after is not None:
            stood = range(before + 1, after)
            if len(stood) == end - at and taken.isdisjoint(stood):
                found[at:end] = stood
        at = end + 1


def _keys(known: Sequence[str], fresh: Sequence[str], found: Matches, sent: Sequence[str] = ()) -> list[str]:
    """Return each row's id in the log: its existing one, or an unused one for a new row."""
    taken, numbers = {*known, *sent}, count(len(known))
    keys = []
    for j, i in enumerate(found):
        key = fresh[j] if i is None else known[i]
        while i is None and key in taken:
            key = str(next(numbers))
        taken.add(key)
        keys.append(key)
    return keys


def _moved(places: list[int]) -> int:
    """Return how many rows are out of order: all except the longest increasing subsequence."""
    ends: list[int] = []  # smallest last position of an increasing subsequence of each length
    for place in places:
        at = bisect_left(ends, place)
        ends[at : at + 1] = [place]
    return len(places) - len(ends)


def _same_arrays(known: RecordedRows, items: Items) -> bool:
    """Return whether arrays with a single hash are the same as last time, or begin with last time's rows."""
    if list(known.digests) == list(items.digests):
        return True
    rows = items.items if items.features is None else items.features
    return isinstance(rows, np.ndarray) and list(known.digests) == [features_digest(rows[: len(known.keys)])]
