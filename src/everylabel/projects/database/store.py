"""The event log in a database: SQLite in a file, or PostgreSQL by its URL.

An event that `append` has returned from survives a power cut: SQLite writes ahead and waits for the
disk at every commit, PostgreSQL does so by default. One server writes to a project's log at a time
(`writing.py`); readers (such as `everylabel export`) may read beside it. What is read is what was written, or
an error says which part is: events are chained, and sealed by a head (`sealing.py`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from everylabel.core.errors import EverylabelError
from everylabel.data.known import Known
from everylabel.labelling.events import Event, from_row, to_row
from everylabel.projects.database import checking, databases, sealing
from everylabel.projects.database.chain import BEGIN, Head, Row, chained, digest, fits
from everylabel.projects.database.databases import reason
from everylabel.projects.database.log_errors import Damaged, NoLog, StoreError
from everylabel.projects.database.noted import from_text, to_text
from everylabel.projects.database.patience import Patience
from everylabel.projects.database.tables import BEFORE, FORMAT, events, items
from everylabel.projects.database.writing import Writer

__all__ = ["Damaged", "NoLog", "Store", "StoreError", "write_log"]
_UNREADABLE = ("malformed", "Could not decode")  # what SQLite says of a damaged file
_GARBLED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class Store:
    """The log of one project. Parameters: a file's path or a database's URL, and the project's name.

    vouched : an event up to which something else, under a digest of its own, holds all that the log says:
        what came before is checked beside the work, if the log is to be written to
    lost : called if something is found wrong there; no answer is taken any more
    told : what a person should know of it
    """

    def __init__(
        self,
        where: str | Path,
        project: str,
        *,
        write: bool = True,
        vouched: Head | None = None,
        lost: Callable[[StoreError], None] | None = None,
    ) -> None:
        self.where, self.project, self.told = str(where), project, ""
        self._path = None if "://" in self.where else Path(where)
        self._writer: Writer | None = None
        self._vouched, self._lost = vouched, lost
        self._checking: checking.Checking | None = None
        self._parsed: tuple[list[Event], str] | None = None  # what was read last, and its chain: for the next
        self._patience = Patience()
        self._engine = self._connect(write)
        try:
            with self._telling("opened"):
                self._open(write)
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The store's place without a password."""
        return repr(str(self._path)) if self._path else repr(self._engine.url.render_as_string())

    def read(self, after: int = 0, *, again: bool = False) -> list[Event]:
        """Return all events after number `after`, in order.

        again : all will be read once more, which then takes no longer than what has come meanwhile
        """
        with self._telling("read"):
            known, self._parsed = self._parsed, None
            if known is not None and not after:
                return [*known[0], *map(_event, self._rows(known[0][-1].seq, known[1]))]
            rows = self._rows(after)
            found = [_event(row) for row in rows]
            if again and rows:
                self._parsed = found, rows[-1].chain or ""
            return found

    def first(self) -> Event | None:
        """Return the first event, without a look at the others."""
        return next(iter(self._glance(events.c.seq == 1)), None)

    def glance(self, kind: str) -> list[Event]:
        """Return the events of one kind, each as it was written, without a look at the others.

        Whether some are lost is told by opening to write, or by `read`.
        """
        return self._glance(events.c.kind == kind)

    def holds(self, kinds: Iterable[str]) -> bool:
        """Return whether there is an event of one of these kinds."""
        query = sa.select(events.c.seq).where(
            events.c.project == self.project, events.c.kind.in_(list(kinds))
        )
        with self._telling("read"), self._engine.connect() as connection:
            return connection.execute(query.limit(1)).first() is not None

    def _glance(self, where: sa.ColumnElement[bool]) -> list[Event]:
        with self._telling("read"):
            with self._engine.connect() as connection:
                if self._head(connection) is None:
                    return [_event(row) for row in sealing.read_rows(connection, self.project, False, where)]
                found = sealing.read_linked(connection, self.project, where)
            for row, before in found:
                if not fits(before, row):
                    self.check()  # tells how much is whole
                    raise Damaged(self.shown, f"event {row.seq} is not what was written")
            return [_event(row) for row, _ in found]

    def mark(self, seq: int) -> str:
        """Return the chain of an event, a digest of all up to it; "" if it is not there."""
        with self._telling("read"), self._engine.connect() as connection:
            return sealing.read_chain(connection, self.project, seq) or ""

    def append(self, fresh: Iterable[Event]) -> None:
        """Write events, all or none; they are on disk when this returns."""
        with self._writing.alone() as head:
            rows = chained(head.chain, map(_row, fresh))
            if not rows:
                return
            to = head._replace(seq=rows[-1].seq, chain=rows[-1].chain or "")
            with self._writing.writing(to) as connection:
                self._insert(connection, rows)

    def wait_checked(self) -> None:
        """Wait until what is checked beside the work is: for those who measure and test that."""
        if self._checking is not None:
            self._checking.thread.join()

    def refusal(self) -> StoreError | None:
        """Return why nothing can be written now, if that is known; looking costs less than writing."""
        return self._writing.refusal()

    def hurry(self, seconds: float) -> None:
        """Wait for all answers of a database no longer than these seconds, from now on: the server stops."""
        self._patience.hurry(seconds)

    def items(self) -> Known | None:
        """Return the rows of the source as it was last time, if there was one."""
        with self._telling("read"):
            with self._engine.connect() as connection:
                head = self._head(connection)
                text = sealing.read_items(connection, self.project)
            self._refuse(sealing.find_other_items(text, head))
            return None if text is None else from_text(text)

    def set_items(self, known: Known) -> None:
        """Note the source as it is now."""
        text = to_text(known)
        with (
            self._writing.alone() as head,
            self._writing.writing(head._replace(items=digest(text))) as connection,
        ):
            connection.execute(sa.delete(items).where(items.c.project == self.project))
            self._insert_items(connection, text)

    def content(self) -> tuple[list[Row], str | None, Head | None]:
        """Return all events as they are stored, the noted source and the head, of one moment, if whole."""
        with self._of_one_moment() as connection:
            head = self._head(connection)
            rows = sealing.read_rows(connection, self.project, self._sealed)
            text = sealing.read_items(connection, self.project)
            self._refuse(sealing.find_loss(rows, head) or sealing.find_other_items(text, head))
            return rows, text, head

    def check(self) -> Head | None:
        """See that all events and the noted source are what was written; return the head.

        No event is understood for that: it takes some microseconds each, and no memory.
        """
        with self._of_one_moment() as connection:
            head = self._head(connection)
            with sealing.each_row(connection, self.project, self._sealed) as rows:
                self._refuse(sealing.find_loss(rows, head))
            self._refuse(sealing.find_other_items(sealing.read_items(connection, self.project), head))
            return head

    @contextmanager
    def _of_one_moment(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees the log as it is now, whatever is written meanwhile."""
        with self._telling("read"), self._engine.connect() as connection:
            if self._path is not None:
                connection.exec_driver_sql("BEGIN")
                yield connection
            else:
                yield connection.execution_options(isolation_level="REPEATABLE READ")

    def take_over(self, rows: Sequence[Row], text: str | None) -> None:
        """Write events and the noted source of another log to this one, which is empty."""
        linked = chained("", rows)
        head = Head(linked[-1].seq, linked[-1].chain or "") if linked else Head()
        head = head._replace(items="" if text is None else digest(text))
        with self._writing.writing(head) as connection:
            self._insert(connection, linked)
            if text is not None:
                self._insert_items(connection, text)

    def close(self) -> None:
        """Let go of the database."""
        if self._checking is not None:
            self._checking.close()
        if self._writer is not None:
            self._writer.close()
        self._engine.dispose()

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise StoreError(f"store {self.shown} is open for reading only")
        return self._writer

    def _open(self, write: bool) -> None:
        """Check tables and format; take the lock, and see that all is whole, if it is to be written to."""
        if write:
            about = self._engine, self._path, self.project, self.shown
            self._writer = Writer(*about, self._verify, self._rescue)
        found = sealing.is_sealed(self._engine)
        if isinstance(found, str):
            raise Damaged(self.shown, found)
        self._sealed = found
        if write:
            sealing.make_tables(self._engine)
            self._sealed = True
        elif not found and not sealing.is_there(self._engine):
            raise NoLog(self.shown, "holds none of our tables")
        self._check_format()
        if self._writer is not None:
            self._writer.begin(self._checked())

    def _checked(self) -> Head:
        """Return the head of a log that is what was written; seal one of a version before."""
        if self._path is not None:
            with self._engine.connect() as connection:
                found = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
            if found != "ok":
                raise Damaged(self.shown, f"the file's pages do not fit together ({found})")
        mark = self._vouched
        if mark is not None and mark.seq >= checking.FROM and self._is_whole_after(mark):
            self._checking = checking.Checking(partial(self._check_before, mark), self._give_up)
        else:
            self.check()
        with self._engine.begin() as connection:
            head = self._head(connection)
            if head is None:
                head, n = sealing.seal(connection, self.project)
                if n:
                    self.told = (
                        f"the log is from a version before: its {n:,} events are sealed now, so that damage "
                        "is found; older versions of everylabel do not open it any more"
                    )
        return head

    def _is_whole_after(self, mark: Head) -> bool:
        """Return whether the log has this event, and goes on to its end as it was written."""
        with self._of_one_moment() as connection:
            return sealing.is_whole_after(connection, self.project, mark)

    def _check_before(self, mark: Head, slowly: checking.Slowly) -> None:
        """See that all events up to one are what was written."""
        up_to = events.c.seq <= mark.seq
        with (
            self._of_one_moment() as connection,
            sealing.each_row(connection, self.project, True, up_to) as rows,
        ):
            self._refuse(sealing.find_loss(slowly(rows), mark))

    def _give_up(self, error: StoreError) -> None:
        self._writing.give_up(error)
        if self._lost is not None:
            self._lost(error)

    def _rows(self, after: int = 0, chain: str | None = None) -> list[Row]:
        """Return events after a number as they are stored, whole; chain : that event's, if known."""
        with self._of_one_moment() as connection:
            head = self._head(connection)
            rows = sealing.read_rows(connection, self.project, self._sealed, events.c.seq >= after)
        mark = BEGIN
        if after:
            if not rows or rows[0].seq != after:
                return [row for row in self._rows() if row.seq > after]
            mark, rows = Head(after, rows[0].chain or ""), rows[1:]
            if chain not in (None, mark.chain):
                raise Damaged(self.shown, f"event {after} is not what was read before")
        self._refuse(sealing.find_loss(rows, head, mark))
        if self._writer is not None and head is not None and not after:
            self._writer.learn(head)
        return rows

    def _head(self, connection: sa.Connection) -> Head | None:
        return sealing.read_head(connection, self.project) if self._sealed else None

    def _refuse(self, loss: str | None) -> None:
        if loss is not None:
            raise Damaged(self.shown, loss)

    def _verify(self) -> None:
        """See that the file is what this server has written, through a connection that knows nothing yet."""
        with closing(Store(self.where, self.project, write=False)) as log:
            head = log.check()
        if head != self._writing.head:
            raise Damaged(self.shown, "somebody else has written to it while the server has it open")

    def _rescue(self) -> str:
        """Copy what is open to a new log; return where that is."""
        assert self._path is not None
        target = self._path.with_name(f"{self._path.stem}-rescued-{datetime.now():%Y%m%d-%H%M%S}.sqlite")
        try:
            rows, text, head = self.content()
            if head != self._writing.head:
                raise StoreError("the file that is open is another one")
            write_log(target, self.project, rows, text)
        except (EverylabelError, OSError) as error:
            return f"Stop the server and look for the file; no copy could be made ({error})"
        return (
            f"All {len(rows):,} events are in {str(target)!r}: stop the server, and put that in the place of "
            "the log or start with --store"
        )

    def _insert(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        if rows:
            stored = [{"project": self.project, **row._asdict()} for row in rows]
            connection.execute(sa.insert(events), stored)

    def _insert_items(self, connection: sa.Connection, text: str) -> None:
        row = {"project": self.project, "format": FORMAT, "items": text}
        connection.execute(sa.insert(items), row)

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Tell in a sentence what is wrong with a database that cannot be opened or read."""
        try:
            yield
        except EverylabelError:
            raise
        except DBAPIError as error:
            if any(sign in str(error.orig) for sign in _UNREADABLE):
                raise Damaged(self.shown, f"{reason(error):.100}") from error
            raise StoreError(f"store {self.shown} cannot be {what}: {reason(error)}") from error
        except (*_GARBLED, sa.exc.SQLAlchemyError) as error:
            raise Damaged(self.shown, f"it holds what cannot be understood ({error})") from error

    def _connect(self, write: bool) -> sa.Engine:
        if self._path is None:
            return databases.postgres(self.where, self._patience)
        if write:
            databases.make_file(self._path)
        elif not self._path.exists():
            raise NoLog(repr(str(self._path)), "is not there")
        return databases.sqlite(self._path, write)

    def _check_format(self) -> None:
        query = sa.select(items.c.format).where(items.c.project == self.project)
        with self._engine.connect() as connection:
            stored = connection.execute(query).scalar()
        if stored not in (None, FORMAT, *BEFORE):
            raise StoreError(
                f"store {self.shown} has format {stored}; expected {FORMAT}: open it with the version of "
                "everylabel that wrote it"
            )


def write_log(target: Path, project: str, rows: Sequence[Row], text: str | None) -> None:
    """Write events and the noted source to a new file, or none."""
    if target.exists():
        raise EverylabelError(f"--out is {str(target)!r}, which is there; expected a file that is not")
    try:
        with closing(Store(target, project)) as log:
            log.take_over(rows, text)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        target.with_name(f"{target.name}.lock").unlink(missing_ok=True)


def _event(row: Row) -> Event:
    return Event(row.seq, row.block, row.at, row.person, from_row(row.kind, json.loads(row.body)), row.key)


def _row(event: Event) -> Row:
    kind, body = to_row(event.body)
    text = json.dumps(body, ensure_ascii=False)
    return Row(event.seq, event.block, event.at, event.person, kind, text, event.key)
