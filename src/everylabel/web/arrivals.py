"""Items that join while a project is served: the rest of a large source, new rows and images, sent texts.

An item's features are on disk, and its row is in the store, before it joins the pool: after a crash the next
start has the same items with the same ids. The log holds the texts that were sent. Rows that are missing or
changed are reported, and stay as they were until the next start.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Items, Numbered, Sent, not_sent, sent_items
from everylabel.data.source_diff import Change, RecordedRows, compare
from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import CHANGED, Arriving, join
from everylabel.labelling.state.types import Refused
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.arrivals import PIECE, SourceSnapshot, Watched, embed_piece
from everylabel.projects.features import Pieces, Progress, item_digests
from everylabel.projects.log import is_for_test
from everylabel.projects.project import left_out, with_clean_classes
from everylabel.web.item_view import ItemView

logger = logging.getLogger(__name__)
EVERY = 1.0  # seconds between looks at the source, at least
SHARE = 10  # the pause is at least this many times as long as a look takes


class Arrivals:
    """Adds items to the pool: new rows of the source on a thread of its own, sent texts at once."""

    def __init__(
        self,
        desk: Desk,
        shown: ItemView,
        note: Callable[[str], Any],
        test: str | None = None,
        watched: Watched | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Prepare without starting; call `start` to begin.

        note : receives messages about the source for the user
        test : number of test items, or the column that names them
        watched : the source, if it is watched for new items
        progress : receives the number of items that have joined, and their total
        """
        self.desk, self.shown = desk, shown
        self.state = Arriving()
        self._problems = {"joining": "", "source": ""}  # what is wrong with each
        self._note, self._watched, self._progress = note, watched, progress
        self._test = test if test is not None and not test.strip().isdigit() else None
        project, self._lock = shown.project, threading.Lock()
        self._known = (desk.log.items() or RecordedRows((), ())).renewed(project)
        self._embedder: Embedder | None = None  # loaded when first needed
        self._pieces = Pieces(project.folder, project.kind, project.options.model)
        self._coming = project.coming
        places = () if project.coming is None else project.coming.waiting
        self._waiting = deque(project.ids[i] for i in places)  # ids of items to embed
        self._unfinished = 0  # images that are still being written
        self._broken: set[str] = set()  # digests of images that cannot be read
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="arrivals", daemon=True)
        self._count()

    def start(self) -> None:
        """Start the thread that embeds and watches, if there is anything to embed or to watch."""
        if self._coming is not None or self._watched is not None:
            self._thread.start()

    def close(self) -> None:
        """Stop after the batch that is being embedded."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._waiting:
            there, waiting = len(self.desk.ids), len(self._waiting)
            rest = "the others follow at the next start"
            self._note(f"{there:,} of {there + waiting:,} items are embedded; {rest}")

    def _work(self) -> None:
        next_look = 0.0
        while not self._closed.is_set():
            try:
                began = time.monotonic()
                if self._watched is not None and began >= next_look:
                    self.look()
                    next_look = time.monotonic() + max(EVERY, SHARE * (time.monotonic() - began))
                if self.piece():
                    if self._progress is not None:
                        there = len(self.desk.ids)
                        self._progress(there, there + self.state.coming)
                elif self._watched is None and not self._waiting:
                    return
                else:
                    self._closed.wait(max(EVERY, next_look - time.monotonic()))
            except Exception:  # people continue with the items that have joined
                logger.exception("new items cannot join")
                self._closed.wait(SHARE * EVERY)

    def look(self) -> None:
        """Queue new items of the source for embedding; an error is reported and changes nothing."""
        if self._watched is None:
            return
        try:
            found = self._watched.look()
            if found is not None:
                with self._lock:
                    self._report("source", self._take(found, self._watched))
        except EverylabelError as error:
            self._watched.again()
            name = self._watched.path.name
            self._report("source", f"{name} cannot be read as it is now, nothing joins: {error}")

    def piece(self) -> bool:
        """Embed a batch of queued items and add them to the pool; return whether there were any."""
        with self._lock:
            ids = list(islice(self._waiting, PIECE))
            try:
                if ids:
                    self._join(ids)
                    self._report("joining", "")
                for _ in ids:
                    self._waiting.popleft()
                if self._coming is not None and not self._waiting:
                    self._coming.finish()
                    self._coming = None
            except EverylabelError as error:  # no model, a full disk, labels of too many classes
                if getattr(error, "code", "") != CHANGED:  # else the next attempt uses the new network
                    self._report("joining", f"new items cannot join now: {error}")
                return False
            finally:
                self._count()
        return bool(ids)

    def send(self, sent: Sequence[Sent]) -> int:
        """Add texts that are not in the source to the pool; return how many are new."""
        project = self.shown.project
        if isinstance(project.ids, Numbered):
            raise Refused(
                409, "in_shards", "shards do not grow while they are labelled; put more into another folder"
            )
        if project.kind != "text":
            raise Refused(
                409,
                "not_text",
                "this project has no texts; to add images, put them into its folder and start with --watch",
            )
        with self._lock:
            project = self.shown.project  # another thread may have changed it meanwhile
            fresh = {one.id: one for one in sent if not self._is_here(one)}
            wrong = next((one for one in sent if fresh.get(one.id, one).text != one.text), None)
            if wrong is not None:
                raise Refused(409, "id_taken", f"id {wrong.id!r:.80} was sent with two texts; expected one")
            if not fresh:
                return 0
            items = sent_items(list(fresh.values()), project, project.options.text_column)
            _, rows = self._embed(items, range(len(items)))
            self.shown.replace_project(project.with_items(project.followed_by(items)))
            try:
                written = {name: one._asdict() for name, one in fresh.items()}
                joined = join(self.desk, items.ids, rows, sent=written, content=items.items).result()
            except BaseException:
                self.shown.replace_project(project)
                raise
            self.state.joined += joined
        return joined

    def _is_here(self, one: Sent) -> bool:
        """Return whether a text has joined already; refuse a different text with the same id."""
        place = self.shown.place(one.id)
        if place is None and (one.id in self.desk.state.absent or one.id in self._known.keys):
            raise Refused(
                409, "id_taken", f"id {one.id!r:.80} belongs to a row that was removed; expected another id"
            )
        if place is not None and self.shown.project.items[place] != one.text:
            raise Refused(409, "id_taken", f"id {one.id!r:.80} has another text here; expected another id")
        return place is not None

    def _take(self, found: SourceSnapshot, watched: Watched) -> str:
        """Record, show and queue new items of the source; return a message on changes that must wait."""
        project = self.shown.project
        sent = project.ids[len(project.ids) - project.sent :]
        items = not_sent(with_clean_classes(found.items), set(sent))
        change = compare(self._known, items, sent)
        items, absent = replace(items, ids=change.keys), self.desk.state.absent
        new = [i for i, name in enumerate(items.ids) if self.shown.place(name) is None]
        late = [i for i in new if items.ids[i] in absent]
        ready = [i for i in new if items.ids[i] not in absent and items.digests[i] not in self._broken]
        ready = [i for i in ready if self.shown.may_show(items, i)]
        whole = watched.whole(items, ready)
        if whole and change.only_appended:
            self._set_source(items.without(sorted(set(new).difference(whole))))
        elif whole:  # earlier rows stay as they were
            others = set(range(len(items.ids))).difference(whole)
            self._set_source(project.of_source().followed_by(items.without(sorted(others))))
        self._waiting.extend(items.ids[i] for i in whole)
        self._unfinished = len(ready) - len(whole)
        self._count()
        return self._wrong(change, found.unfinished, len(late))

    def _set_source(self, source: Items) -> None:
        """Record the rows of the source in the store, then show them; a failure changes nothing."""
        known = self._known.renewed(source)
        self.desk.log.set_items(known)
        self._known, project = known, self.shown.project
        if project.sent:
            sent = project.without(range(len(project.ids) - project.sent))
            source = source.followed_by(replace(sent, skipped=()))
        self.shown.replace_project(project.with_items(source))

    def _join(self, ids: Sequence[str]) -> None:
        """Embed items of the source and add them to the pool, without unreadable images."""
        project = self.shown.project
        places = [place for name in ids if (place := self.shown.place(name)) is not None]
        here, rows = self._embed(project, places)
        if here:
            names = [project.ids[i] for i in here]
            labelled = [i for i in here if project.labels[i] >= 0]
            labels = {project.ids[i]: project.classes[int(project.labels[i])] for i in labelled}
            test = {project.ids[i] for i in here if self._test and is_for_test(project, i, self._test)}
            content = project.some(here)
            self.state.joined += join(self.desk, names, rows, labels, test, content=content).result()
        broken = sorted(set(places).difference(here))
        if broken:
            self._note(left_out(project, broken))
            self._broken.update(item_digests(project, broken))
            self._set_source(project.of_source().without(broken))

    def _embed(self, items: Items, places: Sequence[int]) -> tuple[list[int], Any]:
        """Return the positions of readable items and their features, already written to disk."""
        refusal = self.desk.log.refusal()
        if refusal is not None:  # embed nothing that the log would refuse
            raise refusal
        self._embedder = self._embedder or self.shown.project.embedder()
        if self._embedder is None:
            raise Refused(
                409, "no_model", "its features came with the source; expected one that was embedded"
            )
        return embed_piece(items, places, self._embedder, self._pieces)

    def _count(self) -> None:
        self.state.coming = len(self._waiting) + self._unfinished

    def _wrong(self, change: Change, unfinished: bool, late: int) -> str:
        """Return a message on the changes that take effect at the next start."""
        there = len(self._known.keys) - self._known.gone
        last = self._known.name(there - 1) if there else ""
        gone = () if unfinished and change.gone == (last,) else change.gone  # the last row is being written
        wrong = str(replace(change, appended=(), moved=0, gone=gone))
        parts = [f"the source has changed ({wrong}); start again to use it"] if wrong else []
        if late:
            parts.append(f"{late:,} have returned after they were missing: they join at the next start")
        return "; ".join(parts)

    def _report(self, what: str, problem: str) -> None:
        """Show a problem with the source or with joining; "" if there is none."""
        if problem and problem != self._problems[what]:
            self._note(problem)
        self._problems[what] = problem
        self.state.problem = self._problems["joining"] or self._problems["source"]
