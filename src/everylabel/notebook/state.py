"""What is known of a session at one moment: by its project while it runs, and still after its end."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.formats.beside import beside
from everylabel.formats.records import label_records
from everylabel.formats.tables import Records
from everylabel.labelling.model.scaling import Rows, prepare
from everylabel.labelling.progress import accuracy
from everylabel.labelling.quality.accuracy import Interval
from everylabel.labelling.state.label_set import LabelSet
from everylabel.labelling.state.types import NONE
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.classifier_files import as_classifier
from everylabel.projects.predictions import trained
from everylabel.projects.project import Project
from everylabel.web.server import Opened


class SessionState(NamedTuple):
    """All items, those of them that are in the pool, in the order of the source, and what is known of them.

    version : the number of the last event
    accuracy : of the model on what is left, as it was looked at last
    """

    project: Project
    here: Project
    label_set: LabelSet
    version: int
    accuracy: Interval | None

    def records(self) -> Records:
        """Return a row for each labelled item, with the columns of its source."""
        known = self.label_set
        return label_records(beside(self.here), known.labels, known.classes, known.by_model)

    @property
    def n_rows(self) -> int:
        """How many rows the source has, with those that were left out."""
        rows = [row for row in map(self.project.row, range(len(self.project.ids))) if row is not None]
        return max([len(rows) + len(self.project.skipped), *(row + 1 for row in rows)])

    def column(self) -> list[str | None]:
        """Return the labels of the source's rows; None where there is none."""
        values: list[str | None] = [None] * self.n_rows
        for item, label in (self.label_set.by_model | self.label_set.labels).items():
            row = self.here.row(item)
            if row is not None:
                values[row] = self.label_set.classes[label]
        return values

    def model(self, rows: Rows) -> LaplaceClassifier:
        """Return a classifier of features as they came, trained exactly on all labels and class names."""
        if len(self.label_set.classes) < 2 or (
            len(set(self.label_set.labels.values())) < 2 and not self.label_set.names
        ):
            raise EverylabelError("there are no labels of two classes yet; expected some: label on the page")
        ready = prepare(rows.of(self.label_set.ids))
        return as_classifier(trained(ready, self.label_set), ready.scaling, self.label_set.classes)


def state_of(opened: Opened) -> SessionState:
    """Return what is known of a project that is open."""
    desk, shown = opened.service.desk, opened.shown

    def look() -> tuple[LabelSet, int, dict[str, Any]]:
        return (
            desk.label_set(),
            desk.state.seq,
            accuracy(desk.state),
        )

    label_set, version, figures = desk.read(look).result()
    project, there = shown.project, set(label_set.ids)
    here = project.without([i for i, name in enumerate(project.ids) if name not in there])
    return SessionState(project, here, label_set.seen_from(here.ids), version, _interval(figures))


def n_labels(opened: Opened) -> int:
    """Return how many items of a project that is open have a label."""
    desk = opened.service.desk

    def look() -> int:
        return len(desk.state.labels) - desk.state.by_class[NONE]

    return int(desk.read(look).result())


def _interval(figures: dict[str, Any]) -> Interval | None:
    found: Sequence[Any] = [figures[name] for name in Interval._fields]
    return None if found[0] is None else Interval(*found)
