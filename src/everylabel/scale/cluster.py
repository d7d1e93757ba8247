"""The Ray cluster that this process works with, and jobs that run on it part by part.

Jobs are Ray's tasks, not Ray Data: the manifest fixes the rows and the file name of each part, so that a job
that is begun again makes only the missing ones. Ray Data cuts blocks by their size in memory and names its
files anew at every run.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import joblib

from everylabel.core.errors import EverylabelError, counted, need
from everylabel.scale.manifest import Manifest, Part

HERE = "local"  # an own cluster on this machine, for as long as this process lives
LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds that a cluster has to answer
ALL = -1  # joblib's number for as many processes as there are cores
RETRIES = 5  # of a part whose worker died
SUBMITTED = 1000  # parts at once that Ray knows of
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")  # as Ray lists them


def connect(address: str = "auto", note: Callable[[str], Any] | None = None, **options: Any) -> Any:
    """Return Ray, connected to a cluster; to the one it is connected to, if it is.

    Parameters
    ----------
    address : str
        "auto", the cluster of this machine (or of RAY_ADDRESS); "local", a new one on this machine; or
        HOST:PORT.
    note : function, optional
        Called with a line that names the cluster, unless it is a new one.
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


@contextmanager
def joblib_on_ray(address: str, note: Callable[[str], Any] | None = None) -> Iterator[None]:
    """Have joblib run everything in this block on a cluster."""
    connect(address, note)
    need("ray.util.joblib", "ray", f"--ray {address}").register_ray()
    with joblib.parallel_config(backend="ray"):
        yield


_jobs: dict[str, Callable[[Part], int]] = {}  # the last job of this worker, with the model it has loaded


def run(
    make: Callable[[Part], int],
    key: str,
    parts: Sequence[Part],
    ray: Any = None,
    *,
    cpus: int = 1,
    gpus: int = 0,
) -> Iterator[tuple[Part, int]]:
    """Make all parts, and yield each with its result: in this process, or by tasks of a cluster.

    make : makes a part and returns its result; it can be sent to another process
    key : a name that no other job has
    ray : of `connect`; None works in this process
    cpus, gpus : of a worker
    """
    if ray is None:
        yield from ((part, make(part)) for part in parts)
        return
    task = ray.remote(_make).options(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)
    held, left = [ray.put((Path.cwd(), make))], iter(parts)
    running: dict[Any, Part] = {}
    try:
        while True:
            for part in islice(left, SUBMITTED - len(running)):
                running[task.remote(key, held, part)] = part
            if not running:
                return
            for done in ray.wait(list(running))[0]:
                yield running.pop(done), _result(ray, done)
    finally:
        for waiting in running:
            ray.cancel(waiting)


def followed(
    made: Iterator[tuple[Part, int]],
    manifest: Manifest,
    missing: Sequence[Part],
    progress: Callable[[int, int], Any] | None,
) -> tuple[int, int]:
    """Wait for the missing parts; return the rows that were there before, and the sum of the results.

    progress(done, total), if given, is called with rows
    """
    tell = progress or (lambda done, total: None)
    kept = done = manifest.rows - sum(part.rows for part in missing)
    total = 0
    tell(done, manifest.rows)
    for part, result in made:
        done, total = done + part.rows, total + result
        tell(done, manifest.rows)
    return kept, total


def _make(key: str, held: list[Any], part: Part) -> Any:
    """Make a part in a worker; relative paths are those of the driver's folder."""
    if key not in _jobs:
        _jobs.clear()
        home, _jobs[key] = need("ray", "ray", "a worker").get(held[0])
        with suppress(OSError):  # on another machine it may be missing
            os.chdir(home)
    return _jobs[key](part)


def _result(ray: Any, done: Any) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:  # an error of our own code: raise it as if it were here
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EverylabelError(
            f"a worker of Ray died {RETRIES + 1} times at the same part ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}); finished parts are kept: run the command again to go on"
        ) from error


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
