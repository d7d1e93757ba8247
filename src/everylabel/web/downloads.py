"""What the page can download, as files in pieces; and the map of the pool.

A file is made in full before its first byte is sent: to make it needs the project's state in memory, and a
client may take an hour. Small files lie in memory, so that labels can be had though the disk is full; others
in a file without a name in the project's folder, which goes when it is closed.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple
from urllib.parse import quote

import numpy as np
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from everylabel.data.id_list import Numbered
from everylabel.formats.exports import Export, model_export, table_export
from everylabel.formats.queue_tables import Of
from everylabel.labelling.desk import Desk
from everylabel.labelling.errors import Refused
from everylabel.labelling.model.scaling import GROWN, Prepared, prepare
from everylabel.labelling.state.label_set import LabelSet
from everylabel.projects.project import Project
from everylabel.web.errors import AGAIN
from everylabel.web.item_view import Shown
from everylabel.web.layout import layout

BY_PEOPLE = ("labels", "answers", "test")  # what looks at labelled items only
IN_MEMORY = 4_000_000  # bytes of a file that lies there
AT_ONCE = 2  # files that are made: each takes memory and a core
PATIENCE = 5.0  # seconds that a request waits for its turn
BLOCK = 2**17  # bytes that are sent at a time


class File(NamedTuple):
    """A file in pieces, what it is called, and the folder in which it may lie."""

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
        self, label_set: LabelSet, what: str, form: str, columns: Sequence[str] | None, of: Of
    ) -> File:
        """Return labels, answers, predictions or a queue, in the order of the source."""
        if what not in BY_PEOPLE:
            self._check_scan(f"{what} of items in shards on Ray are not offered here; see everylabel predict")
        project, label_set = self._in_order(label_set)
        made = table_export(project, self._prepared(label_set), label_set, what, form, columns, of)
        return self._file(made, what)

    def model(self, label_set: LabelSet, form: str) -> File:
        """Return the model."""
        _, label_set = self._in_order(label_set)
        made = model_export(self._prepared(label_set), label_set, form, self.desk.generation)
        return self._file(made, "model")

    def layout(self) -> tuple[np.ndarray, str]:
        """Return the pool in two dimensions, computed when it is first asked for or has grown by half."""
        self._check_scan("the map is not offered for items in shards on Ray: it looks at all of them")
        with self._lock:
            features = self.desk.features
            if self._layout is None or len(features) >= GROWN * len(self._layout[0]):
                self._layout = layout(features, np.random.default_rng(0), self.method)
            return self._layout

    def _check_scan(self, message: str) -> None:
        """Refuse a download that looks at all items, if they lie in shards elsewhere."""
        if not self.desk.learner.pool.can_scan:
            raise Refused(409, "in_shards", message)

    def _in_order(self, label_set: LabelSet) -> tuple[Project, LabelSet]:
        """Return the items that are there, in the order of the source, and what is known of them."""
        project = self.shown.project
        if isinstance(project.ids, Numbered):
            return project, label_set
        there = set(label_set.ids)
        project = project.without([i for i, name in enumerate(project.ids) if name not in there])
        return project, label_set.seen_from(project.ids)

    def _prepared(self, label_set: LabelSet) -> Callable[[], Prepared]:
        """Return what brings the items to the scale that they tell, as `everylabel export` does."""
        return lambda: prepare(self.desk.rows.of(label_set.ids))

    def _file(self, export: Export, what: str) -> File:
        project, form = self.shown.project, export.form
        return File(export.pieces, form.media, f"{project.name}-{what}{form.ending}", str(project.folder))


class Turns:
    """Makes files, some at a time, so that those who label need not wait."""

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE) -> None:
        self._at_once, self._patience, self._free = at_once, patience, asyncio.Semaphore(at_once)

    async def reply(self, make: Callable[[], Awaitable[File]]) -> Response:
        """Return a file as a reply; refuse if others are being made for too long."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience)
        except TimeoutError as error:
            told = f"{self._at_once} files are being made, which is as many as go at once"
            raise Refused(429, "busy", f"{told}; try again in {AGAIN} seconds") from error
        try:
            made = await make()
            file = await asyncio.to_thread(spool, made.pieces, made.folder)
        finally:
            self._free.release()
        return FileReply(file, made.media, made.name)


class FileReply(StreamingResponse):
    """A file that is at its end, closed when it is sent or its client has gone."""

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
    """Return all pieces as one file, at its end."""
    file = SpooledTemporaryFile(IN_MEMORY, dir=folder)  # noqa: SIM115 closed when it is sent
    try:
        for piece in pieces:
            _write(file, piece)
    except BaseException:
        with suppress(OSError):  # it is told already that nothing more can be written
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
