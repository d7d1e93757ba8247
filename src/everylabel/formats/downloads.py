"""What can be downloaded from a project: tables and the model, from a snapshot of its state."""

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from everylabel.core import Posterior, fit_map, laplace, predict_proba
from everylabel.core.checks import check_choice
from everylabel.formats import writing as exports
from everylabel.formats.writing import Given, Records
from everylabel.labelling.layout import layout
from everylabel.labelling.learner import Prepared
from everylabel.labelling.ledger import CANNOT_TELL, Answer
from everylabel.labelling.refused import Refused
from everylabel.projects.project import Project

WHAT = ("labels", "answers", "predictions")
LABEL_STUDIO = "labelstudio"
MEDIA = {
    "csv": ("text/csv; charset=utf-8", ".csv"),
    "jsonl": ("application/x-ndjson", ".jsonl"),
    "parquet": ("application/vnd.apache.parquet", ".parquet"),
    LABEL_STUDIO: ("application/json", ".json"),
}


class Snapshot(Protocol):
    """The state at one moment; see `service.Snapshot`."""

    classes: list[str]
    labels: dict[int, int]
    answers: dict[int, list[Answer]]
    times: dict[int, float]


class Download(NamedTuple):
    """A file in pieces, its media type and its name's ending."""

    pieces: Iterator[bytes]
    media: str
    ending: str


class Downloads:
    """The files and the map of one project."""

    def __init__(self, project: Project, prepared: Prepared, method: str = "pca") -> None:
        self.project, self.prepared, self.method = project, prepared, method
        self._lock = threading.Lock()
        self._layout: tuple[np.ndarray, str] | None = None

    def table(self, snapshot: Snapshot, what: str, form: str) -> Download:
        """Return labels, answers or predictions as a file."""
        check_choice(what, "what", list(WHAT))
        check_choice(form, "format", list(MEDIA))
        media, ending = MEDIA[form]
        if form == LABEL_STUDIO:
            return Download(self._label_studio(snapshot, what), media, ending)
        return Download(exports.write_table(self._records(snapshot, what), form), media, ending)

    def trained(self, snapshot: Snapshot) -> Posterior:
        """Return the model that all labels of this moment make, trained exactly."""
        if not snapshot.labels:
            raise Refused(409, "nothing_learned", "there are no labels yet; label some first")
        items = sorted(snapshot.labels)
        x = self.prepared.features[items].astype(np.float64)
        y = np.array([snapshot.labels[i] for i in items], dtype=np.int64)
        return laplace(fit_map(x, y, len(snapshot.classes)), x, labels=y)

    def model_file(self, snapshot: Snapshot, form: str) -> Download:
        """Return the model as a file: everylabel, skops, onnx or torch."""
        check_choice(form, "format", list(exports.MODEL_FORMATS))
        if len(set(snapshot.labels.values())) < 2:
            raise Refused(409, "nothing_learned", "there are no labels of two classes yet; label some first")
        posterior, scaling = self.trained(snapshot), self.prepared.scaling
        data = exports.export_model(posterior, scaling, snapshot.classes, form)
        return Download(iter([data]), "application/octet-stream", exports.MODEL_FORMATS[form])

    def layout(self) -> tuple[np.ndarray, str]:
        """Return the pool in two dimensions, computed when it is first asked for."""
        with self._lock:
            if self._layout is None:
                self._layout = layout(self.prepared.features, np.random.default_rng(0), self.method)
            return self._layout

    def export(self, snapshot: Snapshot, what: str, form: str) -> Any:
        """Return a table as a response that is sent in pieces."""
        return _response(self.table(snapshot, what, form), f"{self.project.name}-{what}")

    def model(self, snapshot: Snapshot, form: str) -> Any:
        """Return the model as a response."""
        return _response(self.model_file(snapshot, form), f"{self.project.name}-model")

    def _records(self, snapshot: Snapshot, what: str) -> Records:
        ids, classes, show = self.project.ids, snapshot.classes, self._shows()
        if what == "labels":
            return exports.label_records(ids, snapshot.labels, classes, show)
        if what == "answers":
            return exports.answer_records(ids, given(snapshot), classes, show)
        posterior = self.trained(snapshot)
        left = np.setdiff1d(np.arange(len(ids)), np.array(list(snapshot.labels), dtype=np.int64))

        def probabilities(at: np.ndarray) -> np.ndarray:
            rows = self.prepared.features[at].astype(np.float64)
            return np.asarray(predict_proba(posterior, rows, method="mean"))

        return exports.prediction_records(ids, left, probabilities, classes, show)

    def _shows(self) -> Any:
        return self._shown if self.project.kind == "text" else None

    def _shown(self, i: int) -> str:
        text = self.project.contents.item(i)["text"] if self.project.kind == "text" else None
        return self.project.contents.text(i) if text is None else str(text)

    def _label_studio(self, snapshot: Snapshot, what: str) -> Iterator[bytes]:
        check_choice(what, "what (for Label Studio)", ["answers"])
        kind = self.project.kind
        tasks = exports.label_studio_tasks(
            self.project.ids, given(snapshot), snapshot.classes, self._shown, kind=kind
        )
        return iter([json.dumps(tasks, ensure_ascii=False, indent=1).encode()])


def given(snapshot: Snapshot) -> Sequence[Given]:
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


def _response(download: Download, name: str) -> Any:
    from urllib.parse import quote

    from fastapi.responses import StreamingResponse

    file = quote(f"{name}{download.ending}")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{file}"}
    return StreamingResponse(download.pieces, media_type=download.media, headers=headers)
