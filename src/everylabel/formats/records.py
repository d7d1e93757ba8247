"""The rows of an export (labels, answers, predictions, test set, a queue), with the columns of each item."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.data.classes import SEPARATOR
from everylabel.formats.tables import ItemColumns, Records
from everylabel.labelling.model.learner import certainty
from everylabel.labelling.model.training import Prepared
from everylabel.labelling.quality.suspect_labels import left_out
from everylabel.labelling.queues import QueueData, QueueRequest, labelled_otherwise, queue
from everylabel.labelling.sources.consensus import find_consensus
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import GIVEN, NONE, ClassSet, Value
from everylabel.projects.predictions import confirmed_name_rows, trained

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
    """Return every answer in order.

    The label of 'cannot tell' and of 'none of these' is empty; the column `none_of_these` distinguishes them.
    """
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


class Predictor(NamedTuple):
    """Predicts items, as they are written.

    probabilities : from positions (b,) to (b, k)
    thresholds : (k,) if items may have several classes
    """

    probabilities: Callable[[np.ndarray], np.ndarray]
    classes: Sequence[str]
    thresholds: np.ndarray | None = None

    def predict(
        self, items: Sequence[int] | np.ndarray
    ) -> Iterator[tuple[int, tuple[str, float], np.ndarray]]:
        """Yield items with `predicted` and the probabilities (k,), PREDICTED at a time."""
        positions = np.asarray(items, dtype=np.int64)
        for at in range(0, len(positions), PREDICTED):
            chunk = positions[at : at + PREDICTED]
            probs = np.asarray(self.probabilities(chunk), np.float64)
            for i, row in zip(chunk.tolist(), probs, strict=True):
                yield i, predicted(row, self.classes, self.thresholds), row


def all_records(
    about: ItemColumns,
    labels: Mapping[int, tuple[str, str]],
    items: Sequence[int] | np.ndarray,
    predictor: Predictor,
) -> Records:
    """Return labels and predictions in one table, in the order of the source; `source` names who gave it.

    labels : class and people, of each labelled item
    items : items to predict, unless they have a label
    """
    left = sorted({*np.asarray(items).tolist()} - labels.keys())
    given = ((i, (*labels[i], None)) for i in sorted(labels))
    added = ((i, (label, MODEL, sure)) for i, (label, sure), _ in predictor.predict(left))
    rows = merge(given, added, key=itemgetter(0))
    return about.records({"label": str, "source": str, "probability": float}, rows)


def prediction_records(
    about: ItemColumns, items: Sequence[int] | np.ndarray, predictor: Predictor
) -> Records:
    """Return the predicted class (or classes) and all probabilities of items."""
    rows = ((i, (*said, *np.round(row, 6).tolist())) for i, said, row in predictor.predict(items))
    columns: dict[str, type] = {"label": str, "probability": float}
    return about.records(columns | {f"p({name})": float for name in predictor.classes}, rows)


def held_out_records(about: ItemColumns, test: Mapping[int, Value], predictor: Predictor) -> Records:
    """Return a row for each test item that has a label, in the order of the source."""
    found = predictor.predict(sorted(test))
    rows = ((i, (named(test[i], predictor.classes), *said)) for i, said, _ in found)
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


COLUMNS: dict[str, type] = {"label": str, "guess": str, "score": float, "otherwise": str}


class QueueTarget(NamedTuple):
    """The class (by name) and the item (by id) that a queue is about."""

    class_: str | None = None
    item: str | None = None

    def asked(self, name: str, label_set: LabelSet, ids: Sequence[str]) -> QueueRequest:
        """Return the request for a queue by numbers, or raise if class or item does not exist."""
        if self.class_ is not None:
            check_choice(self.class_, "class", label_set.classes)
        if self.item is not None and self.item not in ids:
            raise EverylabelError(f"item is {self.item!r}; expected an id of this project")
        number = None if self.class_ is None else label_set.classes.index(self.class_)
        return QueueRequest(name, number, None if self.item is None else list(ids).index(self.item))


def queue_records(
    columns: ItemColumns, ids: Sequence[str], prepared: Prepared, label_set: LabelSet, asked: QueueRequest
) -> Records:
    """Return a row for each item of a queue, in the queue's order.

    Columns: the item's label, the model's guess (without that label), the score that ranks the queue and, for
    a suspect label, `otherwise`: the ids of the most similar items with another label.
    """
    data, classes = _queue_data(prepared, label_set), label_set.classes

    def values(item: int, score: float | None) -> Sequence[Any]:
        label = data.labels.get(item)
        other = labelled_otherwise(data, item) if asked.name == "suspect" else []
        said = None if label in (None, NONE) else named(label, classes)
        ranked = None if score is None else round(score, 6)
        return said, _guess(data, item, classes), ranked, " ".join(ids[i] for i in other)

    return columns.records(COLUMNS, ((item, values(item, score)) for item, score in queue(data, asked)))


def _guess(data: QueueData, item: int, classes: Sequence[str]) -> str | None:
    if item in data.left_out:
        guess = data.left_out[item].guess
        return None if guess == NONE else named(guess, classes)
    if data.probabilities is None:
        return None
    return predicted(data.probabilities[item], classes, data.thresholds)[0]


def _queue_data(prepared: Prepared, label_set: LabelSet) -> QueueData:
    """Return the input of queues, by a model trained on all labels."""
    answers, labels, k = label_set.answers, label_set.labels, len(label_set.classes)
    if not labels:
        return QueueData(prepared.features, None, labels, answers, {})
    model, multi = trained(prepared, label_set), label_set.multi_label
    probs, limits = model.probabilities(np.arange(len(prepared.features))), model.thresholds
    both = {**labels, **dict.fromkeys(label_set.none, k)}
    columns = [*range(k), NONE] if label_set.none else list(range(k))
    known = columns, confirmed_name_rows(prepared, label_set), label_set.ruled_out
    said: dict[str, Any] = {} if multi else {"sources": label_set.suggestions, "drawn": label_set.drawn}
    doubts = left_out(prepared.features, both, *known, multi_label=multi, **said)
    stands = {**labels, **dict.fromkeys(label_set.none, NONE)}
    answered = {i: given for i, given in answers.items() if i in stands}
    agreed = {} if multi else find_consensus(prepared.features, answered, label_set.final)
    how: dict[str, Any] = {"final": frozenset(label_set.final), "consensus": agreed}
    how |= {"multi_label": multi, "thresholds": limits}
    return QueueData(prepared.features, probs, stands, answers, doubts, **how)
