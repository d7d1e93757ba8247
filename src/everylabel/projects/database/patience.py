"""A connection to PostgreSQL that does not wait for ever.

A network that swallows packets says nothing: without a limit of its own a program waits for ever, also when
the network is back. So a connection that says nothing for some seconds while something is asked is given up.
How many is `connect_timeout` of the URL.
"""

import time
from collections.abc import Generator
from typing import Any

import sqlalchemy as sa

PATIENCE = 10  # seconds
KEPT_ALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


def impatient(url: sa.URL) -> sa.Engine:
    """Return the engine of a database whose connections are given up if they do not answer."""
    patience = _seconds(url)
    engine = sa.create_engine(url, pool_pre_ping=True, pool_timeout=patience)
    psycopg = engine.dialect.import_dbapi()
    limits = {"connect_timeout": patience, "tcp_user_timeout": 1000 * patience, **KEPT_ALIVE}

    class Impatient(psycopg.Connection):  # type: ignore[name-defined]
        """A connection that gives up."""

        def wait(self, gen: Any, *how: Any, **more: Any) -> Any:
            return super().wait(self._watched(gen), *how, **more)

        def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
            """Pass on what is waited for, until nothing has come for too long."""
            heard, ready = time.monotonic(), None
            while True:
                try:
                    state = gen.send(ready)
                except StopIteration as done:
                    return done.value
                ready = yield state
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > patience:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the database has not answered for {patience} seconds")

    @sa.event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, arguments: Any, options: Any) -> Any:
        return Impatient.connect(*arguments, **{**limits, **options})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.execute(f"SET statement_timeout = {60_000 * patience}")
        connection.execute(f"SET idle_in_transaction_session_timeout = {2000 * patience}")
        connection.commit()

    return engine


def _seconds(url: sa.URL) -> int:
    given = url.query.get("connect_timeout")
    return max(1, int(given)) if isinstance(given, str) and given.isdigit() else PATIENCE
