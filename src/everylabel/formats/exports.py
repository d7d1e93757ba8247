"""What can be taken out of a project, from its state at one moment: tables, Label Studio's JSON, a model."""

import json
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from everylabel.core import predict_proba
from everylabel.core.checks import check_choice
from everylabel.formats.label_studio import label_studio_tasks
from everylabel.formats.model import MODEL_FORMATS, export_model
from everylabel.formats.tables import (
    Given,
    Records,
    answer_records,
    label_records,
    prediction_records,
    write_table,
)
from everylabel.labelling.learner import Prepared
from everylabel.labelling.ledger import CANNOT_TELL
from everylabel.labelling.refused import Refused
from everylabel.labelling.snapshot import Snapshot
from everylabel.projects.predictions import Predicted, trained
from everylabel.projects.project import Project

WHAT = ("labels", "answers", "predictions")
LABEL_STUDIO = "labelstudio"
MEDIA = {
    "csv": ("text/csv; charset=utf-8", ".csv"),
    "jsonl": ("application/x-ndjson", ".jsonl"),
    "parquet": ("application/vnd.apache.parquet", ".parquet"),
    LABEL_STUDIO: ("application/json", ".json"),
}


class Export(NamedTuple):
    """A file in pieces, its media type and its name's ending."""

    pieces: Iterator[bytes]
    media: str
    ending: str


def table_export(project: Project, prepared: Prepared, snapshot: Snapshot, what: str, form: str) -> Export:
    """Return labels, answers or predictions as a file."""
    check_choice(what, "what", list(WHAT))
    check_choice(form, "format", list(MEDIA))
    if form == LABEL_STUDIO:
        check_choice(what, "what (for Label Studio)", ["answers"])
        answers, show = given(snapshot), partial(_shown, project)
        tasks = label_studio_tasks(project.ids, answers, snapshot.classes, show, kind=project.kind)
        written = json.dumps(tasks, ensure_ascii=False, indent=1).encode()
        return Export(iter([written]), *MEDIA[form])
    return Export(write_table(_records(project, prepared, snapshot, what), form), *MEDIA[form])


def model_export(prepared: Prepared, snapshot: Snapshot, form: str) -> Export:
    """Return the model as a file: everylabel, skops, onnx or torch."""
    check_choice(form, "format", list(MODEL_FORMATS))
    if len(set(snapshot.labels.values())) < 2:
        raise Refused(409, "nothing_learned", "there are no labels of two classes yet; label some first")
    data = export_model(trained(prepared, snapshot), prepared.scaling, snapshot.classes, form)
    return Export(iter([data]), "application/octet-stream", MODEL_FORMATS[form])


def predicted_records(predicted: Predicted) -> Records:
    """Return a row for each new item."""
    items = predicted.items
    show = (lambda i: str(items.display.item(i)["text"])) if items.kind == "text" else None
    rows = np.arange(len(items.ids))
    return prediction_records(
        items.ids, rows, lambda at: predicted.probabilities[at], predicted.classes, show
    )


def _records(project: Project, prepared: Prepared, snapshot: Snapshot, what: str) -> Records:
    ids, classes = project.ids, snapshot.classes
    show = partial(_shown, project) if project.kind == "text" else None
    if what == "labels":
        return label_records(ids, snapshot.labels, classes, show)
    if what == "answers":
        return answer_records(ids, given(snapshot), classes, show)
    posterior = trained(prepared, snapshot)
    left = np.setdiff1d(np.arange(len(ids)), np.array(list(snapshot.labels), dtype=np.int64))

    def probabilities(at: np.ndarray) -> np.ndarray:
        rows = prepared.features[at].astype(np.float64)
        return np.asarray(predict_proba(posterior, rows, method="mean"))

    return prediction_records(ids, left, probabilities, classes, show)


def _shown(project: Project, i: int) -> str:
    text = project.display.item(i)["text"] if project.kind == "text" else None
    return project.display.text(i) if text is None else str(text)


def given(snapshot: Snapshot) -> list[Given]:
    """Return every answer that stands, in the order they were given."""
    answers = [
        Given(
            item,
            answer.person,
            None if answer.value == CANNOT_TELL else answer.value,
            snapshot.times.get(answer.seq, 0.0),
            answer.seq,
        )
        for item, several in snapshot.answers.items()
        for answer in several
    ]
    return sorted(answers, key=lambda answer: answer.saved)
