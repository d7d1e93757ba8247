"""Starting Ray on a machine that may be busy: it gives a node half a minute, and no more.

Workers are as nice as their driver, not 15 as usual: beside others they would hardly run.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from everylabel.scale.cluster import connect

TIMES, REST = 6, 10.0  # attempts, and seconds between them
os.environ.update(RAY_worker_niceness="0")


def started(address: str = "local", **options: Any) -> Any:
    """Return Ray, once it has started."""
    return tried(lambda: connect(address, **options))


def tried(start: Callable[[], Any]) -> Any:
    """Return what is started, which may take too long some times.

    What an attempt has left behind is killed: else each of them makes the machine busier for the next.
    """
    before = set(children())
    for _ in range(TIMES):
        try:
            return start()
        except Exception as error:  # Ray raises no other
            last = error
        for pid in set(children()) - before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(REST)
    raise RuntimeError(
        f"Ray has not started a node in {TIMES} attempts, which have half a minute each: run this again when "
        "the machine is less busy"
    ) from last


def children(parents: set[int] | None = None) -> list[int]:
    """Return the processes that were started by these, or by this one."""
    parents, found = {os.getpid()} if parents is None else parents, []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):  # it has ended, or is no process
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) in parents:
                found.append(int(entry.name))
    return found
