"""Parts made one after the other here, or by tasks all over a Ray cluster; both make the same files.

Ray's tasks, not Ray Data: a part's rows and its file's name are fixed by the manifest, so that a job that is
begun again makes what is missing and nothing else. Ray Data cuts what it reads into blocks by their size in
memory, names what it writes anew at every run, and keeps no account of what is done. Given the parts as its
rows it could only schedule them, and tasks do that by themselves: they spread over all nodes, also such as
join later, and those of a node that dies run elsewhere. A worker keeps the encoder from one task to the next.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from everylabel.core.errors import EverylabelError, need
from everylabel.scale.cluster import connect
from everylabel.scale.sources import Part

RETRIES = 5  # of a part whose worker died
SUBMITTED = 1000  # parts at once that Ray knows of
_jobs: dict[str, Any] = {}  # of this process: the last one it worked on, with what it has loaded


class Job(Protocol):
    """What makes parts; it can be sent to another process."""

    @property
    def key(self) -> str:
        """Return what tells it from other jobs."""

    def make(self, part: Part) -> Any:
        """Make a part, and return what is to be told of it."""


def made(
    job: Job,
    parts: Sequence[Part],
    ray: str | None = None,
    *,
    cpus: int = 1,
    gpus: int = 0,
    note: Callable[[str], Any] | None = None,
) -> Iterator[tuple[Part, Any]]:
    """Make all parts, and yield each when it is there.

    ray : the address of a cluster; None makes them in this process
    cpus, gpus : what a worker has of its node
    note : is told which cluster it is
    """
    if ray is None:
        return ((part, job.make(part)) for part in parts)
    return _by_tasks(job, parts, connect(ray, note), cpus, gpus)


def _by_tasks(job: Job, parts: Sequence[Part], ray: Any, cpus: int, gpus: int) -> Iterator[tuple[Part, Any]]:
    task = ray.remote(_make).options(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)
    held, left = [ray.put((Path.cwd(), job))], iter(parts)
    running: dict[Any, Part] = {}
    try:
        while True:
            running |= {
                task.remote(job.key, held, part): part for part in islice(left, SUBMITTED - len(running))
            }
            if not running:
                return
            for done in ray.wait(list(running))[0]:
                yield running.pop(done), _result(ray, done)
    finally:
        for waiting in running:
            ray.cancel(waiting)


def _make(key: str, held: list[Any], part: Part) -> Any:
    """Make a part, in a worker of Ray; what is named by a relative path is so from the driver's folder."""
    if key not in _jobs:
        _jobs.clear()
        home, _jobs[key] = need("ray", "ray", "a worker").get(held[0])
        with suppress(OSError):  # on another machine it may be missing
            os.chdir(home)
    return _jobs[key].make(part)


def _result(ray: Any, done: Any) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:  # raised by our own code there: tell it as if it were here
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EverylabelError(
            f"a worker of Ray died {RETRIES + 1} times at the same part ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}); what is finished is kept: run the command again to go on"
        ) from error
