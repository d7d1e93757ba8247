"""Real servers for tests, in processes and on threads."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import uvicorn
from typer.main import get_command

from everylabel.cli import app
from everylabel.cli import label as command
from everylabel.simulation.people import Client
from everylabel.web import server as web
from everylabel.web.server import bound_socket
from tests.forks import Forked

READY = "everylabel is ready: "


class Running(NamedTuple):
    """A server: its process, the address it printed, and a client."""

    process: Forked
    address: str
    client: Client

    def stop(self, how: int = signal.SIGINT) -> tuple[int, str]:
        """Ask it to stop; return its code and what it printed since."""
        self.process.send_signal(how)
        assert self.process.stdout is not None
        text = self.process.stdout.read()
        return self.process.wait(), text


@contextmanager
def served(config: uvicorn.Config) -> Iterator[int]:
    """Run a server on a thread, and yield its port."""
    with bound_socket("127.0.0.1", 0) as bound:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def label(folder: Path, *arguments: object, first: str = "") -> Iterator[Running]:
    """Run `everylabel label` in a folder, until it is ready; first : code that runs before."""
    command = ["label", *map(str, arguments), "--no-browser", "--port", "0"]
    process = Forked(command, folder, first=first)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), process.stderr.read()
        address = line.removeprefix(READY).strip()
        client = Client(address)
        yield Running(process, address, client)
        client.close()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()


class RunningHere(NamedTuple):
    """A server on a thread of this process: the address it printed, and a client."""

    address: str
    client: Client


@contextmanager
def label_here(*arguments: object) -> Iterator[RunningHere]:
    """Run `everylabel label` on a thread until the block ends: a process would take seconds to load.

    Where a test ends the process or reads its output, it needs `label`.
    """
    addresses: list[str] = []
    servers: list[web.Server] = []
    errors: list[BaseException] = []
    started = threading.Event()

    class Server(web.Server):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            servers.append(self)

    def ready(address: str, _: str) -> None:
        addresses.append(address)
        started.set()

    def run() -> None:
        given = ["label", *map(str, arguments), "--no-browser", "--port", "0"]
        try:
            code = get_command(app).main(given, standalone_mode=False)
            assert not code, f"`everylabel label` ended with code {code}"
        except BaseException as error:
            errors.append(error)
        finally:
            started.set()

    with patch.object(web, "Server", Server), patch.object(command, "_ready", ready):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        started.wait()
    if errors:
        raise errors[0]
    client = Client(addresses[0])
    try:
        yield RunningHere(addresses[0], client)
    finally:
        client.close()
        servers[0].should_exit = True
        thread.join()
    if errors:
        raise errors[0]
