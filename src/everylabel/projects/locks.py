"""One server writes to a project's log at a time: a lock that ends with the process, however that ends."""

import hashlib
import sqlite3
from pathlib import Path

import sqlalchemy as sa

from everylabel.projects.databases import make_file
from everylabel.projects.log_errors import StoreError


class Taken(Exception):
    """Another server has the lock."""


class FileLock:
    """A file beside the log, locked as SQLite locks its own."""

    def __init__(self, path: Path) -> None:
        path = path.resolve()
        file = path.with_name(path.name + ".lock")
        make_file(file)
        try:
            self._held = sqlite3.connect(file, timeout=0)
            self._held.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self.close()
            if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
                raise Taken from error
            raise StoreError(f"store {str(path)!r} cannot be opened: {error}") from error

    def close(self) -> None:
        """Let it go."""
        self._held.close()


class SessionLock:
    """A session of PostgreSQL that holds the lock; what is written by it is not written without the lock."""

    def __init__(self, engine: sa.Engine, project: str) -> None:
        number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big", signed=True)
        self.connection = engine.connect()
        if not self.connection.execute(sa.select(sa.func.pg_try_advisory_lock(number))).scalar():
            self.close()
            raise Taken
        self.connection.commit()  # the lock is the session's, not the transaction's

    def close(self) -> None:
        """Let it go, with the session."""
        self.connection.close()
