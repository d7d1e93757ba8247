"""The event log in a database: SQLite in a file, or PostgreSQL by its URL.

An event that `append` has returned from survives a power cut: SQLite writes ahead and waits for the
disk at every commit, PostgreSQL does so by default. One server writes to a project's log at a time;
readers (such as `everylabel export`) may read beside it. What is read is what was written, or an error says
which part is: events are chained, and sealed by a head (`sealing.py`).
"""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from everylabel.core.errors import EverylabelError
from everylabel.data.known import NOT_NOTED, Known
from everylabel.labelling.events import Event, from_row, to_row
from everylabel.projects import databases, sealing
from everylabel.projects.chain import Head, Row, chained, digest
from everylabel.projects.databases import reason
from everylabel.projects.locks import FileLock, SessionLock, Taken
from everylabel.projects.log_errors import Damaged, StoreError
from everylabel.projects.tables import BEFORE, FORMAT, events, items

__all__ = ["Damaged", "Store", "StoreError"]
_GARBLED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class Store:
    """The log of one project. Parameters: a file's path or a database's URL, and the project's name.

    told : what a person should know of it
    """

    def __init__(self, where: str | Path, project: str, *, write: bool = True) -> None:
        self.where, self.project, self.told = str(where), project, ""
        self._path = None if "://" in self.where else Path(where)
        self._lock: FileLock | SessionLock | None = None
        self._head = Head()
        self._one_at_a_time = threading.Lock()  # events and rows of the source are written by two threads
        self._engine = self._connect(write)
        try:
            with self._telling("opened"):
                self._open(write)
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The store's place without a password."""
        return repr(str(self._path)) if self._path else repr(self._engine.url.render_as_string())

    def read(self, after: int = 0, kind: str | None = None) -> list[Event]:
        """Return all events after number `after`, of one kind if it is named, in order."""
        with self._telling("read"):
            return [
                Event(
                    row.seq, row.block, row.at, row.person, from_row(row.kind, json.loads(row.body)), row.key
                )
                for row in self._rows(after)
                if kind in (None, row.kind)
            ]

    def append(self, fresh: Iterable[Event]) -> None:
        """Write events, all or none; they are on disk when this returns."""
        with self._one_at_a_time:
            rows = chained(self._head.chain, map(_row, fresh))
            if not rows:
                return
            head = self._head._replace(seq=rows[-1].seq, chain=rows[-1].chain or "")
            with self._writing(head) as connection:
                self._insert(connection, rows)

    def items(self) -> Known | None:
        """Return the rows of the source as it was last time, if there was one."""
        with self._telling("read"):
            with self._engine.connect() as connection:
                head = sealing.read_head(connection, self.project) if self._sealed else None
                text = sealing.read_items(connection, self.project)
            loss = sealing.find_other_items(text, head)
            if loss is not None:
                raise Damaged(self.shown, loss)
            if text is None:
                return None
            known = json.loads(text)
            if isinstance(known, list):
                return Known(known[0], known[1], id_column=NOT_NOTED)
            return Known(**known)

    def set_items(self, known: Known) -> None:
        """Note the source as it is now."""
        text = json.dumps(known._asdict(), ensure_ascii=False)
        with self._one_at_a_time, self._writing(self._head._replace(items=digest(text))) as connection:
            connection.execute(sa.delete(items).where(items.c.project == self.project))
            connection.execute(sa.insert(items), {"project": self.project, "format": FORMAT, "items": text})

    def content(self) -> tuple[list[Row], str | None]:
        """Return all events as they are stored and the noted source, of one moment; both are whole."""
        with self._telling("read"), self._engine.connect() as connection:
            if self._path is not None:
                connection.exec_driver_sql("BEGIN")
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            head = sealing.read_head(connection, self.project) if self._sealed else None
            rows = sealing.read_rows(connection, self.project, self._sealed)
            text = sealing.read_items(connection, self.project)
            loss = sealing.find_loss(rows, head) or sealing.find_other_items(text, head)
            if loss is not None:
                raise Damaged(self.shown, loss)
            return rows, text

    def take_over(self, rows: Sequence[Row], text: str | None) -> None:
        """Write events and the noted source of another log to this one, which is empty."""
        linked = chained("", rows)
        last = linked[-1] if linked else None
        head = Head() if last is None else Head(last.seq, last.chain or "")
        head = head._replace(items="" if text is None else digest(text))
        with self._writing(head) as connection:
            self._insert(connection, linked)
            if text is not None:
                connection.execute(
                    sa.insert(items), {"project": self.project, "format": FORMAT, "items": text}
                )

    def close(self) -> None:
        """Let go of the database."""
        self._let_go()
        self._engine.dispose()

    def _open(self, write: bool) -> None:
        """Check tables and format; take the lock, and see that all is whole, if it is to be written to."""
        if write:
            self._take_lock()
        found = sealing.is_sealed(self._engine)
        if isinstance(found, str):
            raise Damaged(self.shown, found)
        self._sealed = found
        if write:
            sealing.make_tables(self._engine)
            self._sealed = True
        self._check_format()
        if write:
            self._check_whole()

    def _check_whole(self) -> None:
        """See that the log is what was written; seal one of a version before."""
        if self._path is not None:
            with self._engine.connect() as connection:
                found = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            if found != "ok":
                raise Damaged(self.shown, f"the file's pages do not fit together ({found})")
        self._rows()
        self.items()
        with self._engine.begin() as connection:
            head = sealing.read_head(connection, self.project)
            if head is None:
                head, n = sealing.seal(connection, self.project)
                if n:
                    self.told = (
                        f"the log is from a version before: its {n:,} events are sealed now, so that damage "
                        "is found; older versions of everylabel do not open it any more"
                    )
        self._head = head

    def _rows(self, after: int = 0) -> list[Row]:
        """Return events after a number as they are stored, which are whole."""
        with self._engine.connect() as connection:
            head = sealing.read_head(connection, self.project) if self._sealed else None
            rows = sealing.read_rows(connection, self.project, self._sealed, after)
        before = ""
        if after:
            if not rows or rows[0].seq != after:
                return [row for row in self._rows() if row.seq > after]
            before, rows = rows[0].chain or "", rows[1:]
            head = None if head is None or head.seq <= after else head
        loss = sealing.find_loss(rows, head, before)
        if loss is not None:
            raise Damaged(self.shown, loss)
        return rows

    def _insert(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        if rows:
            connection.execute(
                sa.insert(events), [{"project": self.project, **row._asdict()} for row in rows]
            )

    @contextmanager
    def _writing(self, to: Head) -> Iterator[sa.Connection]:
        """Write in one transaction, which puts another head in the place of the one that is there."""
        others = StoreError(
            f"store {self.shown} was written to by another server; nothing of this was saved, "
            "stop one of the two"
        )
        try:
            with self._transaction() as connection:
                if not sealing.advance(connection, self.project, self._head, to):
                    raise others
                yield connection
        except IntegrityError as error:
            raise others from error
        except DBAPIError as error:
            if error.connection_invalidated and self._path is None:
                self._let_go()  # the lock is gone with its session: take it again before writing again
            raise StoreError(f"nothing was saved, {self.shown} says: {reason(error)}") from error
        self._head = to

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Yield a connection that commits at the end; PostgreSQL's is that which holds the lock."""
        if self._path is not None:
            with self._engine.begin() as connection:
                yield connection
            return
        if not isinstance(self._lock, SessionLock):
            self._take_lock()
        assert isinstance(self._lock, SessionLock)
        with self._lock.connection.begin():
            yield self._lock.connection

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Tell in a sentence what is wrong with a database that cannot be opened or read."""
        try:
            yield
        except EverylabelError:
            raise
        except DBAPIError as error:
            raise StoreError(f"store {self.shown} cannot be {what}: {reason(error)}") from error
        except (*_GARBLED, sa.exc.SQLAlchemyError) as error:
            raise Damaged(self.shown, f"it holds what cannot be understood ({error})") from error

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _connect(self, write: bool) -> sa.Engine:
        if self._path is None:
            return databases.postgres(self.where)
        if write:
            databases.make_file(self._path)
        elif not self._path.exists():
            raise StoreError(f"store {str(self._path)!r} is not there; expected a log of everylabel label")
        return databases.sqlite(self._path, write)

    def _take_lock(self) -> None:
        try:
            if self._path is not None:
                self._lock = FileLock(self._path)
            else:
                self._lock = SessionLock(self._engine, self.project)
        except Taken as error:
            raise StoreError(
                f"store {self.shown} is in use by another server for project {self.project!r}; use that "
                "one, stop it, or choose another --store"
            ) from error

    def _check_format(self) -> None:
        query = sa.select(items.c.format).where(items.c.project == self.project)
        with self._engine.connect() as connection:
            stored = connection.execute(query).scalar()
        if stored not in (None, FORMAT, *BEFORE):
            raise StoreError(
                f"store {self.shown} has format {stored}; expected {FORMAT}: open it with the version of "
                "everylabel that wrote it"
            )


def _row(event: Event) -> Row:
    kind, body = to_row(event.body)
    text = json.dumps(body, ensure_ascii=False)
    return Row(event.seq, event.block, event.at, event.person, kind, text, event.key)
