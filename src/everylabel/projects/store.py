"""The event log in a database: SQLite in a file, or PostgreSQL by its URL.

An event that `append` has returned from survives a power cut: SQLite writes ahead and waits for the
disk at every commit, PostgreSQL does so by default. One server writes to a project's log at a time;
readers (such as `everylabel export`) may read beside it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from everylabel.core.errors import EverylabelError
from everylabel.data.known import NOT_NOTED, Known
from everylabel.labelling.events import Event, from_row, to_row

FORMAT, BEFORE = 2, 1  # before, only keys and digests were noted of the items
_tables = sa.MetaData()
_events = sa.Table(
    "everylabel_events",
    _tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("block", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("key", sa.Text),
    sa.UniqueConstraint("project", "key"),
)
_items = sa.Table(
    "everylabel_items",
    _tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("items", sa.Text, nullable=False),  # the source as it was last time
)


class StoreError(EverylabelError):
    """The log could not be read or written; what was acknowledged before is safe."""


class Store:
    """The log of one project. Parameters: a file's path or a database's URL, and the project's name."""

    def __init__(self, where: str | Path, project: str, *, write: bool = True) -> None:
        self.where, self.project = str(where), project
        self._path = None if "://" in self.where else Path(where)
        self._lock: Any = None
        self._engine = self._connect(write)
        try:
            if write:
                self._take_lock()
                _tables.create_all(self._engine)
            self._check_format()
        except DBAPIError as error:
            self.close()
            raise StoreError(f"store {self._shown} cannot be opened: {_reason(error)}") from error
        except EverylabelError:
            self.close()
            raise

    @property
    def _shown(self) -> str:
        """The store's place without a password."""
        return repr(str(self._path)) if self._path else repr(self._engine.url.render_as_string())

    def read(self, after: int = 0) -> list[Event]:
        """Return all events after number `after`, in order."""
        columns = [_events.c[name] for name in ("seq", "block", "at", "person", "kind", "body", "key")]
        query = sa.select(*columns).where(_events.c.project == self.project, _events.c.seq > after)
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(query.order_by(_events.c.seq)).all()
        except DBAPIError as error:
            raise StoreError(f"store {self._shown} cannot be read: {_reason(error)}") from error
        return [
            Event(row.seq, row.block, row.at, row.person, from_row(row.kind, json.loads(row.body)), row.key)
            for row in rows
        ]

    def append(self, events: Iterable[Event]) -> None:
        """Write events, all or none; they are on disk when this returns.

        PostgreSQL is written to by the session that holds the lock, so that nothing is written without it.
        """
        rows = [self._row(event) for event in events]
        if not rows:
            return
        try:
            if self._path is None and self._lock is None:
                self._take_lock()
            writing = self._engine.begin() if self._path is not None else self._locked()
            with writing as connection:
                connection.execute(sa.insert(_events), rows)
        except IntegrityError as error:
            raise StoreError(
                f"store {self._shown} was written to by another server; nothing of this was saved, "
                "stop one of the two"
            ) from error
        except DBAPIError as error:
            if error.connection_invalidated and self._path is None:
                self._let_go()  # the lock is gone with its session: take it again before writing again
            raise StoreError(f"nothing was saved, {self._shown} says: {_reason(error)}") from error

    def _row(self, event: Event) -> dict[str, Any]:
        kind, body = to_row(event.body)
        return {
            "project": self.project,
            "seq": event.seq,
            "block": event.block,
            "at": event.at,
            "person": event.person,
            "kind": kind,
            "body": json.dumps(body, ensure_ascii=False),
            "key": event.key,
        }

    @contextmanager
    def _locked(self) -> Iterator[sa.Connection]:
        with self._lock.begin():
            yield self._lock

    def items(self) -> Known | None:
        """Return the rows of the source as it was last time, if there was one."""
        query = sa.select(_items.c["items"]).where(_items.c.project == self.project)
        try:
            with self._engine.connect() as connection:
                stored = connection.execute(query).scalar()
        except DBAPIError as error:
            raise StoreError(f"store {self._shown} cannot be read: {_reason(error)}") from error
        if stored is None:
            return None
        items = json.loads(stored)
        if isinstance(items, list):
            return Known(items[0], items[1], id_column=NOT_NOTED)
        return Known(**items)

    def set_items(self, known: Known) -> None:
        """Note the source as it is now."""
        text = json.dumps(known._asdict(), ensure_ascii=False)
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.delete(_items).where(_items.c.project == self.project))
                row = {"project": self.project, "format": FORMAT, "items": text}
                connection.execute(sa.insert(_items), row)
        except DBAPIError as error:
            raise StoreError(f"nothing was saved, {self._shown} says: {_reason(error)}") from error

    def close(self) -> None:
        """Let go of the database."""
        self._let_go()
        self._engine.dispose()

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _connect(self, write: bool) -> sa.Engine:
        if self._path is None:
            return _postgres(self.where)
        if write:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(
                    f"store {str(self._path)!r} cannot be made: {error.strerror}; choose another --store"
                ) from error
        elif not self._path.exists():
            raise StoreError(f"store {str(self._path)!r} is not there; expected a log of everylabel label")
        return _sqlite(self._path, write)

    def _take_lock(self) -> None:
        """Hold a lock as long as this process lives: it ends with the process, however that ends."""
        if self._path is not None:
            path = self._path.resolve()
            try:
                self._lock = sqlite3.connect(path.with_name(path.name + ".lock"), timeout=0)
                self._lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                self._let_go()
                if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
                    raise self._taken() from error
                raise StoreError(f"store {self._shown} cannot be opened: {error}") from error
            return
        number = int.from_bytes(hashlib.sha256(self.project.encode()).digest()[:8], "big", signed=True)
        self._lock = self._engine.connect()
        if not self._lock.execute(sa.select(sa.func.pg_try_advisory_lock(number))).scalar():
            self._let_go()
            raise self._taken()
        self._lock.commit()  # the lock is the session's, not the transaction's

    def _taken(self) -> StoreError:
        return StoreError(
            f"store {self._shown} is in use by another server for project {self.project!r}; use that "
            "one, stop it, or choose another --store"
        )

    def _check_format(self) -> None:
        query = sa.select(_items.c.format).where(_items.c.project == self.project)
        with self._engine.connect() as connection:
            stored = connection.execute(query).scalar()
        if stored not in (None, BEFORE, FORMAT):
            raise StoreError(
                f"store {self._shown} has format {stored}; expected {FORMAT}: open it with the version of "
                "everylabel that wrote it"
            )


def _sqlite(path: Path, write: bool) -> sa.Engine:
    mode = "rwc" if write else "ro"
    uri = f"file:{quote(path.resolve().as_posix())}?mode={mode}"  # a path may hold ?, # and %

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False)

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        if write:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # an acknowledged label survives a power cut
        connection.execute("PRAGMA busy_timeout=5000")

    return engine


def _postgres(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() != "postgresql":
            raise StoreError(
                f"store is {parsed.render_as_string()!r}; expected a file's path or postgresql://..."
            )
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        return sa.create_engine(parsed, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"store is a PostgreSQL database and {error.name} is not installed; "
            "pip install 'everylabel[postgresql]'"
        ) from error
    except sa.exc.ArgumentError as error:
        raise StoreError(f"store is {url.split('@')[-1]!r}; expected a path or postgresql://...") from error


def _reason(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig else str(error)
