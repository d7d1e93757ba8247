"""Features in a folder of shards, held by actors of a Ray cluster; the driver fetches rows.

Each actor holds consecutive shards. Ray restarts an actor that dies, on another node if need be, and it reads
its files again; calls wait for it. The driver caches rows that were fetched a few at a time, such as those of
labelled items.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.scale.cluster import connect
from everylabel.scale.shards import RowsOnDemand, find_shards, shared_out
from everylabel.scale.worker import Worker

CACHED = 20_000  # rows that the driver keeps
TOO_MANY = 2_000  # rows fetched at once that are not cached
PATIENCE = 300.0  # seconds for an actor to restart
AGAIN = 0.2  # seconds between attempts
BACKGROUND = "background"  # the thread of an actor that computes the logits of a retrained model

logger = logging.getLogger(__name__)


class ShardedFeatures(RowsOnDemand):
    """Rows (n, d) of a folder of shards, by actors of a Ray cluster.

    Parameters
    ----------
    folder : str
        Of .npy files, on this machine or at an address that fsspec knows; all nodes must reach it.
    ray : str
        The cluster: "auto", "local" or an address; see `cluster.connect`.
    actors : int, optional
        How many hold the shards; by default one per core of the cluster, and at most one per shard.

    Examples
    --------
    >>> from pathlib import Path
    >>> from everylabel.scale import ShardedFeatures
    >>> Path("shards").mkdir()
    >>> for i in range(3):
    ...     np.save(f"shards/part-{i:06}.npy", x[500 * i : 500 * (i + 1)])
    >>> ShardedFeatures("shards", ray="local", actors=2)
    ShardedFeatures(1,500 x 64, 2 actors)
    """

    pool = "everylabel.scale.ShardPool"  # the pool for them; any other would fetch all rows

    def __init__(self, folder: str, ray: str = "auto", actors: int | None = None) -> None:
        self.ray = connect(ray)
        shards = find_shards(folder)
        cores = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        stretches = shared_out(shards, cores if actors is None else actors)
        self.starts = np.cumsum([0, *(sum(shard.rows for shard in some) for some in stretches)])
        how: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "num_cpus": 0.01}
        kind: Any = self.ray.remote(**how, concurrency_groups={BACKGROUND: 1})(Worker)
        self.actors = [
            kind.options(scheduling_strategy="SPREAD").remote([shard.place for shard in some])
            for some in stretches
        ]
        errors = self.ray.exceptions
        self.died = (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError)
        stored = self.ray.get(self.actors[0].stored_type.remote())
        super().__init__(int(self.starts[-1]), shards[0].width, np.dtype(stored))
        self._rows: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()
        self.sample: tuple[np.ndarray, np.ndarray] | None = None  # of `DriverSample`

    def __repr__(self) -> str:
        return f"ShardedFeatures({self.shape[0]:,} x {self.shape[1]}, {len(self.actors)} actors)"

    def __getitem__(self, key: Any) -> Any:
        """Return rows; the slice of all rows is this object, and fetches nothing."""
        if isinstance(key, slice) and key.indices(len(self)) == (0, len(self), 1):
            return self
        return super().__getitem__(key)

    def close(self) -> None:
        """Stop the actors."""
        for actor in self.actors:
            self.ray.kill(actor)

    def parts(self, idx: np.ndarray) -> list[np.ndarray]:
        """Return for each actor the positions in idx of its instances."""
        owner = np.searchsorted(self.starts, idx, side="right") - 1
        return [np.flatnonzero(owner == part) for part in range(len(self.actors))]

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return rows (n, d), from the driver's cache where it has them; few new ones are cached."""
        idx = np.asarray(idx, np.int64).reshape(-1)
        with self._lock:
            cached = {i: self._rows[i] for i in idx.tolist() if i in self._rows}
        missing = np.asarray([i for i in dict.fromkeys(idx.tolist()) if i not in cached], np.int64)
        if len(missing) == len(idx) > TOO_MANY:
            return self.fetch(idx).astype(dtype, copy=False)
        cached |= zip(missing.tolist(), self.fetch(missing), strict=True)
        if len(missing) <= TOO_MANY:
            with self._lock:
                self._rows |= {i: cached[i] for i in missing.tolist()}
                while len(self._rows) > CACHED:  # the oldest go
                    del self._rows[next(iter(self._rows))]
        return np.asarray([cached[i] for i in idx.tolist()], dtype).reshape(len(idx), self.shape[1])

    def fetch(self, idx: np.ndarray) -> np.ndarray:
        """Return rows from the actors, as they are stored."""
        out = np.empty((len(idx), self.shape[1]), self.stored)
        asked = [(part, at) for part, at in enumerate(self.parts(idx)) if len(at)]
        calls = [partial(self.actors[part].raw.remote, idx[at] - self.starts[part]) for part, at in asked]
        for (_, at), rows in zip(asked, self.insist(calls), strict=True):
            out[at] = rows
        return out

    def insist(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return the answers to calls; an actor that has died is called again until Ray has restarted it."""
        end, refs = time.monotonic() + PATIENCE, [call() for call in calls]
        return [self._answer(call, ref, end) for call, ref in zip(calls, refs, strict=True)]

    def _answer(self, call: Callable[[], Any], ref: Any, end: float) -> Any:
        told = False
        while True:
            try:
                return self.ray.get(ref)
            except self.died as error:
                if time.monotonic() > end:
                    raise EverylabelError(
                        f"an actor did not restart within {PATIENCE:.0f} s ({error}); expected nodes with "
                        "enough memory for its shards"
                    ) from error
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from None
            if not told:
                logger.warning("an actor with shards has died; waiting until Ray has restarted it")
                told = True
            time.sleep(AGAIN)
            ref = call()
