"""The Ray cluster that this process works with."""

import logging
import os
import re
import socket
from collections.abc import Callable
from typing import Any

from everylabel.core.errors import EverylabelError, counted, need

HERE = "local"  # an own cluster on this machine, for as long as this process lives
LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds that a cluster has to answer
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")  # as Ray lists them


def connect(address: str = "auto", note: Callable[[str], Any] | None = None, **options: Any) -> Any:
    """Return Ray, connected to a cluster; to the one it is connected to, if it is.

    Parameters
    ----------
    address : str
        "auto", the cluster that this machine is part of (or that RAY_ADDRESS names); "local", an own one on
        this machine; or an address, HOST:PORT.
    note : function, optional
        Is told in one line which cluster was joined; nothing of an own one.
    **options
        Of `ray.init`: num_cpus, say, for "local".
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that it runs
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what it will do one day, unasked
    ray = need("ray", "ray", f"--ray {address}")
    if ray.is_initialized():
        return ray
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == HERE:
        quiet |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    try:
        _knock(address)
        ray.init(address=address, **quiet | options)
    except Exception as error:  # Ray raises no other of a node that takes too long to start
        _refuse_versions(address, error)
        raise EverylabelError(
            f"ray={address!r} (--ray {address}) cannot be reached ({_first_line(error)}); expected the "
            "address of a running cluster (ray start --head begins one), or 'local' (--ray local) for an "
            "own one on this machine"
        ) from error
    if note is not None and address != HERE:
        note(_joined(ray, address))
    return ray


def _joined(ray: Any, address: str) -> str:
    """Return which cluster this is: `auto` is the last one that was begun on this machine."""
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    cores = int(ray.cluster_resources().get("CPU", 0))
    at = ray.get_runtime_context().gcs_address
    return f"--ray {address} is the cluster at {at}: {counted(nodes, 'node')}, {counted(cores, 'core')}"


def _refuse_versions(address: str, error: Exception) -> None:
    """Raise if Ray has refused a cluster of other versions, which it lists: the cluster's, then ours."""
    found = VERSIONS.findall(str(error)) if "ersion mismatch" in str(error) else []
    if len(found) == 2:
        theirs, ours = (f"Ray {ray} and Python {python}" for ray, python in found)
        raise EverylabelError(
            f"--ray {address} is a cluster of {theirs}, and this is {ours}; expected the same on both sides: "
            "install its versions here or ours there, name another cluster by --ray HOST:PORT, or take an "
            "own one on this machine by --ray local"
        ) from error


def _knock(address: str) -> None:
    """Raise if nobody listens at HOST:PORT: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
        socket.create_connection((host, int(port)), PATIENCE).close()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
