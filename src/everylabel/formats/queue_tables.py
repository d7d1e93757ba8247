"""A queue as a table, by a model trained on all labels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.formats.item_columns import ItemColumns
from everylabel.formats.records import named, predicted
from everylabel.formats.tables import Records
from everylabel.labelling.model.training import Prepared
from everylabel.labelling.quality.assessment import left_out
from everylabel.labelling.queues import Asked, Look, labelled_otherwise, queue
from everylabel.labelling.sources.consensus import find_consensus
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import NONE
from everylabel.models.thresholds import thresholds_of
from everylabel.projects.predictions import names_that_teach, probabilities_of, trained_with_evidence

COLUMNS: dict[str, type] = {"label": str, "guess": str, "score": float, "otherwise": str}


class QueueTarget(NamedTuple):
    """The class (by name) and the item (by id) that a queue is about."""

    class_: str | None = None
    item: str | None = None

    def asked(self, name: str, label_set: LabelSet, ids: Sequence[str]) -> Asked:
        """Return the request for a queue by numbers, or raise if class or item does not exist."""
        if self.class_ is not None:
            check_choice(self.class_, "class", label_set.classes)
        if self.item is not None and self.item not in ids:
            raise EverylabelError(f"item is {self.item!r}; expected an id of this project")
        number = None if self.class_ is None else label_set.classes.index(self.class_)
        return Asked(name, number, None if self.item is None else list(ids).index(self.item))


def queue_records(
    columns: ItemColumns, ids: Sequence[str], prepared: Prepared, label_set: LabelSet, asked: Asked
) -> Records:
    """Return a row for each item of a queue, in the queue's order.

    Columns: the item's label, the model's guess (without that label), the score that ranks the queue and, for
    a suspect label, `otherwise`: the ids of the most similar items with another label.
    """
    look, classes = _look(prepared, label_set), label_set.classes

    def values(item: int, score: float | None) -> Sequence[Any]:
        label = look.labels.get(item)
        other = labelled_otherwise(look, item) if asked.name == "suspect" else []
        said = None if label in (None, NONE) else named(label, classes)
        ranked = None if score is None else round(score, 6)
        return said, _guess(look, item, classes), ranked, " ".join(ids[i] for i in other)

    return columns.records(COLUMNS, ((item, values(item, score)) for item, score in queue(look, asked)))


def _guess(look: Look, item: int, classes: Sequence[str]) -> str | None:
    if item in look.left_out:
        guess = look.left_out[item].guess
        return None if guess == NONE else named(guess, classes)
    if look.probabilities is None:
        return None
    return predicted(look.probabilities[item], classes, look.thresholds)[0]


def _look(prepared: Prepared, label_set: LabelSet) -> Look:
    """Return the input of queues, by a model trained on all labels."""
    answers, labels, k = label_set.answers, label_set.labels, len(label_set.classes)
    if not labels:
        return Look(prepared.features, None, labels, answers, {})
    posterior, evidence = trained_with_evidence(prepared, label_set)
    probs = probabilities_of(np.arange(len(prepared.features)), prepared, posterior, evidence)
    multi, limits = label_set.multi_label, thresholds_of(posterior, prepared.features)
    both = {**labels, **dict.fromkeys(label_set.none, k)}
    columns = [*range(k), NONE] if label_set.none else list(range(k))
    known = columns, names_that_teach(prepared, label_set), label_set.ruled_out
    doubts = left_out(prepared.features, both, *known, multi_label=multi)
    stands = {**labels, **dict.fromkeys(label_set.none, NONE)}
    look = Look(prepared.features, probs, stands, answers, doubts, multi_label=multi, thresholds=limits)
    answered = {i: given for i, given in answers.items() if i in stands}
    agreed = {} if multi else find_consensus(prepared.features, answered, label_set.final)
    return look._replace(final=frozenset(label_set.final), consensus=agreed)
