"""The seal of a log: checked when it is read, put on what versions before wrote.

See `tables.py`. A log without a head and without any chain is one of a version before.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from everylabel.projects.database.chain import BEGIN, Head, Row, chained, digest, find_damage
from everylabel.projects.database.tables import FORMAT, events, heads, items, tables

AT_ONCE = 1000  # rows that are fetched together
WRITTEN = Row._fields[:-1]  # of an event, by all versions


def is_sealed(engine: sa.Engine) -> bool | str:
    """Return whether a database has seals; a sentence if some of its tables are lost."""
    inspector = sa.inspect(engine)
    there = set(tables.tables) & set(inspector.get_table_names())
    if not there:
        return False
    columns = (
        {column["name"] for column in inspector.get_columns(events.name)} if events.name in there else set()
    )
    if there == set(tables.tables) and {*WRITTEN, "chain"} <= columns:
        return True
    if there == {events.name, items.name} and ("chain" not in columns or not _any_chain(engine)):
        return False
    return "a table is lost, or goes by another name"


def is_there(engine: sa.Engine) -> bool:
    """Return whether a database has a table of events at all."""
    return sa.inspect(engine).has_table(events.name)


def _any_chain(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        query = sa.select(events.c.seq).where(events.c.chain.is_not(None)).limit(1)
        return connection.execute(query).one_or_none() is not None


def make_tables(engine: sa.Engine) -> None:
    """Make the column that versions before did not have, then the tables that are missing."""
    inspector = sa.inspect(engine)
    there = inspector.has_table(events.name)
    if there and "chain" not in {column["name"] for column in inspector.get_columns(events.name)}:
        with engine.begin() as connection:
            connection.execute(sa.text(f"ALTER TABLE {events.name} ADD COLUMN chain TEXT"))
    tables.create_all(engine)


def read_head(connection: sa.Connection, project: str) -> Head | None:
    """Return the head of a project's log."""
    query = sa.select(heads.c.seq, heads.c.chain, heads.c["items"]).where(heads.c.project == project)
    row = connection.execute(query).one_or_none()
    return None if row is None else Head(*row)


def read_rows(
    connection: sa.Connection, project: str, sealed: bool, where: sa.ColumnElement[bool] | None = None
) -> list[Row]:
    """Return a project's events (or some of them) as they are stored, in order."""
    with each_row(connection, project, sealed, where) as rows:
        return list(rows)


@contextmanager
def each_row(
    connection: sa.Connection, project: str, sealed: bool, where: sa.ColumnElement[bool] | None = None
) -> Iterator[Iterator[Row]]:
    """Yield them one by one: no more than some are in memory."""
    columns = [events.c[name] for name in (Row._fields if sealed else WRITTEN)]
    query = sa.select(*columns).where(events.c.project == project)
    query = query if where is None else query.where(where)
    query = query.order_by(events.c.seq).execution_options(yield_per=AT_ONCE)
    with connection.execute(query) as found:
        yield (Row(*row) for some in found.partitions() for row in some)


def read_linked(
    connection: sa.Connection, project: str, where: sa.ColumnElement[bool]
) -> list[tuple[Row, str]]:
    """Return some of a project's events, in order, and the chain of the one before each."""
    earlier = events.alias()
    before = (
        sa.select(earlier.c.chain)
        .where(earlier.c.project == project, earlier.c.seq < events.c.seq)
        .order_by(earlier.c.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    columns = [events.c[name] for name in Row._fields]
    query = sa.select(*columns, before).where(events.c.project == project, where).order_by(events.c.seq)
    return [(Row(*row), chain or "") for *row, chain in connection.execute(query)]


def read_chain(connection: sa.Connection, project: str, seq: int) -> str | None:
    """Return the chain of one event."""
    query = sa.select(events.c.chain).where(events.c.project == project, events.c.seq == seq)
    return connection.execute(query).scalar()


def read_items(connection: sa.Connection, project: str) -> str | None:
    """Return the source as it was last time."""
    query = sa.select(items.c["items"]).where(items.c.project == project)
    return connection.execute(query).scalar()


def find_loss(rows: Iterable[Row], head: Head | None, after: Head = BEGIN) -> str | None:
    """Return what is wrong with all events after one; None if they are whole, or were never sealed."""
    if head is not None:
        return find_damage(rows, head, after)
    chains = [row.chain is not None for row in rows]
    if any(chains):
        return f"its seal is lost; {len(chains):,} events are there, and whether they are all is not known"
    return None


def is_whole_after(connection: sa.Connection, project: str, mark: Head) -> bool:
    """Return whether a log has an event, is whole from there to its end, and notes the source as written."""
    head = read_head(connection, project)
    if head is None or read_chain(connection, project, mark.seq) != mark.chain:
        return False
    with each_row(connection, project, True, events.c.seq > mark.seq) as rows:
        loss = find_loss(rows, head, mark)
    return loss is None and find_other_items(read_items(connection, project), head) is None


def find_other_items(text: str | None, head: Head | None) -> str | None:
    """Return what is wrong with the noted source; None if it is what was written, or was never sealed."""
    noted = "" if text is None else digest(text)
    if head is None or noted == head.items:
        return None
    return "what it notes of the source is not what was written; the events are not concerned"


def seal(connection: sa.Connection, project: str) -> tuple[Head, int]:
    """Seal a log that has no seal yet; return its head, and how many events there are."""
    rows = chained("", read_rows(connection, project, sealed=True))
    text = read_items(connection, project)
    head = Head(items="" if text is None else digest(text))
    if rows:
        head = head._replace(seq=rows[-1].seq, chain=rows[-1].chain or "")
        ours = sa.and_(events.c.project == project, events.c.seq == sa.bindparam("number"))
        update = sa.update(events).where(ours).values(chain=sa.bindparam("linked"))
        connection.execute(update, [{"number": row.seq, "linked": row.chain} for row in rows])
    connection.execute(sa.update(items).where(items.c.project == project).values(format=FORMAT))
    connection.execute(sa.insert(heads), {"project": project, **head._asdict()})
    return head, len(rows)


def advance(connection: sa.Connection, project: str, head: Head, to: Head) -> bool:
    """Put a head in the place of another; return whether that was there, with the event it names."""
    ours = (heads.c.project == project, heads.c.seq == head.seq, heads.c.chain == head.chain)
    last = sa.select(events.c.chain).where(events.c.project == project, events.c.seq == head.seq)
    if head.seq and connection.execute(last).scalar() != head.chain:
        return False
    return connection.execute(sa.update(heads).where(*ours).values(**to._asdict())).rowcount == 1
