"""Starting Ray on a machine that may be busy: it gives a node half a minute, and no more.

Workers are as nice as their driver, not 15 as usual: beside others they would hardly run.
"""

import os
from collections.abc import Callable
from typing import Any

from everylabel.scale.cluster import connect

TIMES = 4
os.environ.update(RAY_worker_niceness="0")


def started(address: str = "local", **options: Any) -> Any:
    """Return Ray, once it has started."""
    return tried(lambda: connect(address, **options))


def tried(start: Callable[[], Any]) -> Any:
    """Return what is started, which may take too long some times."""
    for last in (False,) * (TIMES - 1) + (True,):
        try:
            return start()
        except Exception:  # Ray raises no other
            if last:
                raise
    raise AssertionError
