"""What writes to a log: it holds the lock, knows the end, and acknowledges nothing that is not there.

Before anything is changed it says whether that can be written at all (`refusal`): a file that was deleted,
moved, replaced or changed by others is noticed, and so is a disk without room; after a write that failed,
another is tried out first. If the connection to PostgreSQL breaks at a commit, it asks after reconnecting
what became of it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from everylabel.projects.database import sealing
from everylabel.projects.database.chain import Head, Row
from everylabel.projects.database.databases import reason
from everylabel.projects.database.guard import FileGuard
from everylabel.projects.database.locks import FileLock, Session, SessionLock, Taken
from everylabel.projects.database.log_errors import StoreError
from everylabel.projects.database.tables import events

KEPT = "Export the labels before the server is stopped: it still has all of them"
TRIED = "everylabel tries whether it can write"  # in the place of a project's name


class Writer:
    """The writing side of one project's log.

    Parameters
    ----------
    engine, path : the database, and its file if it is one
    project, shown : the log's name in it, and its place in words
    verify : called when others have changed the file; raises if the log is not what this server has written
    rescue : called when the file is gone; copies what is open, and tells where that is
    """

    def __init__(
        self,
        engine: sa.Engine,
        path: Path | None,
        project: str,
        shown: str,
        verify: Callable[[], None],
        rescue: Callable[[], str],
    ) -> None:
        self._engine, self._path, self._project, self._shown = engine, path, project, shown
        self._verify, self._rescue = verify, rescue
        self.head = Head()
        self._guard: FileGuard | None = None
        self._failed = False  # the last write did: the next is tried out first
        self._unsure = False  # whether it was saved: the log, read anew, tells
        self._lost: StoreError | None = None  # until the file is what it was
        self._damaged: StoreError | None = None  # for good
        self._told: tuple[Head, str] | None = None  # where what was open is, and up to which event
        self._one = threading.RLock()
        self._lock: FileLock | SessionLock | None = None
        self._session: Session | None = None  # of PostgreSQL, that had the lock last
        self._take_lock()

    def begin(self, head: Head) -> None:
        """Go on behind this head: the log was read and is whole."""
        self.head, self._unsure = head, False
        if self._path is not None and self._guard is None:
            self._guard = FileGuard(self._path)

    def learn(self, head: Head) -> None:
        """Go on behind a head that was read, if it was not known what was saved."""
        with self._one:
            if self._unsure:
                self.head, self._unsure = head, False

    def give_up(self, error: StoreError) -> None:
        """Refuse all that begins from now on, since the log is damaged."""
        with self._one:
            self._damaged = StoreError(f"nothing can be saved: {error}. {KEPT}")

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def alone(self) -> Iterator[Head]:
        """Keep other threads from writing; yield the head behind which is written."""
        with self._one:
            yield self.head

    @contextmanager
    def writing(self, to: Head) -> Iterator[sa.Connection]:
        """Write in one transaction, which puts another head in the place of the one that is there."""
        with self._one:
            try:
                with self._transaction() as connection:
                    if not sealing.advance(connection, self._project, self.head, to):
                        raise self._others()
                    yield connection
            except IntegrityError as error:
                raise self._others() from error
            except DBAPIError as error:
                self._failed = True
                if not self._saved(to, error):
                    raise StoreError(f"nothing was saved, {self._shown} says: {reason(error)}") from error
            self.head, self._failed = to, False
            if self._guard is not None:
                moved = self._guard.moved()
                if moved is not None:
                    raise StoreError(f"whether this was saved is not known: {moved}. {self._rescued()}")
                self._guard.note()

    def refusal(self) -> StoreError | None:
        """Return why nothing can be written now, if that is known; looking costs less than writing."""
        with self._one:
            if self._damaged is not None:
                return self._damaged
            try:
                if self._guard is not None:
                    self._check_files(self._guard)
                if self._failed:
                    self._try_out()
            except StoreError as error:
                return error
            return None

    def _check_files(self, guard: FileGuard) -> None:
        moved = guard.moved()
        if moved is not None:
            raise StoreError(f"nothing can be saved: {moved}. {self._rescued()}")
        if guard.touched():
            guard.note()  # what is wrong with it is found out once
            try:
                self._verify()
                self._lost = None
            except StoreError as error:
                self._lost = StoreError(f"nothing can be saved: {error}. {KEPT}")
        if self._lost is not None:
            raise self._lost
        if guard.full():
            raise StoreError(f"nothing can be saved: the disk of {self._shown} is full; make room there")

    def _rescued(self) -> str:
        if self._told is None or self._told[0] != self.head:
            self._told = self.head, self._rescue()
        return self._told[1]

    def _try_out(self) -> None:
        """Write something and take it back."""
        row = {"project": TRIED, **Row(0, 0, 0.0, "", "", "", None)._asdict()}
        try:
            with self._transaction() as connection:
                connection.execute(sa.insert(events), row)
                connection.execute(sa.delete(events).where(events.c.project == TRIED))
        except DBAPIError as error:
            if error.connection_invalidated:
                self._end_session()
            raise StoreError(f"nothing can be saved, {self._shown} says: {reason(error)}") from error
        self._failed = False
        if self._guard is not None:
            self._guard.note()

    def _saved(self, to: Head, error: DBAPIError) -> bool:
        """Return whether a write was saved though the connection broke: the log itself tells."""
        if not error.connection_invalidated or self._path is not None:
            return False
        self._end_session()
        try:
            with self._transaction() as connection:
                head = sealing.read_head(connection, self._project)
        except (DBAPIError, StoreError) as again:
            self._unsure = True
            why = reason(again) if isinstance(again, DBAPIError) else str(again)
            raise StoreError(
                f"whether this was saved is not known: the connection to {self._shown} broke ({why}); send "
                "it again with the same key, which counts once"
            ) from error
        if head not in (to, self.head):
            raise self._others() from error
        return head == to

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Yield a connection that commits at the end; PostgreSQL's is that which holds the lock."""
        if self._path is not None:
            with self._engine.begin() as connection:
                yield connection
            return
        if self._lock is None:
            self._take_lock()
        assert isinstance(self._lock, SessionLock)
        with self._lock.connection.begin():
            yield self._lock.connection

    def _end_session(self) -> None:
        """Let go of a session that is lost: the lock is gone with it, and is taken before writing again."""
        if isinstance(self._lock, SessionLock):
            self.close()

    def _take_lock(self) -> None:
        try:
            if self._path is not None:
                self._lock = FileLock(self._path)
            else:
                self._lock = SessionLock(self._engine, self._project, self._session)
                self._session = self._lock.session
        except Taken as error:
            raise StoreError(
                f"store {self._shown} is in use by another server for project {self._project!r}; use that "
                "one, stop it, or choose another --store"
            ) from error

    def _others(self) -> StoreError:
        self._unsure = True
        return StoreError(
            f"store {self._shown} was written to by another server; nothing of this was saved, "
            "stop one of the two"
        )
