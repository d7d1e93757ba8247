"""Files that the page can download, and the map of the pool.

A file is complete before its first byte is sent: making it holds the project's state in memory, and a slow
client may take an hour. Small files stay in memory, so that labels can be downloaded when the disk is full.
Others are unnamed temporary files in the project's folder, which are deleted when they are closed.

The map shows n points of d features in two dimensions: by PCA, the two leading directions of at most SAMPLE
rows, all rows projected on them; or by UMAP if it is installed and requested.
"""

import errno
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from urllib.parse import quote

import numpy as np
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from everylabel.core.errors import need
from everylabel.data.items import Numbered
from everylabel.formats.exports import Export, model_export, table_export
from everylabel.formats.records import QueueTarget
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import GROWN, Prepared, prepare
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import Refused
from everylabel.projects.project import Project
from everylabel.selection.pool.features import LazyScaled
from everylabel.web.item_view import ItemView

IN_MEMORY = 4_000_000  # bytes; larger files go to disk
BLOCK = 2**17  # bytes sent at a time
SAMPLE = 4000  # rows from which PCA estimates the directions
UMAP_SAMPLE = 20_000
CHUNK = 16_384  # rows converted to single precision at a time
TAIL = 0.002  # share of outliers on each side, which are drawn on the edge


class Downloads:
    """The files and the map of one project."""

    def __init__(self, shown: ItemView, desk: Desk, method: str = "pca") -> None:
        self.shown, self.desk, self.method = shown, desk, method
        self._lock = threading.Lock()
        self._layout: tuple[np.ndarray, str] | None = None

    def export(
        self, label_set: LabelSet, what: str, form: str, columns: Sequence[str] | None, of: QueueTarget
    ) -> Response:
        """Return a file of labels, answers, predictions or a queue, in the order of the source."""
        project, label_set = self._in_order(label_set)
        made = table_export(project, self._prepared(label_set), label_set, what, form, columns, of)
        return self._reply(made, what)

    def model(self, label_set: LabelSet, form: str) -> Response:
        """Return the model as a file in the given format."""
        _, label_set = self._in_order(label_set)
        made = model_export(self._prepared(label_set), label_set, form, self.desk.generation)
        return self._reply(made, "model")

    def layout(self) -> tuple[np.ndarray, str]:
        """Return the map (n, 2) and its method; recomputed when the pool has grown by the factor GROWN."""
        with self._lock:
            features = self.desk.features
            if self._layout is None or len(features) >= GROWN * len(self._layout[0]):
                self._layout = layout(features, np.random.default_rng(0), self.method)
            return self._layout

    def _in_order(self, label_set: LabelSet) -> tuple[Project, LabelSet]:
        """Return the project without absent items, and its labels, both in the order of the source."""
        project = self.shown.project
        if isinstance(project.ids, Numbered):
            return project, label_set
        there = set(label_set.ids)
        project = project.without([i for i, name in enumerate(project.ids) if name not in there])
        return project, label_set.seen_from(project.ids)

    def _prepared(self, label_set: LabelSet) -> Callable[[], Prepared]:
        """Return a function that scales the items' features as `everylabel export` does."""
        return lambda: prepare(self.desk.rows.of(label_set.ids))

    def _reply(self, export: Export, what: str) -> Response:
        project, form = self.shown.project, export.form
        name = f"{project.name}-{what}{form.ending}"
        return file_reply(export.pieces, form.media, name, str(project.folder))


def file_reply(pieces: Iterator[bytes], media: str, name: str, folder: str | None = None) -> Response:
    """Return a file as a reply; a large one is stored in the folder before its first byte is sent."""
    file = SpooledTemporaryFile(IN_MEMORY, dir=folder)  # noqa: SIM115 closed once it is sent
    try:
        for piece in pieces:
            file.write(piece)
        file.flush()
    except Exception as error:
        with suppress(OSError):  # a full disk refuses what is left to write
            file.close()
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        message = f"there is no room on the server's disk for this file ({error.strerror})"
        advice = "make some there, and try again; all answers are kept"
        raise Refused(507, "no_room", f"{message}: {advice}") from error
    headers = {
        "content-length": str(file.tell()),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name)}",
    }
    file.seek(0)
    blocks = iter(lambda: file.read(BLOCK), b"")
    close = BackgroundTask(file.close)  # also if the client has gone
    return StreamingResponse(blocks, headers=headers, media_type=media, background=close)


def layout(
    features: np.ndarray | LazyScaled, rng: np.random.Generator, method: str = "pca"
) -> tuple[np.ndarray, str]:
    """Return points (n, 2) between 0 and 1, the same for the same seed, and the method's name."""
    if len(features) < 3 or features.shape[1] < 2:
        method = "pca"
    points = _umap(features, rng) if method == "umap" else _pca(features, rng)
    return _fitted(points), method


def _pca(features: np.ndarray | LazyScaled, rng: np.random.Generator) -> np.ndarray:
    from sklearn.utils.extmath import randomized_svd  # takes a second

    some = _sampled(features, SAMPLE, rng)
    center = some.mean(axis=0)
    axes = randomized_svd(some - center, 2, random_state=0)[2].T
    axes = np.pad(axes, [(0, 0), (0, 2 - axes.shape[1])])  # one item or feature has one direction
    shift = center @ axes
    if isinstance(features, LazyScaled):
        return features.product(axes).T - shift
    chunks = (np.asarray(features[at : at + CHUNK], np.float32) for at in range(0, len(features), CHUNK))
    return np.concatenate([chunk @ axes - shift for chunk in chunks])


def _umap(features: np.ndarray | LazyScaled, rng: np.random.Generator) -> np.ndarray:
    umap = need("umap", "umap", "a map by UMAP")
    some = _sampled(features, UMAP_SAMPLE, rng)
    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UMAP warns that a seed means one thread
        model = umap.UMAP(n_components=2, n_neighbors=min(15, len(some) - 1), random_state=seed).fit(some)
        if len(some) == len(features):
            return np.asarray(model.embedding_)
        return np.asarray(model.transform(np.asarray(features, np.float32)))


def _sampled(features: np.ndarray | LazyScaled, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return up to `most` rows, drawn at random and kept in their order."""
    n = len(features)
    rows = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    return np.asarray(features[rows], dtype=np.float32)


def _fitted(points: np.ndarray) -> np.ndarray:
    """Return points scaled to the unit square; a direction without spread becomes 0.5."""
    low, high = np.quantile(points, [TAIL, 1 - TAIL], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    scaled = np.where(high > low, (points - low) / spread, 0.5)
    return np.asarray(np.clip(scaled, 0.0, 1.0), dtype=np.float32)
