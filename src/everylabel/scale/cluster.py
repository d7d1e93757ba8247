"""The Ray cluster that this process works with."""

import logging
import os
import socket
from typing import Any

from everylabel.core.errors import EverylabelError, need

HERE = "local"  # an own cluster on this machine, for as long as this process lives
LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds that a cluster has to answer


def connect(address: str = "auto", **options: Any) -> Any:
    """Return Ray, connected to a cluster; to the one it is connected to, if it is.

    Parameters
    ----------
    address : str
        "auto", the cluster that this machine is part of (or that RAY_ADDRESS names); "local", an own one on
        this machine; or an address, HOST:PORT.
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
        raise EverylabelError(
            f"--ray {address} cannot be reached ({_first_line(error)}); expected the address of a running "
            "cluster (ray start --head begins one), or --ray local for an own one on this machine"
        ) from error
    return ray


def _knock(address: str) -> None:
    """Raise if nobody listens at HOST:PORT: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
        socket.create_connection((host, int(port)), PATIENCE).close()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
