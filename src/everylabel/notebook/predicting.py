"""Features of what a session is to predict: its own items, or new ones in their own form."""

import os
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import is_missing
from everylabel.data.items import Items
from everylabel.data.options import Options
from everylabel.data.read import read
from everylabel.data.readers.columns import NO_IDS
from everylabel.data.readers.memory import frame_of, read_memory
from everylabel.labelling.desk import Generation
from everylabel.labelling.model.scaling import Rows
from everylabel.models.embedding.embed import Embedder
from everylabel.notebook.state import SessionState
from everylabel.projects.project import Project


class Tuned(NamedTuple):
    """The fine-tuned encoder of a session."""

    generation: Generation

    def rows(self, items: Any) -> np.ndarray:
        """Return the features of items."""
        return self.generation.embed(items)


Encoder = Callable[[], Embedder | Tuned | None]


def features_of(items: Any, state: SessionState, rows: Rows, encoder: Encoder) -> np.ndarray:
    """Return features (n, d) of items, a row for each that was passed; NaN for what cannot be read.

    items : None for those of the session, in the order of the source
    """
    if items is None:
        return _own(state, rows, encoder)
    project, width = state.project, rows.features.shape[1]
    blank = _blank(items, project)
    if blank is not None:
        return np.full((blank, width), np.nan)
    new = _read(items, project)
    if new.features is not None:
        found = np.asarray(new.features, np.float64)
    else:
        embedder = encoder()
        if embedder is None:
            raise EverylabelError(
                f"items are of kind {new.kind!r}, and the model was made from features that came with the "
                f"source; expected features (n, {width}), made the same way"
            )
        if new.kind != project.kind:
            raise EverylabelError(f"items are of kind {new.kind!r}; expected {project.kind!r}")
        found = embedder.rows(new.items).astype(np.float64)
    if found.shape[1] not in (0, width):
        raise EverylabelError(f"items have {found.shape[1]} features; expected {width}, as those labelled")
    places = [row for row in map(new.row, range(len(new.ids))) if row is not None]
    whole = np.full((len(new.ids) + len(new.skipped), width), np.nan)
    if found.shape[1]:
        whole[places] = found
    return whole


def _own(state: SessionState, rows: Rows, encoder: Encoder) -> np.ndarray:
    """Return features of the session's own items; what is not in the pool yet is embedded."""
    project = state.project
    whole = np.full((state.n_rows, rows.features.shape[1]), np.nan)
    places = [(i, row) for i, row in enumerate(map(project.row, range(len(project.ids)))) if row is not None]
    known = [(i, row) for i, row in places if project.ids[i] in rows]
    whole[[row for _, row in known]] = rows.of([project.ids[i] for i, _ in known])
    missing = [(i, row) for i, row in places if project.ids[i] not in rows]
    embedder = encoder() if missing else None
    if embedder is not None:
        found = embedder.rows(project.some([i for i, _ in missing]))
        if found.shape[1]:
            whole[[row for _, row in missing]] = found
    return whole


def _blank(items: Any, project: Project) -> int | None:
    """Return how many new items there are if none of them has anything in it; None if one has."""
    if (
        isinstance(items, str | os.PathLike)
        or not isinstance(items, Sized)
        or getattr(items, "shape", None) == ()
    ):
        return None
    frame = frame_of(items)
    if frame is None:
        return len(items) if _all_empty(items) else None
    own = Options() if project.about is None else project.about.options
    named = own.text_column or own.image_column
    looked_at = [named] if named in frame.names else frame.names
    return frame.rows if all(_all_empty(frame.column(name)) for name in looked_at if name) else None


def _all_empty(values: Any) -> bool:
    return all(is_missing(value) or (isinstance(value, str) and not value.strip()) for value in values)


def _read(items: Any, project: Project) -> Items:
    """Return new items, read as those of the project were."""
    own = Options() if project.about is None else project.about.options
    usual = Options(own.text_column, own.image_column, id_column=NO_IDS)
    if isinstance(items, str | os.PathLike):
        path = Path(items)
        if not path.exists():
            raise EverylabelError(
                f"items is {str(items)!r:.80}, which is no file; expected a list: [{items!r:.40}]"
            )
        return read(str(path.absolute()), usual)
    frame = frame_of(items)
    if frame is None:
        return read_memory(items, Options())
    named = usual.text_column or usual.image_column
    return read_memory(items, usual if named in frame.names else Options(id_column=NO_IDS))
