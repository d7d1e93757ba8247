"""A connection to PostgreSQL that does not wait for ever.

A network that swallows packets says nothing: without a limit of its own a program waits for ever, also when
the network is back. So a connection that says nothing for some seconds while something is asked is given up.
How many is `connect_timeout` of the URL. Who stops has one moment at which all waiting ends.
"""

import math
import time
from collections.abc import Generator
from typing import Any

import sqlalchemy as sa

PATIENCE = 10  # seconds
KEPT_ALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class Patience:
    """How many seconds a database gets to answer; in a hurry, all of its answers together."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self.seconds = seconds
        self._end = math.inf

    @property
    def hurried(self) -> bool:
        return self._end < math.inf

    def hurry(self, seconds: float) -> None:
        """Have all waiting end within these seconds."""
        self._end = min(self._end, time.monotonic() + seconds)

    def left(self, since: float | None = None) -> float:
        """Return for how many seconds more to wait, if nothing has come since a moment, or since now."""
        now = time.monotonic()
        return min(self.seconds - (now - (since or now)), self._end - now)

    def lost(self) -> None:
        """Note that an answer did not come: in a hurry no other is waited for."""
        if self.hurried:
            self._end = time.monotonic()


def impatient(url: sa.URL, patience: Patience) -> sa.Engine:
    """Return the engine of a database whose connections are given up if they do not answer."""
    patience.seconds = seconds = _seconds(url)
    engine = sa.create_engine(url, pool_pre_ping=True, pool_timeout=seconds)
    psycopg = engine.dialect.import_dbapi()
    limits = {"connect_timeout": seconds, "tcp_user_timeout": 1000 * seconds, **KEPT_ALIVE}

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
                elif patience.left(heard) < 0:
                    waited = time.monotonic() - heard
                    self.pgconn.finish()
                    patience.lost()
                    raise psycopg.OperationalError(f"the database has not answered for {waited:.0f} seconds")

    @sa.event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, arguments: Any, options: Any) -> Any:
        if not patience.hurried:
            return Impatient.connect(*arguments, **{**limits, **options})
        left = patience.left()
        if left <= 0:
            raise psycopg.OperationalError("the server is stopping, and the database did not answer in time")
        try:
            return Impatient.connect(
                *arguments, **{**limits, **options, "connect_timeout": max(1, int(left))}
            )
        except psycopg.OperationalError:
            patience.lost()
            raise

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.execute(f"SET statement_timeout = {60_000 * seconds}")
        connection.execute(f"SET idle_in_transaction_session_timeout = {2000 * seconds}")
        connection.commit()

    return engine


def _seconds(url: sa.URL) -> int:
    given = url.query.get("connect_timeout")
    return max(1, int(given)) if isinstance(given, str) and given.isdigit() else PATIENCE
