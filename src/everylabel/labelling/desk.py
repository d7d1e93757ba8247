"""The desk: one thread that takes requests in turn, writes them down, learns, and hands out.

Requests that arrive while the desk is busy are taken together: their labels are learned in one pass
over the pool, their next instances picked at once, and all is written in one commit. A reply is
given after the commit. If the commit fails nothing has happened: the state is read from the log anew. If the
log cannot be read, a state that nothing was taken into since is still what was written, and is kept. While
the log says beforehand that it takes nothing (a full disk), what would change something is refused before it
does, and the rest goes on. While the file of the features is cut off, all is refused.
"""

import logging
import queue
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.id_list import IdList
from everylabel.labelling.assessing import Assessment
from everylabel.labelling.due import Due, due, left_over
from everylabel.labelling.events import Body, Event, Out, Refit, Release
from everylabel.labelling.giving_back import find_memory
from everylabel.labelling.kept import Kept, Shelf, maker, rows_digest, usable
from everylabel.labelling.learner import Change, Learner
from everylabel.labelling.leases import LeaseClock
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.packing import WHAT, Packed, kept_ledger, pack
from everylabel.labelling.refused import Refused
from everylabel.labelling.replay import (
    Start,
    State,
    change_of,
    replay_since,
    same_vectors,
    start_of,
    taught,
    training_due,
)
from everylabel.labelling.rows import Rows
from everylabel.models.scaling import Scaling
from everylabel.selection.pool.scaled import Scaled
from everylabel.selection.select import acts_for

logger = logging.getLogger(__name__)
AT_ONCE = 64  # requests taken together at most
TICK = 1.0  # seconds between looks for leases that have ended
PACKED_EVERY = 500  # events between ledgers that are kept, at least,
PACKED_SHARE = 500  # and one in so many of all: a ledger of a million events is 100 MB
QUIET = 10.0  # seconds without such looks after a commit has failed

Finish = Callable[[], Any]  # makes the reply, once all is learned and handed out
Command = Callable[[], Finish]
Prepared = Callable[[list[Event], Kept | None], tuple[list[Event], Kept | None]]  # events to replay, a model


class Log(Protocol):
    """Where events are kept: in a database, `projects.database.store.Store`."""

    def read(self, after: int = 0) -> list[Event]:
        """Return all events after a number, in order."""

    def mark(self, seq: int) -> str:
        """Return a digest of all events up to one, itself among them; "" if it is not there."""

    def append(self, events: Sequence[Event]) -> None:
        """Write events, all or none; they are safe when this returns."""

    def refusal(self) -> EverylabelError | None:
        """Return why nothing can be written now, if that is known; it costs no more than writing."""

    def hurry(self, seconds: float) -> None:
        """Take no longer than these seconds for all that is asked from now on, or fail."""


class _Job(NamedTuple):
    command: Command
    future: "Future[Any]"
    alone: bool = False  # in a round of its own
    reads: bool = False  # changes nothing


class Desk:
    """The state of one project, and the one thread that may change it.

    Parameters
    ----------
    rows : Rows
        The features of the instances, by id; those that the log says have joined are in the pool.
    log : Log
        What happened to them so far, from the first event on: `projects.log` writes that.
    shelf : Shelf, optional
        Where the model is kept, so that a start need not make it from the log.
    """

    def __init__(self, rows: Rows, log: Log, shelf: Shelf | None = None) -> None:
        self.rows, self.log, self.shelf = rows, log, shelf
        self._kept = 0  # the event up to which the kept model knows all
        self._packed = 0  # and the kept ledger
        self._digested: tuple[object, str] = None, ""  # features, and the digest of items and of them
        self.ledger: Ledger
        self.learner: Learner
        self.update_ms: float | None = None
        self.select_ms: float | None = None
        self.assessment: Assessment | None = None  # how good the model is, as it was looked at last
        self.learned = threading.Event()  # a label came since the last exact training
        self.rounds = 0  # so far; between two replies of one nothing changes
        self._changes: list[Change] = []
        self._trained = 0  # the last event that the model was trained on; changes are those since
        self._fresh: list[Event] = []
        self._asking: list[str] = []
        self._stale = self._closed = False
        self._ahead = False  # the state may hold what is not written, or half of it
        self._refusal: EverylabelError | None = None  # why nothing can be written in this round
        self._quiet_until = 0.0  # no lease ends before, after a commit that failed
        self._lease_clock = LeaseClock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._open()
        if self.ledger.seq == 0:
            raise EverylabelError("log holds no event; expected one that `projects.log` has begun")
        self._thread = threading.Thread(target=self._work, name="desk", daemon=True)
        self._thread.start()

    @property
    def ids(self) -> Sequence[str]:
        """The instances that are there, in the order in which they came."""
        return self.ledger.ids

    @property
    def features(self) -> np.ndarray | Scaled:
        """Their features as the model sees them, brought to scale by `scaling`."""
        return self.learner.pool.features

    @property
    def scaling(self) -> Scaling | None:
        return self.learner.scaling

    def submit(self, command: Command, *, alone: bool = False) -> "Future[Any]":
        """Have a command run by the desk's thread; the future holds what its finish returns.

        A command that raises Refused must not have emitted anything, and changes nothing before it emits.
        """
        future: Future[Any] = Future()
        return self._put(_Job(command, future, alone))

    def _put(self, job: _Job) -> "Future[Any]":
        self._jobs.put(job)
        if self._closed:
            self._refuse_rest()
        return job.future

    def read(self, look: Callable[[], Any]) -> "Future[Any]":
        """Have a look at the state between changes."""
        return self._put(_Job(lambda: look, Future(), reads=True))

    def close(self) -> None:
        """Finish what has been asked, and stop."""
        self._jobs.put(None)
        self._thread.join()
        self._closed = True
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Tell all who still ask that the server is going."""
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(Refused(503, "closing", "the server is stopping; ask again later"))

    def emit(self, person: str, body: Body, key: str | None = None) -> Event:
        """Take an event into ledger and model; it is written at the end of the round."""
        self._check_writable()
        event = Event(self.ledger.seq + 1, self._block, time.time(), person, body, key)
        self._ahead = True
        change = change_of(self.ledger, event)
        self.learner.become(change)
        self._changes.append(change)
        self._fresh.append(event)
        return event

    def ask_for(self, person: str) -> None:
        """Have an instance ready for this person at the end of the round."""
        if person not in self.ledger.leases:
            self._check_writable()
        if person not in self._asking:
            self._asking.append(person)

    def start(self) -> Start:
        """Return where a model that is trained now starts."""
        self.learned.clear()
        return start_of(self.ledger)

    def changes_since(self, seq: int) -> list[Change]:
        """Return what happened to the model after an event."""
        return self._changes[bisect_right(self._changes, seq, key=lambda change: change.seq) :]

    def take(self, learner: Learner, start: Start, settled: int, seen: int) -> None:
        """Go on with a newly trained model that has followed all changes up to `seen`, and follow the rest.

        Its logits were computed up to the event `settled`, and are moved since.
        If class names have changed since it started, or classes have gone, what it was told of them is out of
        date: it is dropped. So is one that was overtaken by a training of later labels.
        """
        self._check_writable()
        gone = any(change.anew is not None for change in self.changes_since(start.seq))
        gone = gone or start.seq < self._trained
        if gone or not same_vectors(start.vectors, taught(self.ledger, self.ledger.columns)):
            self.learned.set()
            learner.close()
            return
        learner.follow(self.changes_since(seen))
        self._ahead = True
        self.learner.close()
        self.learner, self._changes = learner, self.changes_since(start.seq)
        self._trained = start.seq
        told_by = None if self.rows.ready else learner.told_by
        names = start.names_hold if start.vectors else None
        self.emit("", Refit(start.seq, names, told_by, settled))

    def _open(self) -> None:
        """Read the log; where the last training is long ago, train first and write that down."""
        self._load(self._trained_first)

    def _reload(self) -> None:
        self._stale = True  # until it is done
        self._load(lambda events, kept: (events, kept))

    def _trained_first(self, events: list[Event], kept: Kept | None) -> tuple[list[Event], Kept | None]:
        training = training_due(events, kept)
        if training is None:
            return events, kept
        try:
            self.log.append([training])
        except EverylabelError:  # a full disk: what is there can be seen, and the next start trains
            logger.warning("the log takes no more; it is replayed label by label, which may take long")
            return events, kept
        return [*events, training], None

    def _load(self, prepared: Prepared) -> None:
        """Take ledger and model from the log, or from what is kept and the events since."""
        past = kept_ledger(self.shelf, self.log, self.rows, self.rows.ids)
        found = None if past is None else self._replayed(prepared, past)
        found = found or self._replayed(prepared, None)
        assert found is not None
        before: Learner | None = getattr(self, "learner", None)
        self.ledger, self.learner, self._changes = found
        if before is not None:
            before.close()
        self._packed = 0 if past is None else past.seq
        self._trained = self.ledger.trained
        self._fresh, self._asking, self._stale, self._ahead = [], [], False, False
        self.learned.set()

    def _replayed(self, prepared: Prepared, past: Kept | None) -> State | None:
        after = 0 if past is None else past.seq
        events = self.log.read(after)
        events, kept = prepared(events, usable(self.shelf, self.log, events, after))
        return replay_since(past, events, self.rows, kept)

    def keep(self) -> None:
        """Put model and ledger as they are on the shelf, beside the desk; this waits, and no label for it."""

        def look() -> tuple[int, dict[str, np.ndarray] | None, np.ndarray | Scaled, IdList, Packed | None]:
            arrays = self.learner.kept() if self.ledger.seq > self._kept else None
            packed = None if arrays is None else self.pack()
            return self.ledger.seq, arrays, self.features, IdList(self.ids), packed

        if self.shelf is None:
            return
        learner = self.learner
        if self.ledger.seq > self._kept and not learner.exact and learner.pool.is_here:
            # for logits, labels, weights and places
            find_memory(len(self.ids) * (4 * learner.pool.n_classes + 17))
        seq, arrays, features, ids, packed = self.read(look).result()
        if arrays is not None:
            self.shelf.put(Kept(seq, self.log.mark(seq), self._digest(ids, features), maker(), arrays))
            self._kept = seq
        if packed is not None:  # the model first: a start from the ledger needs one that is no older
            self._put_ledger(packed)

    def _digest(self, ids: IdList, features: np.ndarray | Scaled) -> str:
        """Return the digest of items and of their features, which are read once: they stay what they are."""
        if not _is_same(self._digested[0], features):
            self._digested = features, rows_digest(ids, features)
        return self._digested[1]

    def pack(self) -> Packed | None:
        """Return copies of the ledger, if much has come since it was kept; for the desk's thread.

        A replay that starts from it needs a training that starts there or later (see `keep_ledger`), or a
        kept model.
        """
        seq = self.ledger.seq
        due = seq - self._packed >= max(PACKED_EVERY, seq // PACKED_SHARE)
        return pack(self.ledger) if self.shelf and due else None

    def keep_ledger(self, packed: Packed) -> None:
        """Put the ledger that the last training started from on the shelf; this waits."""
        if self._trained >= packed.seq:
            self._put_ledger(packed)

    def _put_ledger(self, packed: Packed) -> None:
        assert self.shelf is not None
        try:
            self.shelf.put(packed.kept(self.log), WHAT)
            self._packed = packed.seq
        except EverylabelError as error:  # a full disk: the next start reads the log
            logger.warning("the ledger could not be kept: %s", error)

    def _work(self) -> None:
        while True:
            try:
                jobs = [self._jobs.get(timeout=TICK)]
                while len(jobs) < AT_ONCE and not self._jobs.empty():
                    jobs.append(self._jobs.get())
            except queue.Empty:
                jobs = []
            wanted = [job for job in jobs if job is not None and job.future.set_running_or_notify_cancel()]
            groups = [list(some) for _, some in groupby(wanted, key=lambda job: job.alone and id(job))]
            for group in groups or [[]]:
                self._round(group)
            if None in jobs:
                return

    def _round(self, jobs: list[_Job]) -> None:
        """Run commands, learn, hand out, write, reply."""
        self.rounds += 1
        gone = self.rows.refusal()
        if gone is not None:  # no look at the state is safe, and no lease ends meanwhile
            for job in jobs:
                job.future.set_exception(gone)
            return
        finishes: list[tuple[_Job, Finish]] = []
        refused: list[tuple[_Job, EverylabelError]] = []
        try:
            if self._stale:  # the log could not be read after a failure: nothing may be built on what is here
                self._reload()
            began, labels, names = time.perf_counter(), self.ledger.n_changes, self.ledger.n_names
            here = len(self.ids)
            self._begin_block()
            self._refusal = None if all(job.reads for job in jobs) else self.log.refusal()
            with self.learner.together():
                if not jobs or not all(job.reads for job in jobs):
                    self._end_leases()
                for job in jobs:
                    try:
                        finishes.append((job, job.command()))
                    except EverylabelError as error:
                        if not isinstance(error, Refused) and error is not self._refusal:
                            raise
                        refused.append((job, error))  # before anything was changed
            if self.ledger.n_changes > labels:
                self.update_ms = 1e3 * (time.perf_counter() - began)
            if self.ledger.n_changes > labels or self.ledger.n_names > names or len(self.ids) > here:
                self.learned.set()
            self._hand_out()
            self._write()
        except Exception as error:
            self._recover(jobs, error)
            return
        for job, refusal in refused:
            job.future.set_exception(refusal)
        for job, finish in finishes:
            try:
                job.future.set_result(finish())
            except Exception as error:
                job.future.set_exception(error)

    def _recover(self, jobs: list[_Job], error: Exception) -> None:
        """Go back to what the log says; tell all who wanted a change that nothing has happened.

        Where it cannot be read, what is here is that, if nothing was taken in: of a damaged log it is all
        there is.
        """
        if not isinstance(error, EverylabelError):
            logger.exception("a round of the desk failed")
        self._quiet_until = time.monotonic() + QUIET
        try:
            if not self._stale:  # otherwise it has just been tried
                self._reload()
        except EverylabelError as problem:  # tried again before the next request
            logger.warning("the log cannot be read either: %s", problem)
        except Exception:
            logger.exception("the log cannot be read either")
        self._stale, self._asking = self._stale and self._ahead, []
        for job in jobs:
            try:
                if self._stale or not job.reads:
                    raise error
                job.future.set_result(job.command()())
            except Exception as problem:
                job.future.set_exception(problem)

    def _check_writable(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def _begin_block(self) -> None:
        self._block = self.ledger.seq + 1

    def _write(self) -> None:
        if self._fresh:
            self.log.append(self._fresh)
            self._fresh, self._ahead = [], False

    def _end_leases(self) -> None:
        """Take back what people have had for too long."""
        seconds = self.ledger.settings["lease_seconds"]
        over = list(self._lease_clock.over(self.ledger.leases, seconds))
        if not over or time.monotonic() < self._quiet_until or self._refusal or self.log.refusal():
            return
        for person, lease in over:
            self.emit(person, Release(self.ids[lease.item]))

    def _hand_out(self) -> None:
        """Give an instance to each who asks and has none."""
        asking = [person for person in self._asking if person not in self.ledger.leases]
        self._asking = []
        if not asking:
            return
        began = time.perf_counter()
        self._begin_block()
        rng = np.random.default_rng([self.ledger.seed, self.ledger.seq])
        expected = round(self.learner.expected(), 6) if self.ledger.labels else None
        waiting: list[str] = []
        for person in asking:
            count = self.ledger.handed + len(waiting) + 1
            found = due(self.ledger, self.learner, person, count, rng)
            if found is None:
                waiting.append(person)
            else:
                self._give(person, found, expected)
        strategy, among = self.ledger.settings["strategy"], len(self.ledger.leases) + len(waiting)
        by = acts_for(strategy, self.learner.pool) if waiting else ""
        picked = self.learner.pick(strategy, len(waiting), rng, among)
        for person, item in zip(waiting, picked, strict=False):
            self._give(person, Due(item, "chosen"), expected, by)
        for person in waiting[len(picked) :]:
            skipped = left_over(self.ledger, person)
            if skipped is not None:
                self._give(person, Due(skipped, "chosen"), expected, "left")
        with self.learner.together():
            pass  # what was handed out is a block of its own, which ends here as it does in a replay
        self.select_ms = 1e3 * (time.perf_counter() - began)

    def _give(self, person: str, due: Due, expected: float | None, by: str = "") -> None:
        item, reason, among, share = due
        self.emit(person, Out(self.ids[item], reason, expected=expected, by=by, among=among, share=share))


def _is_same(one: object, other: np.ndarray | Scaled) -> bool:
    """Return whether features are the same ones; a training may see them by another view."""
    if one is other or not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return one is other
    return one.shape == other.shape and one.ctypes.data == other.ctypes.data
