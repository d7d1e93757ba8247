"""Connections to the databases that hold a log: SQLite in a file, PostgreSQL by its URL; and their locks.

One server writes to a project's log at a time: its lock ends with the process, however that ends.
"""

import hashlib
import math
import os
import shutil
import sqlite3
import time
from collections.abc import Generator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from everylabel.log.integrity import NoLog, StoreError

PRIVATE = 0o600  # mode of a file that only its owner reads and writes
ROOM = 2**20  # bytes that must be free on the disk of a log
TIMEOUT = 10  # seconds; `connect_timeout` of the URL sets another
RELEASE_SECONDS = 5.0  # PostgreSQL holds a lock for a moment after its session was closed
_OURS = sa.text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :process AND backend_start = :began"
)


class ReadTimeout:
    """Seconds without a byte after which a query of PostgreSQL is given up, and a deadline for all of them.

    libpq limits connecting and unacknowledged packets, and the server limits statements, but nothing limits
    waiting for a server or proxy that stays connected and silent.
    """

    def __init__(self) -> None:
        self.seconds, self.deadline = TIMEOUT, math.inf

    def left(self, since: float) -> float:
        """Return the seconds that remain, if nothing was received since then."""
        return min(since + self.seconds, self.deadline) - time.monotonic()


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
    except OSError as error:
        raise StoreError(
            f"store {str(path)!r} cannot be made: {error.strerror}; choose another --store"
        ) from error


def file_ids(path: Path | None) -> list[tuple[int, int] | None]:
    """Return device and inode of a database's file and of its write-ahead log; None for a missing one."""
    if path is None:
        return []
    real = path.resolve()
    there = [file.stat() if file.exists() else None for file in (real, real.with_name(f"{real.name}-wal"))]
    return [None if about is None else (about.st_dev, about.st_ino) for about in there]


def is_full(path: Path | None) -> bool:
    """Return whether the disk of a file has less than `ROOM` bytes left."""
    if path is None:
        return False
    try:
        usage = shutil.disk_usage(path.resolve().parent)
    except OSError:
        return False
    return usage.total > 0 and usage.free < ROOM


def shown_place(where: str) -> str:
    """Return a store's place in quotes, without a password."""
    return repr(sa.make_url(where).render_as_string() if "://" in where else where)


def connect(where: str, write: bool, timeout: ReadTimeout | None = None) -> sa.Engine:
    """Return the engine for a log's place; for writing, a missing file is created."""
    if "://" in where:
        return postgres_engine(where, timeout or ReadTimeout())
    if write:
        make_file(Path(where))
    elif not Path(where).exists():
        raise NoLog(repr(where), "is not there")
    return sqlite_engine(Path(where), write)


def sqlite_engine(path: Path, write: bool) -> sa.Engine:
    """Return the engine of an existing file."""
    mode = "rw" if write else "ro"
    uri = f"file:{quote(path.resolve().as_posix())}?mode={mode}"  # a path may hold ?, # and %

    def open_file() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=5)

    engine = sa.create_engine("sqlite://", creator=open_file, poolclass=sa.QueuePool)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        if write:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # an acknowledged label survives a power cut

    return engine


def postgres_engine(url: str, timeout: ReadTimeout) -> sa.Engine:
    """Return the engine of a PostgreSQL database; the URL's `connect_timeout` sets all time-outs."""
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() != "postgresql":
            raise StoreError(
                f"store is {parsed.render_as_string()!r}; expected a file's path or postgresql://..."
            )
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        given = parsed.query.get("connect_timeout")
        if isinstance(given, str) and given.isdigit():
            timeout.seconds = max(1, int(given))
        engine = sa.create_engine(parsed, pool_pre_ping=True, pool_timeout=timeout.seconds)
        _set_timeouts(engine, timeout)
        return engine
    except ModuleNotFoundError as error:
        raise StoreError(
            f"store is a PostgreSQL database and {error.name} is not installed; "
            "pip install 'everylabel[postgresql]'"
        ) from error
    except sa.exc.ArgumentError as error:
        raise StoreError(f"store is {url.split('@')[-1]!r}; expected a path or postgresql://...") from error


def _set_timeouts(engine: sa.Engine, timeout: ReadTimeout) -> None:
    psycopg: Any = engine.dialect.import_dbapi()
    seconds = timeout.seconds
    limits = {
        "connect_timeout": seconds,
        "tcp_user_timeout": 1000 * seconds,
        **{"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
        "options": f"-c statement_timeout={60_000 * seconds} "
        f"-c idle_in_transaction_session_timeout={2000 * seconds}",
    }

    class Connection(psycopg.Connection):
        """A connection with a read time-out."""

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *args, **options)

        def _limited(self, gen: Any) -> Generator[Any, Any, Any]:
            heard, ready = time.monotonic(), None
            while True:
                try:
                    state = gen.send(ready)
                except StopIteration as done:
                    return done.value
                ready = yield state
                if ready:
                    heard = time.monotonic()
                elif timeout.left(heard) < 0:
                    self.pgconn.finish()
                    waited = time.monotonic() - heard
                    raise psycopg.OperationalError(f"the database has not answered for {waited:.0f} seconds")

    @sa.event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, arguments: Any, options: Any) -> Any:
        left = timeout.left(time.monotonic())
        if left <= 0:
            raise psycopg.OperationalError("the server is stopping, and the database did not answer in time")
        given = {**limits, **options, "connect_timeout": math.ceil(left)}
        return Connection.connect(*arguments, **given)


def reason(error: DBAPIError) -> str:
    """Return the message of a database error, in one line."""
    return str(error.orig).strip().splitlines()[0] if error.orig else str(error)


class Taken(Exception):
    """Another server has the lock."""


class FileLock:
    """A lock file beside the log, locked by SQLite's own means."""

    def __init__(self, path: Path) -> None:
        path = path.resolve()
        file = path.with_name(path.name + ".lock")
        make_file(file)
        try:
            self._held = sqlite3.connect(file, timeout=0, check_same_thread=False)  # any thread releases it
            self._held.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self.close()
            if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
                raise Taken from error
            raise StoreError(f"store {str(path)!r} cannot be opened: {error}") from error

    def close(self) -> None:
        """Release the lock."""
        self._held.close()


class Session(NamedTuple):
    """A session of PostgreSQL."""

    process: int
    began: datetime


class SessionLock:
    """An advisory lock of PostgreSQL; all writes go through the session that holds it.

    lost : our earlier session, which may live on behind a broken network; it is ended, so that nothing sent
        to it is committed later
    """

    def __init__(self, engine: sa.Engine, project: str, lost: Session | None = None) -> None:
        number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big", signed=True)
        self.connection = engine.connect()
        try:
            if lost is not None:
                self.connection.execute(_END, lost._asdict())
            end = time.monotonic() + RELEASE_SECONDS
            while not self.connection.execute(sa.select(sa.func.pg_try_advisory_lock(number))).scalar():
                if time.monotonic() >= end:
                    raise Taken
                time.sleep(0.02)
            self.session = Session(*self.connection.execute(_OURS).one())
            self.connection.commit()  # the lock is the session's, not the transaction's
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock, and the session."""
        self.connection.close()
