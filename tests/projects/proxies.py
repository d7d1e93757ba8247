"""A local TCP proxy that can break connections, for tests of network faults."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Forwards bytes, swallows them, or cuts connections around a COMMIT.

    mode : "forward"; "swallow" takes everything and passes nothing on, in both directions; "cut after commit"
        passes a COMMIT on, waits for its reply, and cuts; "cut before commit" cuts instead of passing it on
    """

    def __init__(self, host: str, port: int) -> None:
        self._target, self.mode, self.cuts = (host, port), "forward", 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.asked = threading.Event()  # something came that was swallowed
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut all connections and stop."""
        for each in [self._listening, *self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
                cut = threading.Event()  # what comes next from the server does not arrive
                threading.Thread(target=self._ask, args=(client, server, cut), daemon=True).start()
                threading.Thread(target=self._reply, args=(server, client, cut), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.mode == "swallow":
                    self.asked.set()
                    continue
                if self.mode.startswith("cut") and b"COMMIT" in data:
                    after, self.mode = self.mode == "cut after commit", "forward"
                    self.cuts += 1
                    cut.set()
                    if not after:
                        break
                server.sendall(data)
        _end(client, server)

    def _reply(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if cut.is_set():
                    break
                if self.mode != "swallow":
                    client.sendall(data)
        _end(client, server)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str) -> Iterator[tuple[Proxy, str]]:
    """Yield a proxy before a database, and the URL through it with a time-out of one second."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = Proxy(parts.hostname, parts.port)
    try:
        yield proxy, url.replace(f":{parts.port}/", f":{proxy.port}/") + "?connect_timeout=1"
    finally:
        proxy.close()
