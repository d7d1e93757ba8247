"""The Ray cluster that this process works with, and jobs that run on it part by part.

Jobs are Ray tasks, not Ray Data: the manifest fixes the rows and the file name of each part, so that a job
that is started again makes only the missing parts. Ray Data cuts blocks by their size in memory and gives its
files new names at every run.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import joblib

from everylabel.core.errors import EverylabelError, counted, need
from everylabel.scale.manifest import Manifest, Part

HERE = "local"  # a new cluster on this machine, which ends with this process
LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds for a cluster to answer
ALL = -1  # joblib's number for as many processes as there are cores
RETRIES = 5  # runs of a part again after its worker died


def connect(address: str = "auto", note: Callable[[str], Any] | None = None, **options: Any) -> Any:
    """Return Ray, connected to a cluster; an existing connection stays.

    Parameters
    ----------
    address : str
        "auto", the cluster of this machine (or of RAY_ADDRESS); "local", a new one on this machine; or
        HOST:PORT.
    note : function, optional
        Called with a line that names the cluster, unless it is a new one.
    **options
        Passed to `ray.init`, such as num_cpus for "local".
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the default of coming versions
    ray = need("ray", "ray", f"--ray {address}")
    if ray.is_initialized():
        return ray
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == HERE:
        quiet |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host:  # Ray itself would wait for minutes if nothing listens there
            socket.create_connection((host, int(port)), PATIENCE).close()
        ray.init(address=address, **quiet | options)
    except Exception as error:  # Ray raises a bare Exception for a node that starts too slowly
        raise EverylabelError(
            f"ray={address!r} (--ray {address}) cannot be reached ({shortened(error)}); expected the "
            "address of a running cluster (ray start --head starts one) with these versions of Ray and "
            "Python, or 'local' (--ray local) for a new one on this machine"
        ) from error
    if note is not None and address != HERE:
        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        cores = int(ray.cluster_resources().get("CPU", 0))
        at = ray.get_runtime_context().gcs_address
        note(f"--ray {address} is the cluster at {at}: {counted(nodes, 'node')}, {counted(cores, 'core')}")
    return ray


@contextmanager
def joblib_on_ray(address: str) -> Iterator[None]:
    """Run joblib's work inside this block on a cluster."""
    connect(address)
    need("ray.util.joblib", "ray", f"--ray {address}").register_ray()
    with joblib.parallel_config(backend="ray"):
        yield


_jobs: dict[Any, Callable[[Part], int]] = {}  # the last job of this worker, with the model it has loaded


def make_parts(
    make: Callable[[Part], int],
    manifest: Manifest,
    ray: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
    *,
    cpus: int = 1,
    gpus: int = 0,
) -> tuple[int, int]:
    """Make the missing parts; return the number of rows that were there before, and the sum of results.

    make : makes a part and returns a number; it must be picklable
    ray : as in `connect`; None works in this process
    progress : called with the rows that are there and in all
    cpus, gpus : of a worker
    """
    missing = manifest.missing()
    kept = done = manifest.rows - sum(part.rows for part in missing)
    total = 0
    report = progress or (lambda done, total: None)
    report(done, manifest.rows)
    here = ((part, make(part)) for part in missing)
    for part, result in here if ray is None else _made_on_ray(make, missing, connect(ray), cpus, gpus):
        done, total = done + part.rows, total + result
        report(done, manifest.rows)
    return kept, total


def _made_on_ray(
    make: Callable[[Part], int], parts: Sequence[Part], ray: Any, cpus: int, gpus: int
) -> Iterator[tuple[Part, int]]:
    """Make parts in workers; yield each with its result."""
    task = ray.remote(_make).options(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)
    job = [ray.put((Path.cwd(), make))]  # in a list, Ray sends the reference: a worker loads it once
    running = {task.remote(job, part): part for part in parts}
    try:
        while running:
            (done,), _ = ray.wait(list(running))
            yield running.pop(done), ray.get(done)
    except ray.exceptions.RayTaskError as error:  # our own error: raise it without Ray's wrapper
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EverylabelError(
            f"a worker of Ray died {RETRIES + 1} times at the same part ({type(error).__name__}: "
            f"{shortened(error)}); finished parts are kept: run it again to continue"
        ) from error
    finally:
        for waiting in running:
            ray.cancel(waiting)


def _make(job: list[Any], part: Part) -> Any:
    """Make a part in a worker; relative paths start from the driver's working directory."""
    if job[0] not in _jobs:
        _jobs.clear()
        home, _jobs[job[0]] = need("ray", "ray", "a worker").get(job[0])
        with suppress(OSError):  # on another machine it may be missing
            os.chdir(home)
    return _jobs[job[0]](part)


def shortened(error: Exception) -> str:
    """Return the beginning of an error's message on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
