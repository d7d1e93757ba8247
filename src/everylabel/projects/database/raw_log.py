"""A log as it lies there, read as far as it can be, whatever is wrong with it; it is never touched.

A file is copied first, and read row by row where SQLite cannot read it as a whole.
"""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from everylabel.projects.database import databases, sealing
from everylabel.projects.database.chain import Head, Row
from everylabel.projects.database.log_errors import StoreError
from everylabel.projects.database.tables import events, heads, items

BEYOND = 1000  # rows that are looked for after the last that is known of


class RawLog(NamedTuple):
    """The events of one project in the order of their numbers, its head, and the text of its items."""

    project: str
    rows: list[Row]
    head: Head | None
    items: str | None
    says: str = ""  # what the database said when it was read as a whole


def read_raw(place: str, project: str | None) -> RawLog:
    """Return what can be read of a log; without a name, of the project with most events."""
    if "://" in place:
        return _from_postgres(place, project or "")
    if not Path(place).is_file():
        raise StoreError(f"store {place!r} is not there; expected a log of everylabel label")
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "log"
        shutil.copyfile(place, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{place}-wal", f"{copy}-wal")
        with closing(sqlite3.connect(copy)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
            try:
                return _from_file(connection, project)
            except sqlite3.DatabaseError as error:
                raise StoreError(
                    f"store {place!r} cannot be read at all ({error}): nothing can be rebuilt from it; put a "
                    "backup in its place (`everylabel backup` makes one)"
                ) from error


def _from_file(connection: sqlite3.Connection, project: str | None) -> RawLog:
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if events.name not in there:
        raise sqlite3.DatabaseError("it holds no events")
    columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({events.name})")]
    names = [name for name in ("project", *Row._fields) if name in columns]
    found_heads = _rows(connection, heads.name, ["project", *Head._fields]) if heads.name in there else {}
    found, says = _all_rows(connection, names, max([0, *(_number(row[1]) for row in found_heads.values())]))
    if project is None:
        project = Counter(row[0] for row in found).most_common(1)[0][0] if found else ""
    rows = {row[1]: Row(*row[1:]) for row in found if row[0] == project and isinstance(row[1], int)}
    head = next((Head(*row[1:]) for row in found_heads.values() if row[0] == project), None)
    noted = _rows(connection, items.name, ["project", "items"]) if items.name in there else {}
    text = next((row[1] for row in noted.values() if row[0] == project and isinstance(row[1], str)), None)
    return RawLog(project, [rows[seq] for seq in sorted(rows)], head, text, says)


def _all_rows(
    connection: sqlite3.Connection, names: list[str], known: int
) -> tuple[list[tuple[Any, ...]], str]:
    """Return all events that can be read, and what SQLite says if that is not by one question."""
    query = f"SELECT {', '.join(names)} FROM {events.name} NOT INDEXED"
    found: list[tuple[Any, ...]] = []
    try:
        found.extend(connection.execute(query))
    except sqlite3.DatabaseError as error:
        by_number = _rows(connection, events.name, names, known + BEYOND)
        return list(by_number.values()), str(error)
    return found, ""


def _rows(
    connection: sqlite3.Connection, table: str, names: list[str], upto: int = BEYOND
) -> dict[int, tuple[Any, ...]]:
    """Return the rows of a table that can be read, each looked for by itself."""
    found = {}
    for number in range(1, upto + 1):
        with suppress(sqlite3.DatabaseError):
            query = f"SELECT {', '.join(names)} FROM {table} WHERE rowid = ?"
            row = connection.execute(query, (number,)).fetchone()
            if row is not None:
                found[number] = row
    return found


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < 10**8 else 0


def _from_postgres(place: str, project: str) -> RawLog:
    engine = databases.postgres(place)
    try:
        found = sealing.is_sealed(engine)
        with engine.execution_options(isolation_level="REPEATABLE READ").connect() as connection:
            rows = sealing.read_rows(connection, project, found is True)
            head = sealing.read_head(connection, project) if found is True else None
            return RawLog(project, rows, head, sealing.read_items(connection, project))
    except SQLAlchemyError as error:
        shown = engine.url.render_as_string()
        raise StoreError(f"store {shown!r} cannot be read: {error}") from error
    finally:
        engine.dispose()
