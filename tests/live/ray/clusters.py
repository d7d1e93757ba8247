"""A Ray cluster of three nodes on this machine, of which workers and nodes can be killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.scale.starting import children, tried


@contextmanager
def three_nodes() -> Iterator[tuple[Any, list[Any]]]:
    """Yield a cluster, and the two of its nodes that may die; the third has its head."""
    node: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
    cluster: Any = import_module("ray.cluster_utils").Cluster
    made: Any = tried(
        lambda: cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    )
    try:
        yield made, [tried(lambda: made.add_node(**node)) for _ in range(2)]
    finally:
        made.shutdown()


def workers(made: Any) -> list[int]:
    """Return the processes of a cluster in which actors of ours run."""
    raylets = {
        process.process.pid
        for node in made.list_all_nodes()
        for process in node.all_processes.get("raylet", ())
    }
    found = []
    for pid in children(raylets):
        with suppress(OSError):  # it has ended
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Worker"):
                found.append(pid)
    return found


def kill(pid: int) -> None:
    """Kill a process that may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
