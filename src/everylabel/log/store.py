"""The event log of a project in a database: SQLite in a file, or PostgreSQL by its URL.

An event that `append` has returned from survives a power cut: SQLite waits for the disk at every commit, and
PostgreSQL does so by default. One server writes to a project's log at a time (`database.py`); readers, such
as `everylabel export`, may read beside it. The hash chain is checked when a log is opened for writing and
whenever events are read.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import packed_digests, unpacked_digests
from everylabel.data.items import IdList, Numbered, ids_from_stored, stored_ids
from everylabel.data.source_diff import NOT_NOTED, Known
from everylabel.log import database
from everylabel.log.database import (
    FileLock,
    Head,
    Row,
    SessionLock,
    Taken,
    chained,
    connect,
    digest,
    events,
    find_damage,
    find_other_items,
    make_file,
    reason,
    shown_place,
)
from everylabel.log.events import GARBLED, Damaged, Event, NoLog, StoreError, from_row, to_row

__all__ = ["Damaged", "NoLog", "Store", "StoreError"]
EXPORT = "Export the labels before the server is stopped: it still has all of them"
TRIAL = "everylabel tries whether it can write"  # the project of trial events
MOST_NAMED = 10**7  # rows whose ids are in memory without a digest for each
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**11)]  # of rows: no source has more
_UNREADABLE = ("malformed", "Could not decode")  # SQLite's words for a damaged file


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
        self._mutex = threading.RLock()  # writers of this process
        self._lock: FileLock | SessionLock | None = None
        self._session: dict[str, Any] | None = None  # PostgreSQL's session that held the lock last
        self._writes, self._head = write, Head()
        self._unsure = False  # `_head` may differ from the log's head; the next read sets it
        self._failed = False  # the last write failed; a trial precedes the next one
        self._files: list[tuple[int, int] | None] = []  # identity of SQLite's files at the last write
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

    def read(self, after: int = 0) -> list[Event]:
        """Return all events after number `after`, in order; raise Damaged if the hash chain is broken."""
        with self._explained("read"):
            return [_event(row) for row in self._rows(after)]

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

    def mark(self, seq: int) -> str:
        """Return the chain of an event, a digest of all events up to it; "" if there is no such event."""
        with self._explained("read"), self._engine.connect() as connection:
            return database.read_chain(connection, self.project, seq) or ""

    def items(self) -> Known | None:
        """Return the rows of the source at the last opening, if there was one."""
        with self._snapshot() as connection:
            head = self._read_head(connection)
            text = database.read_items(connection, self.project)
            self._refuse(find_other_items(text, head))
            return None if text is None else from_text(text)

    def content(self) -> tuple[list[Row], str | None, Head | None]:
        """Return all stored events, the stored source and the head, read in one transaction and checked."""
        with self._snapshot() as connection:
            head = self._check(connection)
            rows = database.read_rows(connection, self.project, self._has_chain)
            return rows, database.read_items(connection, self.project), head

    def _check(self, connection: sa.Connection) -> Head | None:
        """Check all events, the stored source and SQLite's pages; return the head. Events are not parsed."""
        head = self._read_head(connection)
        with database.each_row(connection, self.project, self._has_chain) as rows:
            self._refuse(find_damage(rows, head))
        self._refuse(find_other_items(database.read_items(connection, self.project), head))
        if self._path is not None:
            found = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            self._refuse(None if found == "ok" else f"the file's pages do not fit together ({found})")
        return head

    def _rows(self, after: int) -> list[Row]:
        with self._snapshot() as connection:
            head = self._read_head(connection)
            rows = database.read_rows(connection, self.project, self._has_chain, events.c.seq >= after)
        start = Head()
        if after:
            if (
                not rows or rows[0].seq != after
            ):  # that event is missing: the whole chain shows where it broke
                return [row for row in self._rows(0) if row.seq > after]
            start, rows = Head(after, rows[0].chain or ""), rows[1:]
        self._refuse(find_damage(rows, head, start))
        with self._mutex:
            if self._unsure and head is not None:
                self._head, self._unsure = head, False
        return rows

    def _events_where(self, where: sa.ColumnElement[bool]) -> list[Event]:
        with self._explained("read"), self._engine.connect() as connection:
            return [_event(row) for row in database.read_rows(connection, self.project, False, where)]

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
        with self._mutex:
            rows = chained(self._head.chain, map(_row, fresh))
            if rows:
                to = self._head._replace(seq=rows[-1].seq, chain=rows[-1].chain or "")
                self._commit(to, lambda connection: database.insert_rows(connection, self.project, rows))

    def set_items(self, known: Known) -> None:
        """Store the source as it is now."""
        text = to_text(known)
        with self._mutex:
            to = self._head._replace(items=digest(text))
            self._commit(to, lambda connection: database.replace_items(connection, self.project, text))

    def fill(self, rows: Sequence[Row], text: str | None) -> None:
        """Write the events and the stored source of another log to this one, which is empty."""
        linked = chained("", rows)
        head = Head(items="" if text is None else digest(text))
        if linked:
            head = head._replace(seq=linked[-1].seq, chain=linked[-1].chain or "")

        def write(connection: sa.Connection) -> None:
            database.insert_rows(connection, self.project, linked)
            if text is not None:
                database.replace_items(connection, self.project, text)

        with self._mutex:
            self._commit(head, write)

    def refusal(self) -> StoreError | None:
        """Return the reason why nothing can be written now, or None; cheaper than writing."""
        self._check_writable()
        with self._mutex:
            try:
                self._check_files("nothing can be saved")
                if self._failed:
                    self._write_trial()
            except StoreError as error:
                return error
            return None

    def _commit(self, to: Head, write: Callable[[sa.Connection], None]) -> None:
        """Write and move the head in one transaction."""
        self._check_writable()
        try:
            with self._transaction() as connection:
                # moves only from the head that this writer wrote last: a second writer is noticed
                if not database.move_head(connection, self.project, self._head, to):
                    raise self._other_writer()
                write(connection)
        except IntegrityError as error:
            raise self._other_writer() from error
        except DBAPIError as error:
            self._failed = True
            if not self._was_saved(to, error):
                raise StoreError(f"nothing was saved, {self.shown} says: {reason(error)}") from error
        self._head, self._failed = to, False
        self._check_files("it is not known whether this was saved")
        self._files = self._file_ids()

    def _write_trial(self) -> None:
        """Write and delete an event of no project, which touches the same pages as an append."""
        try:
            with self._transaction() as connection:
                database.insert_rows(connection, TRIAL, [Row(0, 0, 0.0, "", "", "", None)])
                connection.execute(sa.delete(events).where(events.c.project == TRIAL))
        except DBAPIError as error:
            if error.connection_invalidated:
                self._end_session()
            raise StoreError(f"nothing can be saved, {self.shown} says: {reason(error)}") from error
        self._failed = False

    def _was_saved(self, to: Head, error: DBAPIError) -> bool:
        """Read PostgreSQL's head to find out whether a commit was saved before the connection broke."""
        if not error.connection_invalidated or self._path is not None:
            return False
        self._end_session()
        try:
            with self._transaction() as connection:
                head = database.read_head(connection, self.project)
        except (DBAPIError, StoreError) as again:
            self._unsure = True
            why = reason(again) if isinstance(again, DBAPIError) else str(again)
            raise StoreError(
                f"it is not known whether this was saved: the connection to {self.shown} broke ({why}); send "
                "it again with the same key, which counts once"
            ) from error
        if head not in (to, self._head):
            raise self._other_writer() from error
        return head == to

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Yield a connection that commits at the end; PostgreSQL's is the one that holds the lock."""
        if self._path is not None:
            with self._engine.begin() as connection:
                yield connection
            return
        if self._lock is None:
            self._take_lock()
        assert isinstance(self._lock, SessionLock)
        with self._lock.connection.begin():
            yield self._lock.connection

    def _take_lock(self) -> None:
        try:
            if self._path is not None:
                self._lock = FileLock(self._path)
            else:
                self._lock = SessionLock(self._engine, self.project, self._session)
                self._session = self._lock.session
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

    def _end_session(self) -> None:
        """Close a lost session; its lock is gone, too, and is taken again before the next write."""
        if isinstance(self._lock, SessionLock):
            self._release()

    def _check_writable(self) -> None:
        if not self._writes:
            raise StoreError(f"store {self.shown} is open for reading; expected write=True")

    def _check_files(self, then: str) -> None:
        """Raise if the file is no longer there: SQLite would continue without an error."""
        for noted, now in zip(self._files, self._file_ids(), strict=True):
            if noted not in (None, now):
                what = "was deleted or moved" if now is None else "was replaced"
                raise StoreError(f"{then}: {self.shown} {what} while the server has it open. {EXPORT}")

    def _file_ids(self) -> list[tuple[int, int] | None]:
        """Return device and inode of SQLite's file and of its write-ahead log; None for a missing one."""
        if self._path is None:
            return []
        real = self._path.resolve()
        there = [
            each.stat() if each.exists() else None for each in (real, real.with_name(f"{real.name}-wal"))
        ]
        return [None if about is None else (about.st_dev, about.st_ino) for about in there]

    def _other_writer(self) -> StoreError:
        self._unsure = True
        return StoreError(
            f"store {self.shown} was written to by another server; nothing of this was saved, "
            "stop one of the two"
        )

    # Opening

    def _open(self) -> None:
        """Check tables and format; for writing, also take the lock and check all events."""
        if self._writes:
            self._take_lock()
        found = database.is_chained(self._engine)
        if isinstance(found, str):
            raise Damaged(self.shown, found)
        self._has_chain = found or self._writes
        if self._writes:
            database.make_tables(self._engine)
        elif not found and events.name not in database.existing(self._engine)[0]:
            raise NoLog(self.shown, "holds none of our tables")
        self._check_format()
        if self._writes:
            with self._snapshot() as connection:
                head = self._check(connection)
            self._head = head or self._add_chain()
            self._files = self._file_ids()

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
        if stored not in (None, database.FORMAT, *database.FORMATS_BEFORE):
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

    keys: _Count | list[str]  # n stands for the ids "0" to "n - 1"
    digests: str | list[str]
    own_ids: list[str] | None = None
    id_column: str | None = None
    gone: _Count = 0
    numbered: _Count | None = None  # the number of rows whose ids are their numbers


def to_text(known: Known) -> str:
    """Return the rows of a source as JSON text, for the store."""
    stored = known._asdict() | {"digests": packed_digests(known.digests)}
    if isinstance(known.keys, Numbered):
        stored |= {"keys": [], "numbered": len(known.keys)}
    else:
        stored["keys"] = stored_ids(known.keys)
    return json.dumps(stored, ensure_ascii=False)


def from_text(text: str) -> Known:
    """Return the source from its JSON text, of this or an earlier version; raise ValueError if invalid."""
    stored = json.loads(text)
    if isinstance(stored, list) and len(stored) == 2:
        stored = {"keys": stored[0], "digests": stored[1], "id_column": NOT_NOTED}
    found = msgspec.convert(stored, _StoredSource)
    if isinstance(found.keys, int) and found.keys > max(MOST_NAMED, len(found.digests)):
        raise ValueError("it has more rows than digests")
    numbered = found.numbered
    keys = IdList(ids_from_stored(found.keys)) if numbered is None else Numbered(numbered)
    digests = unpacked_digests(found.digests)
    return Known(keys, digests, own_ids=found.own_ids, id_column=found.id_column, gone=found.gone)
