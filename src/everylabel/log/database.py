"""The database of a log, SQLite (a file) or PostgreSQL (a URL): connections, locks, tables, hash chain.

One server writes to a project's log at a time: its lock ends with the process, however that ends.

`everylabel_events` holds the events, each with its chain; `everylabel_items` the rows of the source at the
last opening, as text; `everylabel_heads` the number and chain of the last event, so that a log whose end was
cut off is noticed, too, written in the same transaction as the rest. Version 0.1 wrote neither chains nor
heads.

    chain(i) = digest(chain(i - 1), event i),    chain(0) = ""

An event that was changed, lost, inserted or moved does not fit its chain. This finds damage and careless
changes; it is no signature: anyone who can write to the log can compute the digests again.
"""

import hashlib
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from everylabel.log.events import NoLog, StoreError

PRIVATE = 0o600  # mode of a file that only its owner reads and writes
TIMEOUT = 10  # seconds; `connect_timeout` of the URL sets another
RELEASE_SECONDS = 5.0  # PostgreSQL holds a lock for a moment after its session was closed
FORMAT = 4  # 1 and 2 have no chain
BATCH = 1000  # rows fetched together
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
    sa.Column("chain", sa.Text),  # hash of all other columns except the project, and of the event before
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
    sa.Column("seq", sa.BigInteger, nullable=False),  # number of the last event
    sa.Column("chain", sa.Text, nullable=False),
    sa.Column("items", sa.Text, nullable=False),  # digest of the items' text; "" if there are none
)


class Head(NamedTuple):
    """The last event's number and chain, and the digest of the stored source."""

    seq: int = 0
    chain: str = ""
    items: str = ""


class Row(NamedTuple):
    """An event as it is stored; version 0.1 wrote no chain."""

    seq: int
    block: int  # the same as seq; versions up to 0.2 grouped events by it
    at: float
    person: str
    kind: str
    body: str
    key: str | None
    chain: str | None = None


def digest(text: str) -> str:
    """Return a hash of a text."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def link(before: str, row: Row) -> str:
    """Return the chain of an event whose predecessor has the chain `before`."""
    seq, block, at, person, kind, body, key, _ = row
    size = "-" if key is None else len(key)
    return digest(
        f"{before} {seq:d} {block:d} {float(at)!r} {len(person)} {len(kind)} {len(body)} {size} "
        f"{person}{kind}{body}{key or ''}"
    )


def chained(before: str, rows: Iterable[Row]) -> list[Row]:
    """Return events with their chain, in order; their predecessor has the chain `before`."""
    linked = []
    for row in rows:
        before = link(before, row)
        linked.append(row._replace(chain=before))
    return linked


def fits(before: str, row: Row) -> bool:
    """Return whether an event fits its chain behind one with the chain `before`."""
    try:
        return link(before, row) == row.chain
    except (TypeError, ValueError, AttributeError):  # a field of another type
        return False


def find_damage(rows: Iterable[Row], head: Head | None) -> str | None:
    """Return the damage of all events of a log, given in order; None if there is none.

    head : read in the same transaction as the events; None for a log of version 0.1
    """
    if head is None:
        chains = [row.chain is not None for row in rows]
        lost = f"its head is lost; {len(chains):,} events are there, perhaps not all"
        return lost if any(chains) else None
    last, chain = 0, ""
    for n, row in enumerate(rows):
        if not fits(chain, row):
            return f"event {row.seq} does not fit the hash chain; the {n:,} events before it are whole"
        last, chain = row.seq, row.chain or ""
    if last < head.seq:
        return f"the events after {last} are missing, of {head.seq:,}; the {last:,} there are whole"
    if (last, chain) != (head.seq, head.chain):
        return f"its head is not that of event {last}, its last; the events themselves are whole"
    return None


def find_other_items(text: str | None, head: Head | None) -> str | None:
    """Return the damage of the stored source; None if there is none, or the log has no head."""
    noted = "" if text is None else digest(text)
    if head is None or noted == head.items:
        return None
    return "the stored source was changed; the events are not affected"


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            path.touch(mode=PRIVATE)
    except OSError as error:
        raise StoreError(
            f"store {str(path)!r} cannot be made: {error.strerror}; choose another --store"
        ) from error


def shown_place(where: str) -> str:
    """Return a store's place in quotes, without a password."""
    return repr(sa.make_url(where).render_as_string() if "://" in where else where)


def reason(error: DBAPIError) -> str:
    """Return the message of a database error, in one line."""
    return str(error.orig).strip().splitlines()[0] if error.orig else str(error)


def connect(where: str, write: bool) -> sa.Engine:
    """Return the engine for a log's place; for writing, a missing file is created."""
    if "://" in where:
        return _postgres(where)
    path = Path(where)
    if write:
        make_file(path)
    elif not path.exists():
        raise NoLog(repr(where), "does not exist")
    # a path may hold ?, # and %
    uri = f"file:{quote(path.resolve().as_posix())}?mode={'rw' if write else 'ro'}"

    def open_file() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=5)
        if write:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # an acknowledged label survives a power cut
        return connection

    return sa.create_engine("sqlite://", creator=open_file, poolclass=sa.QueuePool)


def _postgres(url: str) -> sa.Engine:
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
        seconds = max(1, int(given)) if isinstance(given, str) and given.isdigit() else TIMEOUT
        engine = sa.create_engine(parsed, pool_pre_ping=True, pool_timeout=seconds)
        _set_timeouts(engine, seconds)
        return engine
    except ModuleNotFoundError as error:
        raise StoreError(
            f"store is a PostgreSQL database and {error.name} is not installed; "
            "pip install 'everylabel[postgresql]'"
        ) from error
    except sa.exc.ArgumentError as error:
        raise StoreError(f"store is {url.split('@')[-1]!r}; expected a path or postgresql://...") from error


def _set_timeouts(engine: sa.Engine, seconds: int) -> None:
    """Limit connecting and waiting for a silent server; the server ends a session whose client is lost."""
    psycopg: Any = engine.dialect.import_dbapi()
    lost = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3}
    lost["idle_in_transaction_session_timeout"] = 2000 * seconds
    limits = {
        "connect_timeout": seconds,
        "options": " ".join(f"-c {name}={value}" for name, value in lost.items()),
    }

    class Connection(psycopg.Connection):
        """A connection with a read time-out, which neither libpq nor the server has."""

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *args, **options)

        def _limited(self, gen: Any) -> Generator[Any, Any, Any]:
            answered, ready = time.monotonic(), None
            while True:
                try:
                    state = gen.send(ready)
                except StopIteration as done:
                    return done.value
                ready = yield state
                if ready:
                    answered = time.monotonic()
                elif time.monotonic() > answered + seconds:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the database has not answered for {seconds} seconds")

    @sa.event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, arguments: Any, options: Any) -> Any:
        return Connection.connect(*arguments, **(limits | options))


class Taken(Exception):
    """Another server has the lock."""


def lock_file(path: Path) -> sqlite3.Connection:
    """Lock a log by a file beside it, which SQLite locks until the connection is closed."""
    path = path.resolve()
    file = path.with_name(f"{path.name}.lock")
    make_file(file)
    lock = None
    try:
        lock = sqlite3.connect(file, timeout=0, check_same_thread=False)  # any thread releases it
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        if lock is not None:
            lock.close()
        if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
            raise Taken from error
        raise StoreError(f"store {str(path)!r} cannot be opened: {error}") from error
    return lock


def lock_session(engine: sa.Engine, project: str) -> sa.Connection:
    """Lock a log in PostgreSQL by an advisory lock, which the session of the connection holds."""
    number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big", signed=True)
    session = engine.connect()
    try:
        end = time.monotonic() + RELEASE_SECONDS
        while not session.execute(sa.select(sa.func.pg_try_advisory_lock(number))).scalar():
            if time.monotonic() >= end:
                raise Taken
            time.sleep(0.02)
        session.commit()  # the lock is the session's, not the transaction's
    except BaseException:
        session.close()
        raise
    return session


def event_columns(engine: sa.Engine) -> set[str]:
    """Return the columns of the table of events; none if there is no table."""
    inspector = sa.inspect(engine)
    if not inspector.has_table(events.name):
        return set()
    return {column["name"] for column in inspector.get_columns(events.name)}


def make_tables(engine: sa.Engine, columns: set[str]) -> None:
    """Create the missing tables, then the column that version 0.1 did not have in its table of events."""
    tables.create_all(engine)
    if columns and "chain" not in columns:
        with engine.begin() as connection:
            connection.execute(sa.text(f"ALTER TABLE {events.name} ADD COLUMN chain TEXT"))


def read_head(connection: sa.Connection, project: str) -> Head | None:
    """Return the head of a project's log."""
    query = sa.select(heads.c.seq, heads.c.chain, heads.c["items"]).where(heads.c.project == project)
    row = connection.execute(query).one_or_none()
    return None if row is None else Head(*row)


def each_row(
    connection: sa.Connection,
    project: str,
    has_chain: bool,
    where: sa.ColumnElement[bool] | None = None,
    batch: int = BATCH,
) -> Iterator[Row]:
    """Yield a project's events (or some of them) as they are stored, in order, with one batch in memory."""
    columns = [events.c[name] for name in Row._fields if has_chain or name != "chain"]
    query = sa.select(*columns).where(events.c.project == project)
    query = query if where is None else query.where(where)
    query = query.order_by(events.c.seq).execution_options(yield_per=batch)
    with connection.execute(query) as found:
        yield from (Row(*row) for some in found.partitions() for row in some)


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
    query = sa.select(events.c.chain).where(events.c.project == project, events.c.seq == head.seq)
    if head.seq and connection.execute(query).scalar() != head.chain:
        return False
    ours = (heads.c.project == project, heads.c.seq == head.seq, heads.c.chain == head.chain)
    return connection.execute(sa.update(heads).where(*ours).values(**to._asdict())).rowcount == 1


def add_chain(connection: sa.Connection, project: str) -> Head:
    """Add the chain and head to a log of version 0.1; return the head."""
    rows = chained("", each_row(connection, project, has_chain=False))
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
