"""Rows to export: labels, answers, and predictions of what is not labelled."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

CHUNK = 4096  # instances predicted at a time
Show = Callable[[int], str]  # what an item is, in words: its text, or its file


class Given(NamedTuple):
    """One answer of one person; class None: cannot tell."""

    item: int
    person: str
    label: int | None
    at: float  # seconds since 1970
    saved: int  # number of the event


@dataclass(frozen=True)
class Records:
    """A table, row by row; `columns` and their types are known before the first row."""

    columns: dict[str, type]
    rows: Iterable[Sequence[Any]]


def label_records(
    ids: Sequence[str], labels: dict[int, int], classes: Sequence[str], show: Show | None = None
) -> Records:
    """Return the label of every labelled item, in the order of the source."""
    rows = ((ids[i], classes[labels[i]], *(() if show is None else (show(i),))) for i in sorted(labels))
    return Records({"id": str, "label": str} | _shown(show), rows)


def answer_records(
    ids: Sequence[str], answers: Iterable[Given], classes: Sequence[str], show: Show | None = None
) -> Records:
    """Return every answer, in the order they were given; an empty label is 'cannot tell'."""
    columns = {"id": str, "label": str, "person": str, "at": str, "saved": int}
    rows = (
        (
            ids[answer.item],
            None if answer.label is None else classes[answer.label],
            answer.person,
            datetime.fromtimestamp(answer.at, UTC).isoformat(timespec="milliseconds"),
            answer.saved,
            *(() if show is None else (show(answer.item),)),
        )
        for answer in answers
    )
    return Records(columns | _shown(show), rows)


def prediction_records(
    ids: Sequence[str],
    items: Sequence[int] | np.ndarray,
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
    show: Show | None = None,
) -> Records:
    """Return the most probable class and all probabilities of these items, predicted as they are written.

    probabilities : from positions (b,) to (b, k)
    """
    positions = np.asarray(items, dtype=np.int64)

    def rows() -> Iterator[Sequence[Any]]:
        for at in range(0, len(positions), CHUNK):
            chunk = positions[at : at + CHUNK]
            probs = np.asarray(probabilities(chunk), dtype=np.float64)
            best = np.argmax(probs, axis=1)
            rounded = np.round(probs, 6)
            for i, top, row in zip(chunk.tolist(), best.tolist(), rounded.tolist(), strict=True):
                yield ids[i], classes[top], row[top], *row, *(() if show is None else (show(i),))

    columns: dict[str, type] = {"id": str, "label": str, "probability": float}
    return Records(columns | {f"p({name})": float for name in classes} | _shown(show), rows())


def _shown(show: Show | None) -> dict[str, type]:
    return {} if show is None else {"shown": str}
