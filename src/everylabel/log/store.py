"""The event log of a project in a database: SQLite in a file, or PostgreSQL by its URL.

An event that `append` has returned from survives a power cut: SQLite waits for the disk at every commit, and
PostgreSQL does so by default. One server writes to a project's log at a time (`database.py`); readers, such
as `everylabel export`, may read beside it. The hash chain is checked when a log is opened for writing and
whenever events are read.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import packed_digests, unpacked_digests
from everylabel.data.items import id_list, ids_from_stored, stored_ids
from everylabel.data.source_diff import NOT_NOTED, RecordedRows
from everylabel.log import database
from everylabel.log.database import (
    Head,
    Row,
    Taken,
    chained,
    connect,
    digest,
    events,
    find_damage,
    find_other_items,
    lock_file,
    lock_session,
    make_file,
    reason,
    shown_place,
)
from everylabel.log.events import GARBLED, Damaged, Event, NoLog, NotKnown, StoreError, from_row, to_row

__all__ = ["Damaged", "NoLog", "NotKnown", "Store", "StoreError"]
TRIAL = "everylabel tries whether it can write"  # the project of trial events
EXPORT = "Export the labels before the server is stopped: it still has all of them"
# words of SQLite for a damaged file, and of both databases for a missing table
_UNREADABLE = ("malformed", "Could not decode", "no such table", 'relation "everylabel')


def _address_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.address")


class Store:
    """The log of one project.

    Parameters
    ----------
    where : a file's path or a database's URL
    project : the name of the log in it
    write : take the lock and check the log; otherwise it is only read

    Attributes
    ----------
    note : a note for the person who opened it, or ""
    shown : its place in quotes, without a password
    """

    def __init__(self, where: str | Path, project: str, *, write: bool = True) -> None:
        self.where, self.project, self.note = str(where), project, ""
        self._path = None if "://" in self.where else Path(where)
        self._writes, self._mutex = write, threading.Lock()  # one thread of this process writes at a time
        self._lock: sqlite3.Connection | sa.Connection | None = None
        self._head: Head | None = None  # after the last write; None: read again before the next one
        self._failed = False  # the last write failed
        self._file: tuple[int, int] | None = None  # device and inode of SQLite's file
        self._engine = connect(self.where, write)
        self.shown = shown_place(self.where)
        try:
            with self._explained("opened"):
                self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock and close all connections."""
        self._release()
        self._engine.dispose()

    # Reading

    def read(self) -> list[Event]:
        """Return all events, in order; raise Damaged if the hash chain is broken."""
        with self._snapshot() as connection:
            head = self._read_head(connection)
            rows = list(database.each_row(connection, self.project, self._has_chain))
            self._refuse(find_damage(rows, head))
            return list(map(_event, rows))

    def first(self) -> Event | None:
        """Return the first event, unchecked."""
        return next(iter(self._events_where(events.c.seq == 1)), None)

    def glance(self, kind: str) -> list[Event]:
        """Return the events of one kind, unchecked; `read` and opening for writing check all events."""
        return self._events_where(events.c.kind == kind)

    def holds(self, kinds: Iterable[str]) -> bool:
        """Return whether there is an event of one of these kinds."""
        ours = (events.c.project == self.project, events.c.kind.in_(list(kinds)))
        with self._explained("read"), self._engine.connect() as connection:
            return connection.execute(sa.select(events.c.seq).where(*ours).limit(1)).first() is not None

    def items(self) -> RecordedRows | None:
        """Return the rows of the source at the last opening, if there was one."""
        with self._snapshot() as connection:
            head = self._read_head(connection)
            text = database.read_items(connection, self.project)
            self._refuse(find_other_items(text, head))
            return None if text is None else from_text(text)

    def content(self) -> tuple[list[Row], str | None]:
        """Return all stored events and the stored source, read in one transaction and checked."""
        with self._snapshot() as connection:
            self._check(connection)
            rows = list(database.each_row(connection, self.project, self._has_chain))
            return rows, database.read_items(connection, self.project)

    def _check(self, connection: sa.Connection) -> Head | None:
        """Check all events, the stored source and SQLite's pages; return the head. Events are not parsed."""
        head = self._read_head(connection)
        self._refuse(find_damage(database.each_row(connection, self.project, self._has_chain), head))
        self._refuse(find_other_items(database.read_items(connection, self.project), head))
        if self._path is not None:
            found = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            self._refuse(None if found == "ok" else f"the file's pages do not fit together ({found})")
        return head

    def _events_where(self, where: sa.ColumnElement[bool]) -> list[Event]:
        with self._explained("read"), self._engine.connect() as connection:
            return [_event(row) for row in database.each_row(connection, self.project, False, where)]

    def _read_head(self, connection: sa.Connection) -> Head | None:
        return database.read_head(connection, self.project) if self._has_chain else None

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees the log of one moment, whatever is written meanwhile."""
        with self._explained("read"), self._engine.connect() as connection:
            if self._path is not None:
                connection.exec_driver_sql("BEGIN")
                yield connection
            else:
                yield connection.execution_options(isolation_level="REPEATABLE READ")

    def _refuse(self, damage: str | None) -> None:
        if damage is not None:
            raise Damaged(self.shown, damage)

    # Writing

    def append(self, fresh: Iterable[Event]) -> None:
        """Write events, all or none; they are on disk when this returns."""
        rows = list(map(_row, fresh))
        if rows:
            self.write(rows)

    def set_items(self, known: RecordedRows) -> None:
        """Store the source as it is now."""
        self.write(text=to_text(known))

    def write(self, rows: Sequence[Row] = (), text: str | None = None) -> None:
        """Write events and, if given, the stored source in one transaction, and move the head."""
        with self._mutex:
            complete = False
            try:
                with self._transaction() as connection:
                    head = self._head or self._read_head(connection) or Head()
                    linked = chained(head.chain, rows)
                    to = head if text is None else head._replace(items=digest(text))
                    if linked:
                        to = to._replace(seq=linked[-1].seq, chain=linked[-1].chain or "")
                    # moves only from the head that this writer wrote last: a second writer is noticed
                    if not database.move_head(connection, self.project, head, to):
                        raise self._other_writer()
                    database.insert_rows(connection, self.project, linked)
                    if text is not None:
                        database.replace_items(connection, self.project, text)
                    complete = True
            except IntegrityError as error:
                raise self._other_writer() from error
            except DBAPIError as error:
                self._failed = True
                raise self._not_saved(error, complete) from error
            self._head, self._failed = to, False
            self._check_file("it is not known whether this was saved")

    def refusal(self) -> StoreError | None:
        """Return the reason why nothing can be written now, or None; cheaper than writing."""
        try:
            self._check_file("nothing can be saved")
            if self._failed:
                self._write_trial()
        except StoreError as error:
            return error
        return None

    def _write_trial(self) -> None:
        """Write and delete an event of no project, which touches the same pages as an append."""
        try:
            with self._mutex, self._transaction() as connection:
                database.insert_rows(connection, TRIAL, [Row(0, 0, 0.0, "", "", "", None)])
                connection.execute(sa.delete(events).where(events.c.project == TRIAL))
        except DBAPIError as error:
            raise self._not_saved(error) from error
        self._failed = False

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Yield a connection that commits at the end; PostgreSQL's is the one that holds the lock."""
        if self._path is not None:
            with self._engine.begin() as connection:
                yield connection
            return
        if self._lock is None:
            self._take_lock()
        assert isinstance(self._lock, sa.Connection)
        with self._lock.begin():
            yield self._lock

    def _not_saved(self, error: DBAPIError, complete: bool = False) -> StoreError:
        """Return the error for a failed transaction; complete : only its commit failed."""
        if error.connection_invalidated and self._path is None:
            self._head = None
            self._release()  # the lock ended with its session and is taken again before the next write
            if complete:
                return NotKnown(
                    f"it is not known whether this was saved: the connection to {self.shown} broke "
                    f"({reason(error)}); send it again with the same key, which counts once"
                )
        return StoreError(f"nothing was saved, {self.shown} says: {reason(error)}")

    def _take_lock(self) -> None:
        try:
            if self._path is not None:
                self._lock = lock_file(self._path)
            else:
                self._lock = lock_session(self._engine, self.project)
        except Taken as error:
            raise StoreError(
                f"store {self.shown} is in use by another server for project {self.project!r}"
                f"{self._server_address()}; use that one, stop it, or choose another --store"
            ) from error

    def note_address(self, address: str) -> None:
        """Save the address of the server that writes this log, for the error of a second server."""
        if self._path is not None:
            make_file(_address_file(self._path))
            _address_file(self._path).write_text(address)

    def _server_address(self) -> str:
        """Return " at ADDRESS" of the server that has the lock; "" if it is unknown."""
        if self._path is None or not _address_file(self._path).is_file():
            return ""
        return f" at {_address_file(self._path).read_text()[:200]}"

    def _release(self) -> None:
        if self._lock is not None:
            if self._path is not None:
                _address_file(self._path).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _check_file(self, then: str) -> None:
        """Raise if the file is no longer there: SQLite would continue without an error."""
        now = self._file_id()
        if self._file not in (None, now):
            what = "was deleted or moved" if now is None else "was replaced"
            raise StoreError(f"{then}: {self.shown} {what} while the server has it open. {EXPORT}")

    def _file_id(self) -> tuple[int, int] | None:
        """Return device and inode of SQLite's file; None if it is not there."""
        if self._path is None or not self._path.exists():
            return None
        about = self._path.stat()
        return about.st_dev, about.st_ino

    def _other_writer(self) -> StoreError:
        self._head = None
        return StoreError(
            f"store {self.shown} was written to by another server; nothing of this was saved, "
            "stop one of the two"
        )

    # Opening

    def _open(self) -> None:
        """Check tables and format; for writing, also take the lock and check all events."""
        if self._writes:
            self._take_lock()
        columns = database.event_columns(self._engine)
        self._has_chain = "chain" in columns or self._writes
        if self._writes and "chain" not in columns:
            database.make_tables(self._engine, columns)
        elif not columns:
            raise NoLog(self.shown, "holds none of our tables")
        self._check_format()
        if self._writes:
            with self._snapshot() as connection:
                head = self._check(connection)
            self._head, self._file = head or self._add_chain(), self._file_id()

    def _add_chain(self) -> Head:
        with self._engine.begin() as connection:
            head = database.add_chain(connection, self.project)
        if head.seq:
            self.note = (
                f"the log is from an earlier version: its {head.seq:,} events are chained now, so that "
                "damage is found; earlier versions of everylabel no longer open it"
            )
        return head

    def _check_format(self) -> None:
        query = sa.select(database.items.c.format).where(database.items.c.project == self.project)
        with self._engine.connect() as connection:
            stored = connection.execute(query).scalar()
        if stored is not None and stored > database.FORMAT:
            raise StoreError(
                f"store {self.shown} has format {stored}; expected {database.FORMAT}: open it with the "
                "version of everylabel that wrote it"
            )

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn errors of the database into errors with a readable reason."""
        try:
            yield
        except EverylabelError:
            raise
        except DBAPIError as error:
            if any(sign in str(error.orig) for sign in _UNREADABLE):
                raise Damaged(self.shown, f"{reason(error):.100}") from error
            raise StoreError(f"store {self.shown} cannot be {what}: {reason(error)}") from error
        except (*GARBLED, sa.exc.SQLAlchemyError) as error:
            raise Damaged(self.shown, f"it holds values that cannot be read ({error})") from error


def _event(row: Row) -> Event:
    return Event(row.seq, row.at, row.person, from_row(row.kind, json.loads(row.body)), row.key)


def _row(event: Event) -> Row:
    kind, body = to_row(event.body)
    text = json.dumps(body, ensure_ascii=False)
    return Row(event.seq, event.seq, event.at, event.person, kind, text, event.key)


class _StoredSource(msgspec.Struct, forbid_unknown_fields=True):
    """The rows of a source, as JSON."""

    keys: int | list[str]  # n stands for the ids "0" to "n - 1"
    digests: str | list[str]
    own_ids: list[str] | None = None
    id_column: str | None = None
    gone: int = 0


def to_text(known: RecordedRows) -> str:
    """Return the rows of a source as JSON text, for the store."""
    stored = {"keys": stored_ids(known.keys), "digests": packed_digests(known.digests)}
    return json.dumps(known._asdict() | stored, ensure_ascii=False)


def from_text(text: str) -> RecordedRows:
    """Return the source from its JSON text, of this or an earlier version; raise ValueError if invalid."""
    stored = json.loads(text)
    if isinstance(stored, list) and len(stored) == 2:
        stored = {"keys": stored[0], "digests": stored[1], "id_column": NOT_NOTED}
    found = msgspec.convert(stored, _StoredSource)
    keys, digests = id_list(ids_from_stored(found.keys)), unpacked_digests(found.digests)
    return RecordedRows(keys, digests, own_ids=found.own_ids, id_column=found.id_column, gone=found.gone)
