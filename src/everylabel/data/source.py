"""What every source is once it is read, and how texts and images become one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.digests import image_digests, text_digests
from everylabel.data.display import Columns, Contents, Images, Texts
from everylabel.data.items import check_classes, unique_ids
from everylabel.data.options import Options
from everylabel.data.readers.rows import text_of


@dataclass(frozen=True, eq=False)
class Source:
    """A source as it was read. It has features, or items that are to be embedded."""

    kind: str
    ids: Sequence[str]
    contents: Contents
    labels: np.ndarray
    classes: tuple[str, ...]
    digests: Sequence[str]
    features: np.ndarray | None = None
    items: Any = None
    truth: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    chosen: dict[str, str] = field(default_factory=dict)  # options that nobody gave


def text_source(
    texts: list[str],
    ids: list[str],
    labels: np.ndarray,
    classes: tuple[str, ...],
    columns: Columns,
    notes: list[str],
) -> Source:
    """Return texts as a source; empty ones are left out and counted."""
    keep = [i for i, text in enumerate(texts) if text.strip()]
    if not keep:
        raise EverylabelError("all texts are empty; expected another --text-column")
    if len(keep) < len(texts):
        empty = [name for name, text in zip(ids, texts, strict=True) if not text.strip()]
        notes.append(f"{len(empty)} of {len(texts)} texts are empty and were left out: {listed(empty)}")
        texts, ids = [texts[i] for i in keep], [ids[i] for i in keep]
        columns, labels = only(columns, keep), labels[keep]
    contents = Texts(texts, columns)
    return Source("text", ids, contents, labels, classes, text_digests(texts), items=texts, notes=notes)


def image_source(
    paths: list[Path],
    names: Sequence[str],
    ids: Sequence[str],
    labels: np.ndarray,
    classes: tuple[str, ...],
    columns: Columns,
    notes: list[str],
) -> Source:
    """Return image files as a source."""
    contents = Images(paths, names, columns)
    digests = image_digests(paths, names)
    return Source("image", ids, contents, labels, classes, digests, items=paths, notes=notes)


def only(columns: Columns, keep: Sequence[int]) -> dict[str, list[Any]]:
    """Return some rows of columns."""
    return {name: [column[i] for i in keep] for name, column in columns.items()}


def ids_of(columns: Columns, id_column: str | None) -> list[str]:
    """Return the names of rows: of a column, or their numbers."""
    if id_column is None:
        return [str(i) for i in range(len(next(iter(columns.values()))))]
    ids = [text_of(value).strip() for value in columns[id_column]]
    if not all(ids):
        raise EverylabelError(
            f"--id-column {id_column!r} is empty in row {ids.index('') + 1}; expected a name in every row"
        )
    return unique_ids(ids)


def raw_labels(columns: Columns, label_column: str | None) -> Sequence[Any]:
    """Return labels as they stand in the file; None where there are none."""
    return columns[label_column] if label_column else [None] * len(next(iter(columns.values())))


def known_classes(options: Options) -> tuple[str, ...] | None:
    """Return the class names a user passed, checked."""
    return None if options.classes is None else check_classes(options.classes)


def check_no_urls(values: Sequence[str]) -> None:
    """Refuse images that would have to be fetched."""
    urls = [value for value in values if "://" in value]
    if urls:
        raise EverylabelError(
            f"--image-column holds {len(urls)} URLs such as {urls[0]!r:.80}; expected paths of files: "
            "nothing is fetched from the network, download them first"
        )
