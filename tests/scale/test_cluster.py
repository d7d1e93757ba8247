import socket
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.scale import cluster
from everylabel.scale.cluster import connect

pytest.importorskip("ray", reason="needs the extra everylabel[ray]")


def test_missing_cluster_is_reported_at_once() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(
            EverylabelError, match=rf"--ray 127.0.0.1:{port}\) cannot be reached .*--ray local"
        ):
            connect(f"127.0.0.1:{port}")


class Ray:
    """A stand-in for Ray that records how a cluster is joined."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        if self.error is not None:
            raise self.error

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True}, {"Alive": False}, {"Alive": True}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="10.0.0.7:6379")


def test_joined_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "need", lambda *_: Ray())
    told = list[str]()
    connect("auto", told.append)
    connect("local", told.append)  # an own one
    connect("auto")
    assert told == ["--ray auto is the cluster at 10.0.0.7:6379: 2 nodes, 1 core"]


def test_cluster_of_other_versions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = import_module("ray._private.utils")
    theirs = {"ray_version": "1.2.3", "python_version": "3.7.9"}
    with pytest.raises(RuntimeError) as raised:  # as this version of Ray words it
        utils.check_version_info(theirs, "process", True, "minor")
    monkeypatch.setattr(cluster, "need", lambda *_: Ray(raised.value))
    with pytest.raises(
        EverylabelError, match=r"--ray auto\) cannot be reached .*1\.2\.3.*3\.7\.9.*--ray local"
    ):
        connect("auto")
