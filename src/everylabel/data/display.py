"""How the page shows an item: text, picture and fields; one class for each kind of content."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import label_of, written
from everylabel.data.digests import bytes_digest, content_digest
from everylabel.data.media import SMALL_SIDE, Picture, image_bytes, shown_image

Columns = Mapping[str, Sequence[Any]]  # field name -> one value per item
SHORT = 300  # characters of a text in a list
LONGEST_FIELD = 2000


@dataclass(frozen=True, eq=False)
class Display:
    """Base class: the displayed form of items; each sequence, array or column has one entry per item."""

    what: ClassVar[str]  # the kind of item, in words

    @abstractmethod
    def item(self, i: int) -> dict[str, Any]:
        """Return {"text": str or None, "image": bool, "pixelated": bool, "fields": [[name, value] ...]}."""

    @abstractmethod
    def text(self, i: int) -> str:
        """Return a short text to search in and to show in lists."""

    def picture(self, i: int) -> Picture:
        """Return the item's image and its media type; an EverylabelError says why there is none."""
        raise EverylabelError(
            f"item {i} is {self.what} and has no image; expected an item of a project of images"
        )

    def digest(self, i: int) -> str:
        """Return a hash of the content of the item's image, to detect a changed image."""
        return ""

    def file(self, i: int) -> Path | None:
        """Return the path of the item's image; None if it is not a file."""
        return None

    def only(self, keep: Sequence[int]) -> Self:
        """Return the display of the items at these positions."""
        return replace(self, **{one.name: _some(getattr(self, one.name), keep) for one in fields(self)})

    def followed_by(self, others: "Display", n: int, m: int) -> Self:
        """Return the display of these n items followed by m others of the same kind."""
        pairs = ((one.name, getattr(self, one.name), getattr(others, one.name)) for one in fields(self))
        return replace(
            self,
            **{
                name: joined_columns(here, there, n, m) if isinstance(here, Mapping) else [*here, *there]
                for name, here, there in pairs
            },
        )


@dataclass(frozen=True, eq=False)
class Texts(Display):
    """Texts, with fields beside them."""

    texts: Sequence[str]
    columns: Columns = field(default_factory=dict)
    what = "a text"

    def item(self, i: int) -> dict[str, Any]:
        return shown_item(self.texts[i], fields=fields_of(self.columns, i))

    def text(self, i: int) -> str:
        return self.texts[i][:SHORT]


@dataclass(frozen=True, eq=False)
class Pictures(Display):
    """Images: paths of files (read on request), PIL images, arrays of pixels, or the bytes of files."""

    images: Sequence[Any] | np.ndarray
    names: Sequence[str]
    columns: Columns = field(default_factory=dict)

    def item(self, i: int) -> dict[str, Any]:
        image = self.images[i]  # PIL images have a size, arrays a shape
        size = image.shape[:2] if isinstance(image, np.ndarray) else getattr(image, "size", None)
        small = isinstance(size, tuple) and min(size) < SMALL_SIDE
        return shown_item(None, image=True, pixelated=small, fields=fields_of(self.columns, i))

    def picture(self, i: int) -> Picture:
        return shown_image(self.images[i], self.names[i])

    def digest(self, i: int) -> str:
        image = self.images[i]
        by_file = isinstance(image, str | Path | None)
        return content_digest(image) if by_file else bytes_digest(image_bytes(image))

    def file(self, i: int) -> Path | None:
        return Path(self.images[i]) if isinstance(self.images[i], str | Path) else None

    def home(self) -> Path | None:
        """Return the folder that must contain all images, if there are too many to check each; else None."""
        return None

    def text(self, i: int) -> str:
        return self.names[i][:SHORT]


@dataclass(frozen=True, eq=False)
class Rows(Display):
    """Rows of features, shown by their fields or, without any, by their number."""

    names: Sequence[str]
    columns: Columns = field(default_factory=dict)
    what = "a row of features"

    def item(self, i: int) -> dict[str, Any]:
        return shown_item(None, fields=fields_of(self.columns, i) or [["row", self.names[i]]])

    def text(self, i: int) -> str:
        values = [value for _, value in fields_of(self.columns, i)]
        return " · ".join(values)[:SHORT] if values else f"row {self.names[i]}"


def shown_item(
    text: str | None, *, image: bool = False, pixelated: bool = False, fields: list[list[str]] | None = None
) -> dict[str, Any]:
    """Return an item in the form that the page expects."""
    return {"text": text, "image": image, "pixelated": pixelated, "fields": fields or []}


def fields_of(columns: Columns, i: int) -> list[list[str]]:
    """Return the fields of item i that are not empty, as text."""
    values = [[name, _field(column[i])[:LONGEST_FIELD]] for name, column in columns.items()]
    return [pair for pair in values if pair[1].strip()]


def _field(value: Any) -> str:
    """Return a field as text: numbers as in labels, nested values as in exports."""
    return written(value) if isinstance(value, dict | list) else label_of(value)


def some_rows(columns: Columns, keep: Sequence[int]) -> dict[str, list[Any]]:
    """Return the rows `keep` of all columns."""
    return {name: [column[i] for i in keep] for name, column in columns.items()}


def joined_columns(some: Columns, others: Columns, n: int, m: int) -> Columns:
    """Concatenate the columns of n rows and of m others; None where a row lacks a column."""
    return {
        name: [*some.get(name, [None] * n), *others.get(name, [None] * m)]
        for name in dict.fromkeys([*some, *others])
    }


def _some(entries: Any, keep: Sequence[int]) -> Any:
    if isinstance(entries, Mapping):
        return some_rows(entries, keep)
    return entries[list(keep)] if isinstance(entries, np.ndarray) else [entries[i] for i in keep]
