"""Copies of a log: an online backup, and the valid prefix of a damaged log.

Both are SQLite files, also for a log in PostgreSQL: `--store FILE` continues with one, or it replaces
labels.sqlite.
"""

import logging
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from everylabel.core.errors import EverylabelError
from everylabel.log import database
from everylabel.log.database import Row, connect, find_other_items, fits, shown_place
from everylabel.log.events import GARBLED, StoreError
from everylabel.log.store import Store

logger = logging.getLogger(__name__)


class Prefix(NamedTuple):
    """The events of a log before the first damaged one, and the stored source unless it is damaged."""

    rows: list[Row]
    items: str | None
    items_lost: bool


def logs_in(where: str) -> list[str]:
    """Return the names of all logs in a store; [] if it cannot be read."""
    with suppress(StoreError, SQLAlchemyError):
        engine = connect(where, write=False)
        try:
            with engine.connect() as connection:
                query = sa.select(database.events.c.project).distinct()
                return list(connection.execute(query).scalars())
        finally:
            engine.dispose()
    return []


def back_up(where: str, project: str, target: Path) -> int:
    """Copy a log to a new file, also while a server writes to it; return the number of events."""
    with closing(Store(where, project, write=False)) as log:
        rows, items = log.content()
    if not rows:
        raise EverylabelError(
            f"store {shown_place(where)} holds no event of {project!r}; expected a labelled project"
        )
    write_log(target, project, rows, items)
    return len(rows)


def write_log(target: Path, project: str, rows: Sequence[Row], items: str | None) -> None:
    """Write events and the stored source to a new file; on an error no file is left."""
    if target.exists():
        raise EverylabelError(f"--out is {str(target)!r}, which exists; expected a new file")
    try:
        with closing(Store(target, project)) as log:
            log.write(rows, items)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        target.with_name(f"{target.name}.lock").unlink(missing_ok=True)


def valid_prefix(where: str, project: str) -> Prefix:
    """Return the part of a damaged log up to the first damaged event."""
    rows: list[Row] = []
    head, items, unread = None, None, True
    engine = connect(where, write=False)
    try:
        has_chain = "chain" in database.event_columns(engine)
        with engine.connect() as connection:
            # one row at a time: an unreadable one must not take the others of its batch with it
            with suppress(*GARBLED, SQLAlchemyError):
                for row in database.each_row(connection, project, has_chain, batch=1):
                    before = rows[-1].chain or "" if rows else ""
                    if (row.chain or before) and not fits(before, row):  # version 0.1 wrote no chain
                        break
                    rows.append(row)
            if sa.inspect(engine).has_table(database.heads.name):
                head = database.read_head(connection, project)
            items, unread = database.read_items(connection, project), False
    except SQLAlchemyError as error:
        logger.warning("not all of store %s can be read: %s", shown_place(where), error)
    finally:
        engine.dispose()
    lost = unread or find_other_items(items, head) is not None
    return Prefix(rows, None if lost else items, lost)
