"""`Items`: the content of a source, wherever it was read from; every reader returns one.

Ids of items are kept in their order, with the position of each. Texts that other programs send by themselves
follow the items of the source.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.classes import UNLABELLED, no_labels
from everylabel.data.digests import text_digests
from everylabel.data.display import Columns, Display, Rows, Texts, joined_columns, some_rows

LONGEST_ID = 1000  # characters
BLOCK = 2**20  # labels that are looked at together
Some = TypeVar("Some", bound="Items")
MOST_FIELDS = 12  # shown beside a text


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


@dataclass(frozen=True, eq=False)
class Items:
    """Own data, one entry an instance in all of its lists.

    items : texts, image paths, pixels (n, h, w[, 3]), or rows of features (n, d)
    kind : "text", "image" or "features"; "table" for a data frame that is to be embedded
    ids : what a log calls each, unique: its own id, or its number, at the time when it was first seen
    labels : class numbers into `classes`; -1 where there is no label
    own_ids : the source's own ids, unique; None where it has none
    id_column : where it has them
    rows : the place of each in the source, from 0; None for what was sent; empty: as they stand
    sent : how many, at the end, came by themselves and are in no source
    columns : the source's own columns, as they are
    skipped : names of what was left out
    features : (n, d) if the source has them; else the items are to be embedded
    display : what the page shows of each
    digests : one hash an item, or one in all for a dataset's arrays; see `changes.compare`
    truth : true labels of a dataset, or None; never shown, for `everylabel simulate`
    notes : what was chosen or cleaned, to be told
    advice : what a person who labels could do another way
    chosen : options that nobody gave
    anew : nobody has labelled them, and they were others last time: what was learned from those is forgotten
    """

    items: Any
    kind: str
    ids: Sequence[str]
    labels: np.ndarray
    classes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    features: np.ndarray | None = None
    display: Display = field(default=Rows(()), repr=False)
    digests: Sequence[str] = ()
    truth: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)
    own_ids: Sequence[str] | None = None
    id_column: str | None = None
    rows: Sequence[int | None] = ()
    columns: Columns = field(default_factory=dict, repr=False)
    sent: int = 0
    anew: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        n = len(self.labelled)
        return f"Items({len(self)} of kind {self.kind!r}, {n} labelled, {len(self.classes)} classes)"

    @property
    def labelled(self) -> list[int]:
        """The places of the items that have a label; found block by block, since they may be very many."""
        starts = range(0, len(self.labels), BLOCK)
        return [
            int(start + i)
            for start in starts
            for i in np.flatnonzero(self.labels[start : start + BLOCK] >= 0)
        ]

    def row(self, i: int) -> int | None:
        """Return the place of an item in the source, from 0; None if it is in none."""
        return self.rows[i] if len(self.rows) else i

    def some(self, places: Sequence[int]) -> Any:
        """Return what lies in these places."""
        content = self.items
        return content[list(places)] if isinstance(content, np.ndarray) else [content[i] for i in places]

    def known_as(self, i: int) -> str:
        """Return what people know an item by: its own id, or its place in the source."""
        row = self.row(i)
        return self.own_ids[i] if self.own_ids is not None else self.ids[i] if row is None else str(row)

    def without(self, gone: Sequence[int]) -> Self:
        """Return the items but for those in these places, which count as skipped; classes stay."""
        if not len(gone):
            return self
        out = set(gone)
        n = len(self.ids)
        keep = [i for i in range(n) if i not in out]
        one_each = len(self.digests) == len(self.ids)
        return replace(
            self,
            items=self.some(keep),
            ids=[self.ids[i] for i in keep],
            labels=self.labels[keep],
            own_ids=None if self.own_ids is None else [self.own_ids[i] for i in keep],
            rows=[self.row(i) for i in keep],
            columns=some_rows(self.columns, keep),
            skipped=(*self.skipped, *(self.known_as(i) for i in gone)),
            features=None if self.features is None else self.features[keep],
            display=self.display.only(keep),
            digests=[self.digests[i] for i in keep] if one_each else self.digests,
            truth=None if self.truth is None else self.truth[keep],
            sent=sum(i >= n - self.sent for i in keep),
        )

    def of_source(self) -> "Items":
        """Return the items that are in the source, without features."""
        if not self.sent:
            return self
        n, own = len(self.ids), {one.name: getattr(self, one.name) for one in fields(Items)}
        plain = Items(**own | {"features": None})
        return replace(plain.without(range(n - self.sent, n)), skipped=self.skipped)

    def followed_by(self, others: "Items") -> Self:
        """Return these items and then others of the same kind, which have no features."""
        classes = tuple(dict.fromkeys([*self.classes, *others.classes]))
        here, there = self.renamed_to(classes), others.renamed_to(classes)
        n, m = len(self.ids), len(others.ids)
        own = None
        if self.own_ids is not None:
            own = [*self.own_ids, *(others.known_as(i) for i in range(m))]
        return replace(
            self,
            items=[*self.items, *others.items],
            ids=[*self.ids, *others.ids],
            labels=np.concatenate([here, there]),
            classes=classes,
            own_ids=own,
            rows=[*(self.rows if len(self.rows) else range(n)), *(others.row(i) for i in range(m))],
            columns=joined_columns(self.columns, others.columns, n, m),
            skipped=(*self.skipped, *others.skipped),
            display=self.display.followed_by(others.display, n, m),
            digests=[*self.digests, *others.digests],
            sent=self.sent + others.sent,
        )

    def renamed_to(self, classes: Sequence[str]) -> np.ndarray:
        """Return the labels as numbers into other classes, which hold all of these."""
        if tuple(classes) == self.classes or not self.labelled:
            return self.labels
        number = {name: i for i, name in enumerate(classes)}
        to = np.array([*(number[name] for name in self.classes), UNLABELLED])
        return np.asarray(to[self.labels])

    def renamed(self, names: Sequence[str | None]) -> "Items":
        """Return the items with each class named anew: names that become one are one, None is no class."""
        classes = tuple(dict.fromkeys(name for name in names if name is not None))
        if classes == self.classes:
            return self
        number: dict[str | None, int] = {None: UNLABELLED, **{name: i for i, name in enumerate(classes)}}
        to = np.array([*(number[name] for name in names), UNLABELLED])  # -1, no label, stays so
        truth = None if self.truth is None else to[self.truth]
        labels = to[self.labels] if self.labelled else self.labels
        return replace(self, classes=classes, labels=labels, truth=truth)


def unique_ids(ids: Sequence[str]) -> Sequence[str]:
    """Return the ids, or say which occur more than once, or are too long to be asked for."""
    if isinstance(ids, IdList):  # which are
        return ids
    long = next((i for i, name in enumerate(ids) if len(name) > LONGEST_ID), None)
    if long is not None:
        raise EverylabelError(
            f"the id of row {long + 1} has {len(ids[long]):,} characters ({ids[long][:40]!r}...); expected "
            f"at most {LONGEST_ID:,}: choose another id_column (--id-column), or none"
        )
    seen: set[str] = set()
    twice = [name for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise EverylabelError(
            f"ids are not unique, {len(twice)} occur again: {listed(twice)}; drop the duplicates, "
            "choose another id_column (--id-column), or none: rows are known by their content then"
        )
    return list(ids)


class Sent(NamedTuple):
    """A text, what the log calls it, and columns beside it."""

    id: str
    text: str
    fields: Mapping[str, Any] = {}

    @classmethod
    def of(cls, text: str, name: str | None, fields: Mapping[str, Any]) -> "Sent":
        """Return a text by its own name, or by one that its content tells: sent again, it is the same."""
        return cls(name or f"sent-{text_digests([text])[0]}", text, fields)


def with_sent(items: Some, sent: Sequence[Sent], text_column: str | None) -> Some:
    """Return a source's items and then those that were sent; a row whose own id was sent is left out."""
    if not sent:
        return items
    rest, notes = not_sent(items, {one.id for one in sent}), items.notes
    left = len(items.ids) - len(rest.ids)
    if left:
        notes = (
            *notes,
            f"{left:,} rows have ids that were sent before, with the texts of then; they are these",
        )
    return replace(rest, notes=notes).followed_by(sent_items(sent, items, text_column))


def not_sent(items: Some, taken: Container[str]) -> Some:
    """Return items but for those whose own ids were sent."""
    twice = [i for i, name in enumerate(items.own_ids or ()) if name in taken]
    return replace(items.without(twice), skipped=items.skipped)


def sent_items(sent: Sequence[Sent], like: Items, text_column: str | None) -> Items:
    """Return what was sent as items beside others, whose columns they have."""
    texts, ids = [one.text for one in sent], [one.id for one in sent]
    names = list(dict.fromkeys(name for one in sent for name in one.fields))
    columns: dict[str, list[Any]] = {name: [one.fields.get(name) for one in sent] for name in names}
    shown = _shown(like, names)
    for name, values in ((text_column, texts), (like.id_column, ids)):
        if name is not None and name in like.columns:
            columns[name] = list(values)
    return Items(
        texts,
        "text",
        ids,
        no_labels(len(ids)),
        display=Texts(texts, {name: columns[name] for name in shown}),
        digests=text_digests(texts),
        own_ids=ids,
        rows=[None] * len(ids),
        columns=columns,
        sent=len(ids),
    )


def _shown(like: Items, names: Iterable[str]) -> list[str]:
    """Return the fields that are shown: those that others have, and new ones while there is room."""
    there = list(like.display.columns) if isinstance(like.display, Texts) else []
    new = [name for name in names if name not in like.columns]
    return [name for name in names if name in there] + new[: max(0, MOST_FIELDS - len(there))]
