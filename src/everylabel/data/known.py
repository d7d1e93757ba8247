"""Rows as a project's log knows them: noted at every start, compared with the source at the next."""

from collections.abc import Sequence
from typing import NamedTuple

from everylabel.data.digests import Digests
from everylabel.data.id_list import IdList
from everylabel.data.items import Items
from everylabel.data.numbered import Numbered

NOT_NOTED = "?"  # whether ids were the source's own: versions before did not note it


class Known(NamedTuple):
    """First the rows of the source as it was last time, then those that were gone already.

    keys : what the log calls them, for ever
    digests : one each, or one in all
    own_ids : the source's own ids, "" where a row had none; None if it had none at all
    id_column : where it has them
    gone : how many, at the end, were gone already
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
        """Return what people know a row by."""
        return self.keys[i] if self.own_ids is None else self.own_ids[i] or self.keys[i]

    def knows_ids_of(self, items: Items) -> bool:
        """Return whether rows can be known by their own ids."""
        return self.own_ids is not None and items.own_ids is not None and self.id_column == items.id_column

    def resolved(self, items: Items) -> "Known":
        """Return these rows with own ids, if their keys are such: where that was not noted, contents tell."""
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

    def renewed(self, items: Items) -> "Known":
        """Return the rows of a source as it is now, by the log's names, then all that are gone."""
        items = items.of_source()
        known = self.resolved(items)
        keys = items.ids if isinstance(items.ids, Numbered) else IdList(items.ids)
        now = Known(keys, Digests(items.digests), items.own_ids and list(items.own_ids))
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
            digests=Digests([*now.digests, *(known.digests[i] for i in gone)]) if gone else now.digests,
            gone=len(gone),
        )
