"""What the page can download, as files in pieces; and the map of the pool."""

import threading
from collections.abc import Callable, Sequence

import numpy as np

from everylabel.data.numbered import Numbered
from everylabel.formats.exports import Export, model_export, table_export
from everylabel.formats.queue_tables import Of
from everylabel.labelling.desk import Desk
from everylabel.labelling.refused import Refused
from everylabel.labelling.rows import GROWN, Prepared, prepare
from everylabel.labelling.snapshot import Snapshot
from everylabel.projects.project import Project
from everylabel.web.layout import layout
from everylabel.web.shown import Shown
from everylabel.web.spooled import File

BY_PEOPLE = ("labels", "answers", "test")  # what looks at labelled items only


class Downloads:
    """The files and the map of one project."""

    def __init__(self, shown: Shown, desk: Desk, method: str = "pca") -> None:
        self.shown, self.desk, self.method = shown, desk, method
        self._lock = threading.Lock()
        self._layout: tuple[np.ndarray, str] | None = None

    def export(self, snapshot: Snapshot, what: str, form: str, columns: Sequence[str] | None, of: Of) -> File:
        """Return labels, answers, predictions or a queue, in the order of the source."""
        if what not in BY_PEOPLE and not self.desk.learner.pool.is_here:
            raise Refused(
                409,
                "in_shards",
                f"{what} of items in shards on Ray are not offered here; see everylabel predict",
            )
        project, snapshot = self._in_order(snapshot)
        made = table_export(project, self._prepared(snapshot), snapshot, what, form, columns, of)
        return self._file(made, what)

    def model(self, snapshot: Snapshot, form: str) -> File:
        """Return the model."""
        _, snapshot = self._in_order(snapshot)
        return self._file(model_export(self._prepared(snapshot), snapshot, form), "model")

    def layout(self) -> tuple[np.ndarray, str]:
        """Return the pool in two dimensions, computed when it is first asked for or has grown by half."""
        if not self.desk.learner.pool.is_here:
            raise Refused(
                409, "in_shards", "the map is not offered for items in shards on Ray: it looks at all of them"
            )
        with self._lock:
            features = self.desk.features
            if self._layout is None or len(features) >= GROWN * len(self._layout[0]):
                self._layout = layout(features, np.random.default_rng(0), self.method)
            return self._layout

    def _in_order(self, snapshot: Snapshot) -> tuple[Project, Snapshot]:
        """Return the items that are there, in the order of the source, and what is known of them."""
        project = self.shown.project
        if isinstance(project.ids, Numbered):
            return project, snapshot
        there = set(snapshot.ids)
        project = project.without([i for i, name in enumerate(project.ids) if name not in there])
        return project, snapshot.seen_from(project.ids)

    def _prepared(self, snapshot: Snapshot) -> Callable[[], Prepared]:
        """Return what brings the items to the scale that they tell, as `everylabel export` does."""
        return lambda: prepare(self.desk.rows.of(snapshot.ids))

    def _file(self, export: Export, what: str) -> File:
        project, form = self.shown.project, export.form
        return File(export.pieces, form.media, f"{project.name}-{what}{form.ending}", [project.folder])
