import socket

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.scale.cluster import connect

pytest.importorskip("ray", reason="needs the extra everylabel[ray]")


def test_a_cluster_that_is_not_there_is_told_at_once() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(EverylabelError, match=rf"--ray 127.0.0.1:{port} cannot be reached .*--ray local"):
            connect(f"127.0.0.1:{port}")
