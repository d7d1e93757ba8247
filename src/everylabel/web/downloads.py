"""Files that the page can download, and the map of the pool.

A file is complete before its first byte is sent: making it holds the project's state in memory, and a slow
client may take an hour. Small files stay in memory, so that labels can be downloaded when the disk is full.
Others are unnamed temporary files in the project's folder, which are deleted when they are closed.

The map shows n points of d features in two dimensions: by PCA, the two leading directions of at most SAMPLE
rows, all rows projected on them; or by UMAP if it is installed and requested.
"""

import asyncio
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple
from urllib.parse import quote

import numpy as np
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from everylabel.core.checks import check_choice
from everylabel.core.errors import need
from everylabel.data.items import Numbered
from everylabel.formats.exports import Export, model_export, table_export
from everylabel.formats.records import QueueTarget
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import GROWN, Prepared, prepare
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import Refused
from everylabel.projects.project import Project
from everylabel.selection.pool.features import Scaled
from everylabel.web.access import AGAIN
from everylabel.web.item_view import Shown

BY_PEOPLE = ("labels", "answers", "test")  # exports that need labelled items only
IN_MEMORY = 4_000_000  # bytes; larger files go to disk
AT_ONCE = 2  # files made at the same time: each takes memory and a core
PATIENCE = 5.0  # seconds for which a request waits for its turn
BLOCK = 2**17  # bytes sent at a time
SAMPLE = 4000  # rows from which PCA estimates the directions
UMAP_SAMPLE = 20_000
SPARE, ROUNDS = 8, 10  # additional directions and passes of the subspace iteration
CHUNK = 16_384  # rows converted to single precision at a time
TAIL = 0.002  # share of outliers on each side, which are drawn on the edge


class File(NamedTuple):
    """A file in pieces, with media type and name; folder : where a large one is stored temporarily."""

    pieces: Iterator[bytes]
    media: str
    name: str
    folder: str | None = None


class Downloads:
    """The files and the map of one project."""

    def __init__(self, shown: Shown, desk: Desk, method: str = "pca") -> None:
        self.shown, self.desk, self.method = shown, desk, method
        self._lock = threading.Lock()
        self._layout: tuple[np.ndarray, str] | None = None

    def export(
        self, label_set: LabelSet, what: str, form: str, columns: Sequence[str] | None, of: QueueTarget
    ) -> File:
        """Return a file of labels, answers, predictions or a queue, in the order of the source."""
        if what not in BY_PEOPLE:
            self._check_scan(f"{what} of items in shards on Ray are not offered here; see everylabel predict")
        project, label_set = self._in_order(label_set)
        made = table_export(project, self._prepared(label_set), label_set, what, form, columns, of)
        return self._file(made, what)

    def model(self, label_set: LabelSet, form: str) -> File:
        """Return the model as a file in the given format."""
        _, label_set = self._in_order(label_set)
        made = model_export(self._prepared(label_set), label_set, form, self.desk.generation)
        return self._file(made, "model")

    def layout(self) -> tuple[np.ndarray, str]:
        """Return the map (n, 2) and its method; recomputed when the pool has grown by the factor GROWN."""
        self._check_scan("the map is not offered for items in shards on Ray: it looks at all of them")
        with self._lock:
            features = self.desk.features
            if self._layout is None or len(features) >= GROWN * len(self._layout[0]):
                self._layout = layout(features, np.random.default_rng(0), self.method)
            return self._layout

    def _check_scan(self, message: str) -> None:
        """Refuse a download that needs all items if they are in shards on a cluster."""
        if not self.desk.learner.pool.can_scan:
            raise Refused(409, "in_shards", message)

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

    def _file(self, export: Export, what: str) -> File:
        project, form = self.shown.project, export.form
        return File(export.pieces, form.media, f"{project.name}-{what}{form.ending}", str(project.folder))


class Turns:
    """Limits how many files are made at a time, so that labelling stays responsive."""

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._at_once, self._patience, self._free = at_once, patience, asyncio.Semaphore(at_once)

    async def reply(self, make: Callable[[], Awaitable[File]]) -> Response:
        """Return a file as a reply; refuse with 429 if no turn comes within `patience` seconds."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience)
        except TimeoutError as error:
            message = f"{self._at_once} files are being made, the most that are made at once"
            raise Refused(429, "busy", f"{message}; try again in {AGAIN} seconds") from error
        try:
            made = await make()
            file = await asyncio.to_thread(spool, made.pieces, made.folder)
        finally:
            self._free.release()
        return FileReply(file, made.media, made.name)


class FileReply(StreamingResponse):
    """A reply that sends a file, positioned at its end, and then closes it, also if the client has gone."""

    def __init__(self, file: IO[bytes], media: str, name: str) -> None:
        headers = {
            "content-length": str(file.tell()),
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        }
        super().__init__(_blocks(file), media_type=media, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def spool(pieces: Iterator[bytes], folder: str | None) -> IO[bytes]:
    """Write all pieces to one temporary file and return it, positioned at its end."""
    file = SpooledTemporaryFile(IN_MEMORY, dir=folder)  # noqa: SIM115 closed by FileReply
    try:
        for piece in pieces:
            _write(file, piece)
    except BaseException:
        with suppress(OSError):  # the write error is raised already
            file.close()
        raise
    return file


def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        file.write(piece)
        file.flush()
    except OSError as error:
        raise Refused(
            507,
            "no_room",
            f"there is no room on the server's disk for this file ({error.strerror or error}): make some "
            "there, and try again; all answers are kept",
        ) from error


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(BLOCK):
        yield block


def layout(
    features: np.ndarray | Scaled, rng: np.random.Generator, method: str = "pca"
) -> tuple[np.ndarray, str]:
    """Return points (n, 2) between 0 and 1, the same for the same seed, and the method's name."""
    check_choice(method, "method", ["pca", "umap"])
    n = len(features)
    if n < 3 or features.shape[1] < 2:
        method = "pca"
    points = _umap(features, rng) if method == "umap" else _pca(features, rng)
    return _fitted(points), method


def _pca(features: np.ndarray | Scaled, rng: np.random.Generator) -> np.ndarray:
    some = _sampled(features, SAMPLE, rng)
    center = some.mean(axis=0)
    axes = _leading(some - center, rng).T
    shift = center @ axes
    if isinstance(features, Scaled):
        return features.times(axes).T - shift
    chunks = (np.asarray(features[at : at + CHUNK], np.float32) for at in range(0, len(features), CHUNK))
    return np.concatenate([chunk @ axes - shift for chunk in chunks])


def _leading(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the two leading directions (2, d) of centred rows, by subspace iteration (Halko et al. 2011)."""
    d = rows.shape[1]
    found = rng.normal(size=(d, min(d, 2 + SPARE))).astype(np.float32)
    for _ in range(ROUNDS):
        found = np.linalg.qr(rows.T @ (rows @ found))[0]
    within = np.linalg.svd(rows @ found, full_matrices=False)[2][:2]
    axes = np.zeros((2, d), np.float32)
    axes[: len(within)] = within @ found.T
    return axes


def _umap(features: np.ndarray | Scaled, rng: np.random.Generator) -> np.ndarray:
    umap = need("umap", "umap", "a map by UMAP")
    some = _sampled(features, UMAP_SAMPLE, rng)
    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UMAP warns that a seed means one thread
        model = umap.UMAP(n_components=2, n_neighbors=min(15, len(some) - 1), random_state=seed).fit(some)
        if len(some) == len(features):
            return np.asarray(model.embedding_)
        return np.asarray(model.transform(np.asarray(features, np.float32)))


def _sampled(features: np.ndarray | Scaled, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return up to `most` rows, drawn at random and kept in their order."""
    n = len(features)
    rows = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    return np.asarray(features[rows], dtype=np.float32)


def _fitted(points: np.ndarray) -> np.ndarray:
    """Return points scaled to the unit square; a direction without spread becomes 0.5."""
    low, high = np.quantile(points, [TAIL, 1 - TAIL], axis=0) if len(points) else (np.zeros(2), np.zeros(2))
    spread = np.where(high > low, high - low, 1.0)
    scaled = np.where(high > low, (points - low) / spread, 0.5)
    return np.asarray(np.clip(scaled, 0.0, 1.0), dtype=np.float32)
