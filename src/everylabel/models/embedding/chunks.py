"""Items to embed, in chunks and as a sample; never all in memory at once."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data import Items
from everylabel.data.cells import is_missing
from everylabel.data.items import Options
from everylabel.data.media import SUFFIXES, are_paths, image_bytes, is_image
from everylabel.data.read import read_rows
from everylabel.data.readers.memory import as_pandas, frame_of, is_pandas
from everylabel.data.readers.rows import SUFFIXES as SUFFIXES_OF_TABLES

KINDS = ("text", "image", "table")
FIT_ON = 20_000  # items that TF-IDF, pixels and tables are fitted on
LOOK_AT = 1000  # items in which the kind is detected


class Chunks:
    """Items of one kind: a list, anything that can be iterated, or a table.

    The kind is the argument, that of `read_items`, the model's, or detected, in this order.
    """

    def __init__(self, items: Any, kind: str | None, implied: str | None = None) -> None:
        known = kind or (items.kind if isinstance(items, Items) else None)
        self.items = _unpacked(items)
        self.is_table = is_pandas(self.items)
        if not self.is_table:
            if isinstance(self.items, Iterator):
                self._head: list[Any] = list(islice(self.items, FIT_ON))
                self._rest: Iterable[Any] = self.items
            else:
                self._head, self._rest = [], self.items
        some = [] if self.is_table else self._some(LOOK_AT)
        self.kind = known or ("table" if self.is_table else implied or _looked_at(some))
        if self.kind not in KINDS or self.is_table != (self.kind == "table"):
            raise EverylabelError(
                f"kind is {known!r} and items a {type(items).__name__}; expected one of {KINDS}"
            )
        if (len(self.items) == 0) if self.is_table else not some:
            raise EverylabelError("items is empty; expected at least one text, image or row")

    def sample(self) -> Any:
        """Return up to FIT_ON items: spread evenly where all can be reached, else the first."""
        if self.is_table or isinstance(self.items, Sequence):
            step = max(1, len(self.items) // FIT_ON)
            return self.items.iloc[::step] if self.is_table else self._checked(self.items[::step], step)
        return self._checked(self._head or list(islice(self._rest, FIT_ON)))

    def chunks(self, size: int) -> Iterator[Any]:
        """Yield the items, `size` at a time."""
        if self.is_table:
            yield from (self.items.iloc[at : at + size] for at in range(0, len(self.items), size))
            return
        stream, at = chain(self._head, self._rest), 0
        while chunk := self._checked(list(islice(stream, size)), at=at):
            at += len(chunk)
            yield chunk

    def digest(self, chunk: Any) -> bytes:
        """Return a hash of a chunk's content."""
        if self.is_table:
            from everylabel.models.embedding.tables import row_bytes

            return hashlib.sha256(row_bytes(chunk)).digest()
        total = hashlib.sha256()
        for item in chunk:
            data = item.encode("utf-8", "surrogatepass") if self.kind == "text" else image_bytes(item)
            total.update(hashlib.sha256(data).digest())
        return total.digest()

    def _some(self, n: int) -> list[Any]:
        """Return about n items: spread evenly where all can be reached, else the first."""
        if isinstance(self.items, Sequence):
            return list(self.items[:: max(1, len(self.items) // n)])
        return list(islice(self._head or self._rest, n))

    def _checked(self, items: Any, step: int = 1, at: int = 0) -> list[Any]:
        wrong = (i for i, item in enumerate(items) if not isinstance(item, str))
        i = next(wrong, None) if self.kind == "text" else None
        if i is not None:
            raise EverylabelError(
                f"items[{at + step * i}] is a {type(items[i]).__name__} ({items[i]!r}); expected a text: "
                "drop it or make it a str"
            )
        return list(items)


def _looked_at(items: list[Any]) -> str:
    """Return the kind of a sample of items."""
    there = [item for item in items if not is_missing(item)]
    return "image" if there and (is_image(there[0]) or are_paths(there)) else "text"


def _unpacked(items: Any) -> Any:
    """Return a sequence, iterable or table: from `read_items`, a table file, an array or a list."""
    if isinstance(items, (str, Path)):
        path = Path(items)
        if path.suffix.lower() in SUFFIXES_OF_TABLES:
            return read_rows(path, Options()).items
        cure = "read_items(folder).items" if path.suffix.lower() not in SUFFIXES else "[path]"
        raise EverylabelError(
            f"items is {str(items)!r}; expected a list or a CSV or Parquet file: pass {cure}"
        )
    if isinstance(items, Items):
        items = items.items
    if not isinstance(items, Sequence) and frame_of(items) is not None:
        items = as_pandas(items)
    if isinstance(items, np.ndarray) and items.dtype.kind in "UO":
        items = items.tolist()
    if not isinstance(items, Iterable) and not hasattr(items, "iloc"):
        raise EverylabelError(
            f"items is a {type(items).__name__}; expected texts, image paths, PIL images or a table"
        )
    return list(items) if hasattr(items, "to_list") and not hasattr(items, "columns") else items
