"""The databases that a log can lie in: SQLite in a file, PostgreSQL by its URL."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from everylabel.projects.database.log_errors import StoreError
from everylabel.projects.database.patience import Patience, impatient

OWN = 0o600  # a file that nobody else on this machine reads


def make_file(path: Path) -> None:
    """Make an empty file that is its owner's only, if there is none."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWN))
    except OSError as error:
        raise StoreError(
            f"store {str(path)!r} cannot be made: {error.strerror}; choose another --store"
        ) from error


def sqlite(path: Path, write: bool) -> sa.Engine:
    """Return a file's database, which is there already."""
    mode = "rw" if write else "ro"
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


def postgres(url: str, patience: Patience | None = None) -> sa.Engine:
    """Return a database by its URL; patience : what tells how long it is waited for."""
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() != "postgresql":
            raise StoreError(
                f"store is {parsed.render_as_string()!r}; expected a file's path or postgresql://..."
            )
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        return impatient(parsed, patience or Patience())
    except ModuleNotFoundError as error:
        raise StoreError(
            f"store is a PostgreSQL database and {error.name} is not installed; "
            "pip install 'everylabel[postgresql]'"
        ) from error
    except sa.exc.ArgumentError as error:
        raise StoreError(f"store is {url.split('@')[-1]!r}; expected a path or postgresql://...") from error


def reason(error: DBAPIError) -> str:
    """Return what a database says, in one line."""
    return str(error.orig).strip().splitlines()[0] if error.orig else str(error)
