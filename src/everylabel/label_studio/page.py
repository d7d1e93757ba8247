"""Our own page on a project of Label Studio, on a port of its own beside the backend."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from everylabel.label_studio.connected import Connected
from everylabel.web.access import is_local
from everylabel.web.app import make_app
from everylabel.web.downloads import Downloads
from everylabel.web.server import Server, address_of, bound_socket, server_config
from everylabel.web.tokens import tokens_of


@contextmanager
def page_of(
    project: Connected, host: str, port: int, token: str, ready: Callable[[str], Any]
) -> Iterator[None]:
    """Serve the page of a project until the block is left; `ready` gets its address.

    token : asked for unless host is this machine's own
    """
    tokens = None if is_local(host) else tokens_of(token, None, None, False)
    files = Downloads(project.shown, project.service.desk, "pca")
    app = make_app(project.service, project.shown, files, None, tokens=tokens)
    with bound_socket(host, port) as bound:
        address = address_of(host, bound.getsockname()[1], None if tokens is None else tokens.labels)
        server = Server(server_config(app), lambda: ready(address))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="page", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
