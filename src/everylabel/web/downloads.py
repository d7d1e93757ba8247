"""What the page can download, as responses that are sent in pieces; and the map of the pool."""

import threading
from urllib.parse import quote

import numpy as np
from fastapi.responses import StreamingResponse

from everylabel.formats.exports import Export, model_export, table_export
from everylabel.labelling.learner import Prepared
from everylabel.labelling.snapshot import Snapshot
from everylabel.projects.project import Project
from everylabel.web.layout import layout


class Downloads:
    """The files and the map of one project."""

    def __init__(self, project: Project, prepared: Prepared, method: str = "pca") -> None:
        self.project, self.prepared, self.method = project, prepared, method
        self._lock = threading.Lock()
        self._layout: tuple[np.ndarray, str] | None = None

    def export(self, snapshot: Snapshot, what: str, form: str) -> StreamingResponse:
        """Return labels, answers or predictions."""
        return self._response(table_export(self.project, self.prepared, snapshot, what, form), what)

    def model(self, snapshot: Snapshot, form: str) -> StreamingResponse:
        """Return the model."""
        return self._response(model_export(self.prepared, snapshot, form), "model")

    def layout(self) -> tuple[np.ndarray, str]:
        """Return the pool in two dimensions, computed when it is first asked for."""
        with self._lock:
            if self._layout is None:
                self._layout = layout(self.prepared.features, np.random.default_rng(0), self.method)
            return self._layout

    def _response(self, export: Export, what: str) -> StreamingResponse:
        file = quote(f"{self.project.name}-{what}{export.ending}")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{file}"}
        return StreamingResponse(export.pieces, media_type=export.media, headers=headers)
