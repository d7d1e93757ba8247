"""Measurements on disk: one SQLite file, one row per measurement, one transaction per finished cell.

A cell is in the file whole or not at all, also after kill -9; `finished` lists the cells that need not be
run again. pandas reads it with `read_sql("select * from measurements", connection)`.
"""

import csv
import gzip
import io
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically

VERSION = 2


class Measurement(NamedTuple):
    """One number: variant (an update, a strategy), x (labels, a size), metric, value."""

    variant: str
    x: float
    metric: str
    value: float


class Row(NamedTuple):
    """One measurement with its cell."""

    experiment: str
    dataset: str
    repetition: int
    training: str
    variant: str
    x: float
    metric: str
    value: float


_SCHEMA = """
create table about (version integer not null);
create table runs (
    command text not null, machine text not null, started text not null);
create table datasets (dataset text primary key, digest text not null);
create table cells (
    cell text primary key, seconds real not null, code text not null,
    finished text not null default current_timestamp);
create table measurements (
    experiment text not null, dataset text not null, repetition integer not null, training text not null,
    variant text not null, x real not null, metric text not null, value real,
    cell text not null references cells (cell));
create index by_experiment on measurements (experiment, dataset, metric);
"""


class Results:
    """The results file, opened for one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(path)) as new:
                if not new.execute("select name from sqlite_master").fetchall():
                    new.execute("pragma journal_mode=wal")
                    new.executescript(f"begin; {_SCHEMA} insert into about values ({VERSION}); commit")
                (version,) = new.execute("select max(version) from about").fetchone()
                if version != VERSION:
                    raise sqlite3.DatabaseError(f"it has version {version}")
            self._connection = sqlite3.connect(path)
        except (sqlite3.Error, OSError) as error:
            raise EverylabelError(
                f"results file {str(path)!r} cannot be opened ({error}); expected one that this everylabel "
                f"writes (version {VERSION}), or none yet: name another file with --results"
            ) from error

    def begin(self, command: str, machine: str, started: str) -> None:
        """Record command, machine and start of a run, for the report."""
        with self._errors(), self._connection:
            self._connection.execute("insert into runs values (?, ?, ?)", (command, machine, started))

    def runs(self) -> list[tuple[str, str, str]]:
        """Return command, machine and date of every run, in order."""
        query = "select command, machine, started from runs order by rowid"
        return [(command, machine, started) for command, machine, started in self._connection.execute(query)]

    def finished(self) -> set[str]:
        """Return the names of the cells that need not be run again."""
        return {name for (name,) in self._connection.execute("select cell from cells")}

    def seconds(self) -> dict[str, float]:
        """Return how long each finished cell took."""
        return dict(self._connection.execute("select cell, seconds from cells"))

    def codes(self) -> dict[str, int]:
        """Return the number of cells measured by each version of the code, in order."""
        query = "select code, count(*) from cells group by code order by min(rowid)"
        return dict(self._connection.execute(query))

    def datasets(self) -> dict[str, str]:
        """Return the digest of each dataset that was measured on."""
        return dict(self._connection.execute("select dataset, digest from datasets order by rowid"))

    def same_data(self, dataset: str, digest: str) -> None:
        """Record the digest of a dataset; raise if its stored cells were measured on other data."""
        with self._errors(), self._connection:
            self._connection.execute("insert or ignore into datasets values (?, ?)", (dataset, digest))
        before = self.datasets()[dataset]
        if before != digest:
            raise EverylabelError(
                f"dataset {dataset!r} has other features or labels ({digest}) than those that results file "
                f"{str(self.path)!r} was measured on ({before}); name another file with --results, or "
                "the folder of the old features with --data"
            )

    def add(self, cell: str, seconds: float, rows: Iterable[Row], code: str = "") -> None:
        """Store a finished cell with the version of the code that measured it."""
        with self._errors(), self._connection:
            new = self._connection.execute(
                "insert or ignore into cells (cell, seconds, code) values (?, ?, ?)", (cell, seconds, code)
            )
            if not new.rowcount:  # another run stored it first, with the same numbers
                return
            self._connection.executemany(
                "insert into measurements values (?, ?, ?, ?, ?, ?, ?, ?, ?)", [(*row, cell) for row in rows]
            )

    def rows(self, experiment: str | None = None, training: str | None = None) -> list[Row]:
        """Return all measurements, or those of one experiment or training, in a fixed order."""
        query = (
            "select experiment, dataset, repetition, training, variant, x, metric, value from measurements "
            "where (?1 is null or experiment = ?1) and (?2 is null or training = ?2) "
            "order by rowid"
        )
        return [Row(*row) for row in self._connection.execute(query, (experiment, training))]

    def export(self, path: Path) -> None:
        """Write all measurements as CSV, compressed if the name ends in .gz; whole or not at all."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(Row._fields)
        writer.writerows(self.rows())
        whole = text.getvalue().encode()
        packed = gzip.compress(whole) if path.suffix == ".gz" else whole
        write_atomically(path, lambda file: file.write(packed))

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise EverylabelError(
                f"results file {str(self.path)!r}: {error}; finished results are still in it. "
                "Make room, or name another file with --results, and run the command again to continue"
            ) from error
