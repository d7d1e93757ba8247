"""The tables of a log and the statements on them.

`everylabel_events` holds the events, each with its chain (`integrity.py`); `everylabel_items` the rows of the
source at the last opening, as text; `everylabel_heads` the head, written in the same transaction as the rest.
Version 0.1 wrote neither chains nor heads.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import msgspec
import sqlalchemy as sa

from everylabel.data.digests import packed_digests, unpacked_digests
from everylabel.data.items import IdList, Numbered, ids_from_stored, stored_ids
from everylabel.data.source_diff import NOT_NOTED, Known
from everylabel.log.integrity import Head, Row, chained, digest

FORMAT = 4
FORMATS_BEFORE = (1, 2, 3)  # 1 and 2 have no chain
BATCH = 1000  # rows fetched together
WITHOUT_CHAIN = Row._fields[:-1]
tables = sa.MetaData()
events = sa.Table(
    "everylabel_events",
    tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("block", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("key", sa.Text),
    sa.Column("chain", sa.Text),  # of all other columns but the project, and of the event before
    sa.UniqueConstraint("project", "key"),
)
items = sa.Table(
    "everylabel_items",
    tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("items", sa.Text, nullable=False),  # the source at the last opening
)
heads = sa.Table(
    "everylabel_heads",
    tables,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),  # of the last event
    sa.Column("chain", sa.Text, nullable=False),
    sa.Column("items", sa.Text, nullable=False),  # digest of the items' text; "" if there are none
)
MOST_NAMED = 10**7  # rows whose ids are in memory without a digest for each
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**11)]  # of rows: no source has more


def existing(engine: sa.Engine) -> tuple[set[str], set[str]]:
    """Return the names of our tables in a database, and the columns of the events."""
    inspector = sa.inspect(engine)
    there = set(tables.tables) & set(inspector.get_table_names())
    columns = inspector.get_columns(events.name) if events.name in there else ()
    return there, {column["name"] for column in columns}


def is_chained(engine: sa.Engine) -> bool | str:
    """Return whether a database has chains and heads; a sentence if one of its tables is lost."""
    there, columns = existing(engine)
    if not there:
        return False
    if there == set(tables.tables) and {*Row._fields} <= columns:
        return True
    if there == {events.name, items.name} and ("chain" not in columns or not _has_chain(engine)):
        return False
    return "a table is missing, or was renamed"


def _has_chain(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        query = sa.select(events.c.seq).where(events.c.chain.is_not(None)).limit(1)
        return connection.execute(query).one_or_none() is not None


def make_tables(engine: sa.Engine) -> None:
    """Create the missing tables, and the column that version 0.1 did not have."""
    there, columns = existing(engine)
    if events.name in there and "chain" not in columns:
        with engine.begin() as connection:
            connection.execute(sa.text(f"ALTER TABLE {events.name} ADD COLUMN chain TEXT"))
    tables.create_all(engine)


def read_head(connection: sa.Connection, project: str) -> Head | None:
    """Return the head of a project's log."""
    query = sa.select(heads.c.seq, heads.c.chain, heads.c["items"]).where(heads.c.project == project)
    row = connection.execute(query).one_or_none()
    return None if row is None else Head(*row)


@contextmanager
def each_row(
    connection: sa.Connection,
    project: str,
    has_chain: bool,
    where: sa.ColumnElement[bool] | None = None,
    batch: int = BATCH,
) -> Iterator[Iterator[Row]]:
    """Yield a project's events (or some of them) in order, with one batch in memory."""
    columns = [events.c[name] for name in (Row._fields if has_chain else WITHOUT_CHAIN)]
    query = sa.select(*columns).where(events.c.project == project)
    query = query if where is None else query.where(where)
    query = query.order_by(events.c.seq).execution_options(yield_per=batch)
    with connection.execute(query) as found:
        yield (Row(*row) for some in found.partitions() for row in some)


def read_rows(
    connection: sa.Connection, project: str, has_chain: bool, where: sa.ColumnElement[bool] | None = None
) -> list[Row]:
    """Return a project's events (or some of them) as they are stored, in order."""
    with each_row(connection, project, has_chain, where) as rows:
        return list(rows)


def read_chain(connection: sa.Connection, project: str, seq: int) -> str | None:
    """Return the chain of one event."""
    query = sa.select(events.c.chain).where(events.c.project == project, events.c.seq == seq)
    return connection.execute(query).scalar()


def read_items(connection: sa.Connection, project: str) -> str | None:
    """Return the stored source."""
    query = sa.select(items.c["items"]).where(items.c.project == project)
    return connection.execute(query).scalar()


def insert_rows(connection: sa.Connection, project: str, rows: Sequence[Row]) -> None:
    """Write events."""
    if rows:
        connection.execute(sa.insert(events), [{"project": project, **row._asdict()} for row in rows])


def replace_items(connection: sa.Connection, project: str, text: str) -> None:
    """Store the source as it is now."""
    connection.execute(sa.delete(items).where(items.c.project == project))
    connection.execute(sa.insert(items), {"project": project, "format": FORMAT, "items": text})


def move_head(connection: sa.Connection, project: str, head: Head, to: Head) -> bool:
    """Replace a head; return False if it was not there, or its event is another."""
    last = read_chain(connection, project, head.seq)
    if head.seq and last != head.chain:
        return False
    ours = (heads.c.project == project, heads.c.seq == head.seq, heads.c.chain == head.chain)
    return connection.execute(sa.update(heads).where(*ours).values(**to._asdict())).rowcount == 1


def add_chain(connection: sa.Connection, project: str) -> Head:
    """Add the chain and head to a log of version 0.1; return the head."""
    rows = chained("", read_rows(connection, project, has_chain=False))
    text = read_items(connection, project)
    head = Head(items="" if text is None else digest(text))
    if rows:
        head = head._replace(seq=rows[-1].seq, chain=rows[-1].chain or "")
        ours = sa.and_(events.c.project == project, events.c.seq == sa.bindparam("number"))
        update = sa.update(events).where(ours).values(chain=sa.bindparam("linked"))
        connection.execute(update, [{"number": row.seq, "linked": row.chain} for row in rows])
    connection.execute(sa.update(items).where(items.c.project == project).values(format=FORMAT))
    connection.execute(sa.insert(heads), {"project": project, **head._asdict()})
    return head


class _Noted(msgspec.Struct, forbid_unknown_fields=True):
    """A source as its text stores it."""

    keys: _Count | list[str]  # n stands for the ids "0" to "n - 1"
    digests: str | list[str]
    own_ids: list[str] | None = None
    id_column: str | None = None
    gone: _Count = 0
    numbered: _Count | None = None  # the number of rows whose ids are their numbers


def to_text(known: Known) -> str:
    """Return the text that stores a source."""
    noted = known._asdict() | {"digests": packed_digests(known.digests)}
    if isinstance(known.keys, Numbered):
        noted |= {"keys": [], "numbered": len(known.keys)}
    else:
        noted["keys"] = stored_ids(known.keys)
    return json.dumps(noted, ensure_ascii=False)


def from_text(text: str) -> Known:
    """Return the source that a text stores, also a text of an earlier version; raise ValueError if none."""
    noted = json.loads(text)
    if isinstance(noted, list) and len(noted) == 2:
        noted = {"keys": noted[0], "digests": noted[1], "id_column": NOT_NOTED}
    found = msgspec.convert(noted, _Noted)
    if isinstance(found.keys, int) and found.keys > max(MOST_NAMED, len(found.digests)):
        raise ValueError("it notes more rows than digests")
    numbered = found.numbered
    keys = IdList(ids_from_stored(found.keys)) if numbered is None else Numbered(numbered)
    digests = unpacked_digests(found.digests)
    return Known(keys, digests, own_ids=found.own_ids, id_column=found.id_column, gone=found.gone)
