"""`Items`: the content of a source, which every reader returns; and the `Options` that it is read with.

`IdList` holds the ids in order, with the position of each. Texts that other programs send follow the items of
the source.
"""

import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.classes import SEPARATOR, UNLABELLED, no_labels
from everylabel.data.digests import text_digests
from everylabel.data.display import Columns, Display, Rows, Texts, joined_columns, some_rows

LONGEST_ID = 1000  # characters
Some = TypeVar("Some", bound="Items")
MOST_FIELDS = 12  # shown beside a text
SHOWN = 4  # class names in a note
DECIDE = ("text_column", "image_column", "show", "encoding", "long_rows")  # decide which items exist


class IdList(Sequence[str]):
    """Distinct ids; `position` maps an id to its place. One thread appends, any thread may read."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids = list(ids)
        self.position: Mapping[str, int] = {name: i for i, name in enumerate(self._ids)}

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

    __hash__ = None  # type: ignore[assignment]  # mutable: it grows

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
    """Return ids as an `IdList`, for reading only: an `IdList` is returned itself, not copied."""
    return ids if isinstance(ids, IdList) else IdList(ids)


def stored_ids(ids: Sequence[str]) -> int | list[str]:
    """Return the stored form of ids; the number n stands for the ids "0" to "n - 1"."""
    n = len(ids)
    if n and (isinstance(ids, Numbered) or all(map(str.__eq__, ids, map(str, range(n))))):
        return n
    return list(ids)


def ids_from_stored(stored: int | Sequence[str]) -> Sequence[str]:
    """Return ids from their stored form."""
    return Numbered(stored) if isinstance(stored, int) else stored


@dataclass(frozen=True, eq=False)
class Items:
    """A user's data; all sequences have one entry per item.

    items : texts, image paths, pixels (n, h, w[, 3]), or rows of features (n, d)
    kind : "text", "image" or "features"; "table" for a data frame whose rows are embedded
    ids : unique ids in the log: the item's own id, or its row number when it was first seen
    labels : class numbers into `classes`; -1 where there is no label
    own_ids : the source's own unique ids; None if it has none
    id_column : the column of these ids
    rows : row number of each item in the source, from 0; None for sent items; empty if 0, 1, 2 ...
    sent : number of items, at the end, that other programs sent and that are not in the source
    columns : the source's own columns, unchanged
    skipped : names of items that were left out
    features : (n, d) if the source has them; else the items must be embedded
    display : how the page shows each item
    digests : one hash per item, or a single one for a dataset's arrays; see `source_diff.compare`
    truth : true labels of a dataset, or None; never shown, for `everylabel simulate`
    notes : messages for the user on what was chosen or cleaned
    advice : suggestions for the user
    chosen : options that were chosen automatically
    replaced : the items differ from last time and have no labels, so encoders are fitted again
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
    replaced: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        n = len(self.labelled)
        return f"Items({len(self)} of kind {self.kind!r}, {n} labelled, {len(self.classes)} classes)"

    @property
    def labelled(self) -> list[int]:
        """Positions of the labelled items."""
        found: list[int] = np.flatnonzero(self.labels >= 0).tolist()
        return found

    def row(self, i: int) -> int | None:
        """Return an item's row number in the source, from 0; None if it was sent."""
        return self.rows[i] if len(self.rows) else i

    def some(self, places: Sequence[int]) -> Any:
        """Return the content at these positions."""
        content = self.items
        return content[list(places)] if isinstance(content, np.ndarray) else [content[i] for i in places]

    def known_as(self, i: int) -> str:
        """Return an item's name for people: its own id or its row number in the source."""
        row = self.row(i)
        return self.own_ids[i] if self.own_ids is not None else self.ids[i] if row is None else str(row)

    def without(self, gone: Sequence[int]) -> Self:
        """Return the items except those at these positions, which count as skipped; classes stay."""
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
        """Return these items followed by others of the same kind; the result has no features."""
        classes = tuple(dict.fromkeys([*self.classes, *others.classes]))
        place = {name: i for i, name in enumerate(classes)}
        number = np.array([*(place[name] for name in others.classes), UNLABELLED])  # -1 (no label) stays -1
        n, m = len(self.ids), len(others.ids)
        own = None
        if self.own_ids is not None:
            own = [*self.own_ids, *(others.known_as(i) for i in range(m))]
        return replace(
            self,
            items=[*self.items, *others.items],
            ids=[*self.ids, *others.ids],
            labels=np.concatenate([self.labels, number[others.labels]]),
            classes=classes,
            own_ids=own,
            rows=[*(self.rows if len(self.rows) else range(n)), *(others.row(i) for i in range(m))],
            columns=joined_columns(self.columns, others.columns, n, m),
            skipped=(*self.skipped, *others.skipped),
            display=self.display.followed_by(others.display, n, m),
            digests=[*self.digests, *others.digests],
            sent=self.sent + others.sent,
        )

    def renamed(self, names: Sequence[str | None]) -> "Items":
        """Return the items with renamed classes: equal names are merged, None removes the labels."""
        classes = tuple(dict.fromkeys(name for name in names if name is not None))
        if classes == self.classes:
            return self
        number: dict[str | None, int] = {None: UNLABELLED, **{name: i for i, name in enumerate(classes)}}
        to = np.array([*(number[name] for name in names), UNLABELLED])  # -1 (no label) stays -1
        truth = None if self.truth is None else to[self.truth]
        labels = to[self.labels] if self.labelled else self.labels
        return replace(self, classes=classes, labels=labels, truth=truth)


def row_numbers(n: int) -> IdList:
    """Return the ids of n rows without ids of their own."""
    return IdList(map(str, range(n)))


def unique_ids(ids: list[str]) -> list[str]:
    """Return the ids; refuse ids that occur twice or are too long."""
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
            "choose another id_column (--id-column), or none: rows are then recognised by their content"
        )
    return ids


class Sent(NamedTuple):
    """A text sent by another program, with its id in the log and further columns."""

    id: str
    text: str
    fields: Mapping[str, Any] = {}

    @classmethod
    def of(cls, text: str, name: str | None, fields: Mapping[str, Any]) -> "Sent":
        """Return a text with its own id or an id from its hash: sent again, it is the same item."""
        return cls(name or f"sent-{text_digests([text])[0]}", text, fields)


def with_sent(items: Some, sent: Sequence[Sent], text_column: str | None) -> Some:
    """Return a source's items followed by the sent ones; a row whose own id was sent is left out."""
    if not sent:
        return items
    rest, notes = not_sent(items, {one.id for one in sent}), items.notes
    twice = len(items.ids) - len(rest.ids)
    if twice:
        notes = (
            *notes,
            f"{twice:,} rows have ids of items that were sent before; the sent items are used",
        )
    return replace(rest, notes=notes).followed_by(sent_items(sent, items, text_column))


def not_sent(items: Some, taken: Container[str]) -> Some:
    """Return the items except those whose own ids are in `taken`."""
    twice = [i for i, name in enumerate(items.own_ids or ()) if name in taken]
    return replace(items.without(twice), skipped=items.skipped)


def sent_items(sent: Sequence[Sent], like: Items, text_column: str | None) -> Items:
    """Return sent texts as items to append to `like`, whose text and id columns they fill."""
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
    """Return the fields to show: those that `like` shows, and new ones up to MOST_FIELDS in all."""
    there = list(like.display.columns) if isinstance(like.display, Texts) else []
    new = [name for name in names if name not in like.columns]
    return [name for name in names if name in there] + new[: max(0, MOST_FIELDS - len(there))]


@dataclass(frozen=True)
class Options:
    """Columns, class names and model; None where an option is not given."""

    text_column: str | None = None
    image_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    classes: tuple[str, ...] | None = None
    show: str | None = None
    model: str | None = None
    encoding: str | None = None
    long_rows: str | None = None
    label_separator: str | None = None  # labels are lists: items may have several classes
    fields: str | None = None  # columns shown beside an item, as given

    def or_else(self, before: "Options") -> "Options":
        """Return these options, with unset ones filled from `before`."""
        if self.text_column is not None or self.image_column is not None:  # one replaces the other
            before = replace(before, text_column=None, image_column=None)
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(before, **given)

    def besides(self, given: "Options") -> "Options":
        """Return the options that `given` leaves unset."""
        return replace(self, **{name: None for name, value in asdict(given).items() if value is not None})

    def differs(self, before: "Options") -> str:
        """Return a message on the options in DECIDE that differ from `before`."""
        names = [name for name in DECIDE if getattr(self, name) != getattr(before, name)]
        was = [(name, getattr(before, name)) for name in names]
        there = [f"{_option(name)} was {value}" for name, value in was if value is not None]
        return " and ".join(there or [f"there was no {_option(name)}" for name in names])

    def arguments(self) -> str:
        """Return the options as command-line arguments; a long list of classes is shortened."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        switches = ["--multi-label"] if "label_separator" in given else []  # one implies the other
        if given.get("label_separator") == SEPARATOR:
            del given["label_separator"]
        return " ".join([*switches, *(f"{_option(name)} {_typed(value)}" for name, value in given.items())])


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _typed(value: Any) -> str:
    """Return a value quoted for a shell; of many class names only the first ones."""
    if not isinstance(value, tuple):
        return shlex.quote(str(value))
    names = ",".join(f'"{name}"' if "," in name else name for name in value[:SHOWN])
    return f"{names},... ({len(value)} in all)" if len(value) > SHOWN else shlex.quote(names)
