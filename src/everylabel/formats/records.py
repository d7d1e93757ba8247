"""The rows of an export: labels, answers or predictions, each with what tells which item it is of."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.formats.beside import Beside
from everylabel.formats.tables import Records
from everylabel.labelling.state.types import GIVEN

PREDICTED = 4096  # instances predicted at a time
LABELS: dict[str, type] = {"label": str}
MODEL = "model"  # whose word a label is, if no person's
ANSWERS: dict[str, type] = {"label": str, "person": str, "at": str, "saved": int, "none_of_these": bool}


class Given(NamedTuple):
    """One answer of one person; class None: cannot tell, or none of them."""

    item: int
    person: str
    label: int | None
    at: float  # seconds since 1970
    saved: int  # number of the event
    none: bool = False  # none of the classes fits


def label_records(
    beside: Beside,
    labels: dict[int, int],
    classes: Sequence[str],
    by_model: Mapping[int, int] = MappingProxyType({}),
) -> Records:
    """Return the label of every labelled item, in the order of the source; the model's own are marked."""
    if by_model:
        said = {i: (classes[label], "person") for i, label in labels.items()}
        said |= {i: (classes[label], MODEL) for i, label in by_model.items()}
        return beside.records({**LABELS, "by": str}, ((i, said[i]) for i in sorted(said)))
    return beside.records(LABELS, ((i, (classes[labels[i]],)) for i in sorted(labels)))


def corrected_records(
    beside: Beside, labels: Mapping[int, tuple[str, str]], given: Mapping[int, int], classes: Sequence[str]
) -> Records:
    """Return labels that people reviewed, in the order of the source; `source` tells whose each is.

    labels : class and people, of each item that has an answer; "" where none of the classes fits
    given : the class that each item came with
    """
    said = {i: (classes[label], GIVEN) for i, label in given.items()} | dict(labels)
    before = {i: classes[label] for i, label in given.items()}
    rows = ((i, (*said[i], before.get(i))) for i in sorted(said) if said[i][0])
    return beside.records({"label": str, "source": str, "given": str}, rows)


def answer_records(beside: Beside, answers: Iterable[Given], classes: Sequence[str]) -> Records:
    """Return every answer, in the order they were given; an empty label is 'cannot tell' or
    'none of these', as a column says.
    """
    rows = (
        (
            answer.item,
            (
                None if answer.label is None else classes[answer.label],
                answer.person,
                datetime.fromtimestamp(answer.at, UTC).isoformat(timespec="milliseconds"),
                answer.saved,
                answer.none,
            ),
        )
        for answer in answers
    )
    return beside.records(ANSWERS, rows)


def all_records(
    beside: Beside,
    labels: Mapping[int, tuple[str, str]],
    items: Sequence[int] | np.ndarray,
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
) -> Records:
    """Return labels and predictions in one table, in the order of the source; `source` tells whose it is.

    labels : class and people, of each labelled item
    items : those that the model predicts
    probabilities : from positions (b,) to (b, k)
    """
    predicted = {*np.asarray(items).tolist()} - labels.keys()
    order = sorted({*labels, *predicted})

    def rows() -> Iterator[tuple[int, Sequence[Any]]]:
        for at in range(0, len(order), PREDICTED):
            chunk = order[at : at + PREDICTED]
            free = [i for i in chunk if i in predicted]
            probs = probabilities(np.array(free, np.int64)) if free else ()
            said = dict(zip(free, probs, strict=True))
            for i in chunk:
                if i in predicted:
                    top = int(said[i].argmax())
                    yield i, (classes[top], MODEL, round(float(said[i][top]), 6))
                else:
                    yield i, (*labels[i], None)

    return beside.records({"label": str, "source": str, "probability": float}, rows())


def prediction_records(
    beside: Beside,
    items: Sequence[int] | np.ndarray,
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
) -> Records:
    """Return the most probable class and all probabilities of these items, predicted as they are written.

    probabilities : from positions (b,) to (b, k)
    """
    positions = np.asarray(items, dtype=np.int64)

    def rows() -> Iterator[tuple[int, Sequence[Any]]]:
        for at in range(0, len(positions), PREDICTED):
            chunk = positions[at : at + PREDICTED]
            probs = np.asarray(probabilities(chunk), dtype=np.float64)
            best = np.argmax(probs, axis=1)
            rounded = np.round(probs, 6)
            for i, top, row in zip(chunk.tolist(), best.tolist(), rounded.tolist(), strict=True):
                yield i, (classes[top], row[top], *row)

    columns: dict[str, type] = {"label": str, "probability": float}
    return beside.records(columns | {f"p({name})": float for name in classes}, rows())
