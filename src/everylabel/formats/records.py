"""The rows of an export: labels, answers, predictions or the test set, each with the columns of its item."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.data.classes import SEPARATOR
from everylabel.formats.item_columns import ItemColumns
from everylabel.formats.tables import Records
from everylabel.labelling.model.learner import certainty
from everylabel.labelling.state.types import GIVEN, ClassSet, Value

PREDICTED = 4096  # instances predicted at a time
LABELS: dict[str, type] = {"label": str}
MODEL = "model"  # the origin of a label that no person gave
HELD_OUT: dict[str, type] = {"label": str, "predicted": str, "probability": float}
ANSWERS: dict[str, type] = {"label": str, "person": str, "at": str, "saved": int, "none_of_these": bool}


class Given(NamedTuple):
    """One answer of one person; class None: cannot tell, or none of them."""

    item: int
    person: str
    label: Value | None
    at: float  # seconds since 1970
    saved: int  # number of the event
    none: bool = False  # 'none of these'


def label_records(
    about: ItemColumns,
    labels: Mapping[int, Value],
    classes: Sequence[str],
    by_model: Mapping[int, Value] = MappingProxyType({}),
) -> Records:
    """Return the label of every labelled item, in the order of the source; labels by the model are marked."""
    if by_model:
        said = {i: (named(label, classes), "person") for i, label in labels.items()}
        said |= {i: (named(label, classes), MODEL) for i, label in by_model.items()}
        return about.records({**LABELS, "by": str}, ((i, said[i]) for i in sorted(said)))
    return about.records(LABELS, ((i, (named(labels[i], classes),)) for i in sorted(labels)))


def named(label: Value, classes: Sequence[str]) -> str:
    """Return a label by name; several classes are one text, which `list_text` reads back.

    They are joined by the separator; JSON where a name holds it, where there is no class ("[]"), and where
    not all classes were answered (an object of 1 and 0).
    """
    if not isinstance(label, ClassSet):
        return classes[label]
    names = [classes[number] for number in label.present]
    if not label.answers_all(len(classes)):
        said = dict.fromkeys(names, 1) | {classes[number]: 0 for number in label.absent}
        return json.dumps(said, ensure_ascii=False)
    if not names or any(SEPARATOR in name for name in names):
        return json.dumps(names, ensure_ascii=False)
    return SEPARATOR.join(names)


def _is_none(label: Value | None, n_classes: int) -> bool:
    """Return whether somebody ruled out every class of a multi-label project."""
    return isinstance(label, ClassSet) and not label.present and label.answers_all(n_classes)


def corrected_records(
    about: ItemColumns,
    labels: Mapping[int, tuple[str, str]],
    given: Mapping[int, int],
    classes: Sequence[str],
) -> Records:
    """Return labels that people reviewed, in the order of the source; `source` names who gave each.

    labels : class and people of each answered item; "" if no class fits
    given : the class that each item came with
    """
    said = {i: (classes[label], GIVEN) for i, label in given.items()} | dict(labels)
    before = {i: classes[label] for i, label in given.items()}
    rows = ((i, (*said[i], before.get(i))) for i in sorted(said) if said[i][0])
    return about.records({"label": str, "source": str, "given": str}, rows)


def answer_records(about: ItemColumns, answers: Iterable[Given], classes: Sequence[str]) -> Records:
    """Return every answer in order; `none_of_these` tells that from 'cannot tell', which is empty, too."""
    rows = (
        (
            answer.item,
            (
                None if answer.label is None else named(answer.label, classes),
                answer.person,
                datetime.fromtimestamp(answer.at, UTC).isoformat(timespec="milliseconds"),
                answer.saved,
                answer.none or _is_none(answer.label, len(classes)),
            ),
        )
        for answer in answers
    )
    return about.records(ANSWERS, rows)


def all_records(
    about: ItemColumns,
    labels: Mapping[int, tuple[str, str]],
    items: Sequence[int] | np.ndarray,
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
    thresholds: np.ndarray | None = None,
) -> Records:
    """Return labels and predictions in one table, in the order of the source; `source` names who gave it.

    labels : class and people, of each labelled item
    items : items to predict
    probabilities : from positions (b,) to (b, k)
    thresholds : (k,) if items may have several classes
    """
    left = {*np.asarray(items).tolist()} - labels.keys()
    order = sorted({*labels, *left})

    def rows() -> Iterator[tuple[int, Sequence[Any]]]:
        for at in range(0, len(order), PREDICTED):
            chunk = order[at : at + PREDICTED]
            free = [i for i in chunk if i in left]
            probs = probabilities(np.array(free, np.int64)) if free else ()
            said = dict(zip(free, probs, strict=True))
            for i in chunk:
                if i in left:
                    label, sure = predicted(said[i], classes, thresholds)
                    yield i, (label, MODEL, sure)
                else:
                    yield i, (*labels[i], None)

    return about.records({"label": str, "source": str, "probability": float}, rows())


def prediction_records(
    about: ItemColumns,
    items: Sequence[int] | np.ndarray,
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
    thresholds: np.ndarray | None = None,
) -> Records:
    """Return the predicted class (or classes) and all probabilities of items, predicted as they are written.

    probabilities : from positions (b,) to (b, k)
    thresholds : (k,) if items may have several classes
    """
    positions = np.asarray(items, dtype=np.int64)

    def rows() -> Iterator[tuple[int, Sequence[Any]]]:
        for at in range(0, len(positions), PREDICTED):
            chunk = positions[at : at + PREDICTED]
            probs = np.asarray(probabilities(chunk), dtype=np.float64)
            for i, row in zip(chunk.tolist(), probs, strict=True):
                yield i, (*predicted(row, classes, thresholds), *np.round(row, 6).tolist())

    columns: dict[str, type] = {"label": str, "probability": float}
    return about.records(columns | {f"p({name})": float for name in classes}, rows())


def held_out_records(
    about: ItemColumns,
    test: Mapping[int, Value],
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
    thresholds: np.ndarray | None = None,
) -> Records:
    """Return a row for each test item that has a label, in the order of the source."""
    items = np.array(sorted(test), dtype=np.int64)
    probs = probabilities(items)
    pairs = zip(items.tolist(), probs, strict=True)
    rows = ((i, (named(test[i], classes), *predicted(row, classes, thresholds))) for i, row in pairs)
    return about.records(HELD_OUT, rows)


def predicted(probs: np.ndarray, classes: Sequence[str], thresholds: np.ndarray | None) -> tuple[str, float]:
    """Return the most probable class (with thresholds (k,): all classes that reach them) and its probability.

    For several classes, the probability of the least certain of the k decisions.
    """
    if thresholds is None:
        top = int(probs.argmax())
        return classes[top], round(float(probs[top]), 6)
    label = ClassSet.of(np.flatnonzero(probs >= thresholds).tolist(), range(len(classes)))
    return named(label, classes), round(certainty(probs, thresholds), 6)
