"""One server writes to a project's log at a time: a lock that ends with the process, however that ends."""

import hashlib
import sqlite3
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from everylabel.log.engines import make_file
from everylabel.log.integrity import StoreError

RELEASE_SECONDS = 5.0  # PostgreSQL keeps a lock for a moment after its session was closed


class Taken(Exception):
    """Another server has the lock."""


class FileLock:
    """A file beside the log, locked as SQLite locks its own."""

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

    lost : our session before, which may live on behind a broken network: it is ended, so that nothing it was
        sent is committed later
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


_OURS = sa.text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :process AND backend_start = :began"
)
