"""Texts that were sent by themselves, by other programs: items that no source has."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from everylabel.data.classes import no_labels
from everylabel.data.digests import text_digests
from everylabel.data.display import Texts
from everylabel.data.items import Items

Some = TypeVar("Some", bound=Items)
MOST_FIELDS = 12  # shown beside a text


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
