"""Stores of both kinds for the tests of the log."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import postgres as database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of a server of our own."""
    if database.binaries() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'everylabel[postgresql]'")
    with database.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the place of an empty store, in each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "labels.sqlite")
    url: str = request.getfixturevalue("postgres")
    name = f"test{os.urandom(6).hex()}"
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + f"/{name}"
