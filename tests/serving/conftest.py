"""A real PostgreSQL server, started for the tests that need one."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of an empty database of a server of our own."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'everylabel[postgresql]'")
    user = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory() as folder:
        if user:
            shutil.chown(folder, user)
        data, port = Path(folder) / "data", free_port()
        role = user or getpass.getuser()

        def run(*command: str) -> None:
            subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder)

        run(str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", role)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        start = [str(binaries / "pg_ctl"), "-D", str(data), "-w", "-o", options, "-l", f"{folder}/log"]
        run(*start, "start")
        try:
            yield f"postgresql://{role}@127.0.0.1:{port}/postgres"
        finally:
            run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")


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
