"""Real server processes for tests."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import uvicorn

from everylabel.simulation.people import Client
from everylabel.web.server import bound_socket

READY = "everylabel is ready: "


class Running(NamedTuple):
    """A server: its process, the address it printed, and a client."""

    process: "subprocess.Popen[str]"
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
    program = ["-c", f"{first}\nfrom everylabel.cli import app\napp()"] if first else ["-m", "everylabel.cli"]
    command = [sys.executable, *program, "label", *map(str, arguments), "--no-browser"]
    process = subprocess.Popen(
        [*command, "--port", "0"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
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
