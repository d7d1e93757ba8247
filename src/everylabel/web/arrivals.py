"""Items that come while a project is served: rows and images of a source that grows, texts that are sent.

Before an item joins the pool its features are in the project's journal, and which row is which is noted in
the store: whenever the server is killed, the next start has the same items by the same names. Rows that are
gone or have other content are told, and left as they were until then. What is sent is written in the log.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.appended import appended
from everylabel.data.changes import Change, compare
from everylabel.data.id_list import IdList
from everylabel.data.items import Items
from everylabel.data.known import Known
from everylabel.data.numbered import Numbered
from everylabel.data.sent import Sent, not_sent, sent_items
from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import Arriving, join
from everylabel.labelling.refused import Refused
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.database.store import Store
from everylabel.projects.growing import PIECE, Growing
from everylabel.projects.held_out import says_test
from everylabel.projects.journal import Journal
from everylabel.projects.project import Project, with_clean_classes
from everylabel.projects.watching import Look, Watched
from everylabel.web.shown import Shown


class Arrivals:
    """What has come to a project and joins its pool, piece by piece; one thread at a time."""

    def __init__(
        self, desk: Desk, log: Store, shown: Shown, note: Callable[[str], Any], test: str | None = None
    ) -> None:
        """Begin; `note` is told what is wrong with a source, `test` is the column that names test items."""
        self.desk, self.log, self.shown, self._note = desk, log, shown, note
        self.state = Arriving()
        self._test = test if test is not None and not test.strip().isdigit() else None
        self._lock = threading.Lock()
        project = shown.project
        n = len(project.ids)
        self._source: Items = project.of_source()
        self._sent: Items | None = project.without(range(n - project.sent)) if project.sent else None
        known = log.items() or Known((), ())
        now = known.renewed(self._source)
        self._known = now if now == known else known  # the source's own strings, once, where they are alike
        self._names = IdList(self._known.keys)
        self._embedder: Embedder | None = None  # loaded when it is needed
        model = None if project.about is None else project.about.options.model
        self._journal = Journal(project.folder, project.kind, model)
        self._waiting: deque[str] = deque()  # ids of items that are to be embedded
        coming = project.coming
        self._rest = 0 if coming is None else len(coming.items) - coming.done  # what it began without
        self._unfinished = 0  # files that are not whole
        self._broken: set[str] = set()  # digests of images that cannot be embedded
        self._count()

    @property
    def project(self) -> Project:
        return self.shown.project

    def look(self, watched: Watched) -> None:
        """Take up what a source has that it had not; an error is told, and what was there stays."""
        try:
            found = watched.look()
            if found is not None:
                self._tell(self._take(found, watched))
        except EverylabelError as error:
            watched.again()
            self._tell(f"{watched.path.name} cannot be read as it is now, nothing joins: {error}")

    def piece(self) -> bool:
        """Embed some of what waits and have it join the pool; return whether there was any."""
        with self._lock:
            ids = [self._waiting[i] for i in range(min(PIECE, len(self._waiting)))]
            if not ids:
                return False
            position = IdList(self._source.ids).position
            try:
                self._join(self._source, [position[name] for name in ids])
            except Refused:  # the server is stopping
                raise
            except EverylabelError as error:  # no model, for instance
                self._tell(f"what has come cannot be embedded now: {error}")
                return False
            for _ in ids:
                self._waiting.popleft()
            self._count()
        return True

    def grow(self, coming: Growing, project: Project) -> None:
        """Embed a piece of what the project began without, and have it join; broken images are left out."""
        with self._lock:
            places = coming.piece()
            if places:
                labelled = [i for i in places if project.labels[i] >= 0]
                labels = {project.ids[i]: project.classes[int(project.labels[i])] for i in labelled}
                ids, test = [project.ids[i] for i in places], self._for_test(project)
                self.state.joined += join(self.desk, ids, coming.rows[places], labels, test).result()
            self._rest = len(coming.items) - coming.done
            if coming.complete:
                self._leave_out({project.ids[i] for i in coming.broken})
                coming.finish()
            self._count()

    def send(self, sent: Sequence[Sent]) -> int:
        """Have texts join the pool that come from no source; return how many were not there before."""
        project = self.project
        if isinstance(project.ids, Numbered):
            raise Refused(
                409, "in_shards", "shards do not grow while they are labelled; put more into another folder"
            )
        if project.kind != "text":
            raise Refused(
                409, "not_text", "this project is not of texts; put images into its folder, with --watch"
            )
        with self._lock:
            project = self.project  # as others have left it
            fresh = {one.id: one for one in sent if not self._is_here(one)}
            wrong = next((one for one in sent if fresh.get(one.id, one).text != one.text), None)
            if wrong is not None:
                raise Refused(409, "id_taken", f"id {wrong.id!r:.80} was sent with two texts; expected one")
            if not fresh:
                return 0
            column = None if project.about is None else project.about.options.text_column
            items, before = sent_items(list(fresh.values()), project, column), self._sent
            self._check_writable()
            rows = self._embed(items.items)
            self._journal.add(items.digests, rows)
            try:
                self._sent = items if before is None else before.followed_by(items, appended)
                self.shown.grow(project.with_items(project.followed_by(items, appended)), items)
                written = {name: one._asdict() for name, one in fresh.items()}
                joined = join(self.desk, items.ids, rows, sent=written).result()
            except BaseException:
                self._sent = before
                self._show()
                raise
            self.state.joined += joined
        return joined

    def _is_here(self, one: Sent) -> bool:
        """Return whether a text has joined already; refuse another by the same id."""
        place = self.shown.place(one.id)
        if place is None and (one.id in self.desk.ledger.absent or one.id in self._names):
            raise Refused(409, "id_taken", f"id {one.id!r:.80} is of a row that is gone; expected another")
        if place is not None and self.project.items[place] != one.text:
            raise Refused(409, "id_taken", f"id {one.id!r:.80} has another text here; expected another id")
        return place is not None

    def _show(self) -> None:
        """Show all that there is: the source's items, and then what was sent."""
        items = self._source if self._sent is None else self._source.followed_by(self._sent)
        self.shown.become(self.project.with_items(items))

    def _take(self, found: Look, watched: Watched) -> str:
        """Have what is new in a source wait to be embedded; return what is wrong."""
        items = with_clean_classes(found.items)
        if self._sent is not None:
            items = not_sent(items, set(self._sent.ids))
        change = compare(self._known, items, () if self._sent is None else self._sent.ids)
        items, here = replace(items, ids=change.keys), set(self._source.ids)
        new = [i for i, name in enumerate(items.ids) if name not in here]
        absent = self.desk.ledger.absent
        late = [i for i in new if items.ids[i] in absent]
        ready = [i for i in new if items.ids[i] not in absent and items.digests[i] not in self._broken]
        ready = [i for i in ready if self.shown.may_show(items, i)]
        whole = watched.whole(items, ready)
        with self._lock:
            if whole:
                self._add(items, whole, new, change)
            self._unfinished = len(ready) - len(whole)
            self._count()
        return self._wrong(change, found.unfinished, [items.known_as(i) for i in late])

    def _add(self, items: Items, whole: Sequence[int], new: Sequence[int], change: Change) -> None:
        """Note items that are new in the source, show them, and have them wait."""
        rest = set(new).difference(whole)
        names = [items.ids[i] for i in whole]
        if change.only_appended:
            source = items.without(sorted(rest))
        else:
            others = set(range(len(items.ids))).difference(whole)
            source = self._source.followed_by(items.without(sorted(others)))
        self._keep(source)
        self._show()
        self._waiting.extend(names)

    def _keep(self, source: Items) -> None:
        """Note which rows there are, by their names in the log; if that fails, all is as it was."""
        known = self._known.renewed(source)
        self.log.set_items(known)
        self._source, self._known, self._names = source, known, IdList(known.keys)

    def _join(self, items: Items, places: Sequence[int]) -> None:
        """Embed items and have them join the pool; those that cannot be embedded are left out."""
        self._check_writable()
        rows = self._embed(items.some(places))
        good = [not np.isnan(row).any() and row.size > 0 for row in rows]
        ids = [items.ids[i] for i, fine in zip(places, good, strict=True) if fine]
        digests = [items.digests[i] for i, fine in zip(places, good, strict=True) if fine]
        broken = {items.ids[i]: items.digests[i] for i, fine in zip(places, good, strict=True) if not fine}
        if ids:
            self._journal.add(digests, rows[good])
            labels = {
                items.ids[i]: items.classes[int(items.labels[i])] for i in places if items.labels[i] >= 0
            }
            joined = join(self.desk, ids, rows[good], labels, self._for_test(items)).result()
            self.state.joined += joined
        self._broken.update(broken.values())
        self._leave_out(broken)

    def _check_writable(self) -> None:
        """Refuse before anything is embedded what the log would not take in the end."""
        refusal = self.log.refusal()
        if refusal is not None:
            raise refusal

    def _for_test(self, items: Items) -> set[str]:
        return set(says_test(items, self._test)) if self._test else set()

    def _embed(self, content: Any) -> np.ndarray:
        """Return features of items, as those of the project were made."""
        self._embedder = self._embedder or self.project.embedder()
        if self._embedder is None:
            raise Refused(
                409, "no_model", "its features came with the source; expected one that was embedded"
            )
        return self._embedder.rows(content)

    def _leave_out(self, ids: Collection[str]) -> None:
        """Note that some items are none: images that turned out to be broken."""
        if ids:
            self._keep(self._source.without([i for i, name in enumerate(self._source.ids) if name in ids]))

    def _count(self) -> None:
        self.state.coming = self._rest + len(self._waiting) + self._unfinished

    def _wrong(self, change: Change, unfinished: bool, late: list[str]) -> str:
        """Return in words what is not applied while the server runs."""
        there = len(self._known.keys) - self._known.gone
        last = self._known.name(there - 1) if there else ""
        gone = () if unfinished and change.gone == (last,) else change.gone  # it is being written
        wrong = str(replace(change, appended=(), moved=0, alike=0, gone=gone))
        parts = [f"the source has changed ({wrong}); start again to go on with that"] if wrong else []
        if late:
            parts.append(f"{len(late):,} are back that were gone before: they join at the next start")
        return "; ".join(parts)

    def _tell(self, wrong: str) -> None:
        if wrong and wrong != self.state.told:
            self._note(wrong)
        self.state.told = wrong
