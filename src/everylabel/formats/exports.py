"""Exports of a project at one moment: tables, JSON of Label Studio and Argilla, a model."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, need
from everylabel.formats.argilla import argilla_records
from everylabel.formats.known import LABEL_STUDIO, MODELS, PROGRAMS, TABLES, Format
from everylabel.formats.label_studio import label_studio_tasks
from everylabel.formats.model import export_model
from everylabel.formats.records import (
    Given,
    Predictor,
    QueueTarget,
    all_records,
    answer_records,
    corrected_records,
    held_out_records,
    label_records,
    named,
    prediction_records,
    queue_records,
)
from everylabel.formats.tables import ItemColumns, Records, item_columns, write_table
from everylabel.labelling.desk import Generation
from everylabel.labelling.model.training import Prepared, prepare
from everylabel.labelling.queues import QUEUES
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import CANNOT_TELL, NONE, Refused
from everylabel.models.scaling import linear_layer
from everylabel.projects.predictions import Predicted, trained
from everylabel.projects.project import Project

WHAT = ("labels", "answers", "predictions", "all", "test", *QUEUES)
FORMATS = TABLES | PROGRAMS
ALL = QueueTarget()


class Export(NamedTuple):
    """A file in pieces, and its format."""

    pieces: Iterator[bytes]
    form: Format


def table_export(
    project: Project,
    prepared: Callable[[], Prepared],
    label_set: LabelSet,
    what: str,
    form: str,
    columns: Sequence[str] | None = None,
    of: QueueTarget = ALL,
) -> Export:
    """Return labels, answers, predictions or a queue as a file.

    prepared : gives the features, if they are needed
    columns : the source's own: all, or those named
    of : the class or item of a queue
    """
    check_choice(what, "what", list(WHAT))
    check_choice(form, "format", list(FORMATS))
    if form in PROGRAMS:
        check_choice(what, f"what (for {PROGRAMS[form].title})", ["answers"])
        entries = label_studio_tasks if form == LABEL_STUDIO else argilla_records
        made = entries(project, given(label_set), label_set.classes, partial(_shown, project))
        written = json.dumps(made, ensure_ascii=False, indent=1).encode()
        return Export(iter([written]), FORMATS[form])
    columns_of_items = item_columns(project, columns)
    if what in QUEUES:
        asked = of.asked(what, label_set, project.ids)
        records = queue_records(columns_of_items, project.ids, prepared(), label_set, asked)
    else:
        records = _records(columns_of_items, prepared, label_set, what)
    return Export(write_table(records, form), FORMATS[form])


def model_export(
    prepared: Callable[[], Prepared], label_set: LabelSet, form: str, generation: Generation | None = None
) -> Export:
    """Return the model as a file: everylabel, skops, onnx or torch.

    generation : the fine-tuned encoder that made the features; ONNX holds it with the head, the others
        hold the head
    """
    check_choice(form, "format", list(MODELS))
    if form == "onnx" and generation is not None:
        need("torch", "text", "exporting a fine-tuned network as ONNX")
        from everylabel.models.finetuning import TunedClassifier, TunedEncoder

        head = linear_head(prepared, label_set)
        encoder = TunedEncoder.load(generation.encoder_folder)
        data = TunedClassifier(encoder, *head, label_set.classes).onnx()
        return Export(iter([data]), MODELS[form])
    check_learned(label_set)
    model = trained(prepared(), label_set)
    data = export_model(model.posterior, model.prepared.scaling, label_set.classes, form, model.thresholds)
    return Export(iter([data]), MODELS[form])


def linear_head(prepared: Callable[[], Prepared], label_set: LabelSet) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (d, k) and biases (k,) of the model on unscaled features."""
    check_learned(label_set)
    model = trained(prepared(), label_set)
    return linear_layer(model.posterior, model.prepared.scaling)


def save_network(project: Project, label_set: LabelSet, folder: Path) -> None:
    """Write the fine-tuned encoder of a project with its head to a new folder (`TunedClassifier.load`)."""
    if project.generation is None:
        raise EverylabelError(
            f"project {project.name!r} has no fine-tuned network; expected one that has, or another --format"
        )
    from everylabel.models.finetuning.classifier import copy_with_head

    head = linear_head(lambda: prepare(project.features), label_set)
    copy_with_head(project.generation.encoder_folder, folder, *head, label_set.classes)


def check_learned(label_set: LabelSet) -> None:
    """Raise unless there are labels of two classes."""
    if len(set(label_set.labels.values())) < 2:
        raise Refused(409, "nothing_learned", "there are no labels of two classes yet; label some first")


def predicted_records(predicted: Predicted, columns: Sequence[str] | None = None) -> Records:
    """Return a row for each new item, with all columns of its file, or the named ones."""
    columns_of_items, rows = item_columns(predicted.items, columns), np.arange(len(predicted.items.ids))
    predictor = Predictor(lambda at: predicted.probabilities[at], predicted.classes, predicted.thresholds)
    return prediction_records(columns_of_items, rows, predictor)


def _records(
    columns_of_items: ItemColumns, prepared: Callable[[], Prepared], label_set: LabelSet, what: str
) -> Records:
    classes = label_set.classes
    if what == "labels" and label_set.given:
        answered = dict.fromkeys(label_set.none, ("", "")) | _labels_of_people(label_set)
        return corrected_records(columns_of_items, answered, label_set.given, classes)
    if what == "labels":
        return label_records(columns_of_items, label_set.labels, classes, label_set.by_model)
    if what == "answers":
        return answer_records(columns_of_items, given(label_set), classes)
    model = trained(prepared(), label_set)
    predictor = Predictor(model.probabilities, classes, model.thresholds)
    if what == "test":
        return held_out_records(columns_of_items, label_set.test, predictor)
    left = to_predict(len(model.prepared.features), label_set)
    if what == "all":
        return all_records(columns_of_items, _labels_of_people(label_set), left, predictor)
    return prediction_records(columns_of_items, left, predictor)


def exported(label_set: LabelSet) -> set[int]:
    """Return the items whose labels an export of labels writes: also those by the model, or under review."""
    if not label_set.given:
        return {*label_set.labels, *label_set.by_model}
    return {*label_set.given, *label_set.labels, *label_set.test}.difference(label_set.none)


def _labels_of_people(label_set: LabelSet) -> dict[int, tuple[str, str]]:
    """Return the class of each labelled item, and who gave it."""
    labels = label_set.labels | label_set.test
    by = {
        i: dict.fromkeys(answer.person for answer in label_set.answers.get(i, ()) if answer.value == label)
        for i, label in labels.items()
    }
    return {i: (named(label, label_set.classes), ", ".join(by[i])) for i, label in labels.items()}


def to_predict(n: int, label_set: LabelSet) -> np.ndarray:
    """Return the positions of items to predict: not labelled, not missing, and not "none of these"."""
    known = [*label_set.labels, *label_set.test, *label_set.missing, *label_set.none]
    return np.setdiff1d(np.arange(n), np.array(known, dtype=np.int64))


def _shown(project: Project, i: int) -> str:
    text = project.display.item(i)["text"] if project.kind == "text" else None
    return project.display.text(i) if text is None else str(text)


def given(label_set: LabelSet) -> list[Given]:
    """Return every answer that stands, in the order of its event."""
    answers = [
        Given(
            item,
            answer.person,
            None if answer.value in (CANNOT_TELL, NONE) else answer.value,
            label_set.times.get(answer.seq, 0.0),
            answer.seq,
            answer.value == NONE,
        )
        for item, several in label_set.answers.items()
        for answer in several
    ]
    return sorted(answers, key=lambda answer: answer.saved)
