"""A temporary PostgreSQL server."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def binaries() -> Path | None:
    """Return the folder of the server's programs, if it is installed."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of an empty database."""
    programs = binaries()
    if programs is None:
        raise RuntimeError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    user = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory() as folder:
        if user:
            shutil.chown(folder, user)
        data, port = Path(folder) / "data", free_port()
        role = user or getpass.getuser()

        def run(*command: str) -> None:
            # not captured: the server would hold the pipe open
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(command, check=True, user=user, cwd=folder, **quiet)  # type: ignore[call-overload]

        run(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", role)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        start = [str(programs / "pg_ctl"), "-D", str(data), "-w", "-o", options, "-l", f"{folder}/log"]
        run(*start, "start")
        try:
            yield f"postgresql://{role}@127.0.0.1:{port}/postgres"
        finally:
            run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
