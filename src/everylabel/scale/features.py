"""Features in a folder of shards, held by actors of a Ray cluster; the driver fetches rows.

Each actor holds consecutive shards. Ray restarts an actor that dies, on another node if need be, and it reads
its files again. The driver caches rows that were fetched a few at a time, so that the label of an item on the
page can be learned while its actor is away.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.scale.cluster import connect
from everylabel.scale.shards import RowsOnDemand, find_shards, shared_out
from everylabel.scale.worker import Worker

CACHED = 20_000  # rows that the driver keeps
TOO_MANY = 2_000  # rows fetched at once that are not cached
PATIENCE = 300.0  # seconds for an actor to restart, when no other can answer
AGAIN = 0.2  # seconds between attempts
BACKGROUND = "background"  # the thread of an actor that computes the logits of a retrained model


class ShardedFeatures(RowsOnDemand):
    """Rows (n, d) of a folder of shards, by actors of a Ray cluster.

    Parameters
    ----------
    folder : str
        Of .npy or Parquet files, on this machine or at an address that fsspec knows; all nodes must reach it.
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
        """Return rows (n, d), from the driver's cache where it has them."""
        idx = np.asarray(idx, np.int64).reshape(-1)
        out, missing = np.empty((len(idx), self.shape[1]), dtype), list[int]()
        with self._lock:
            for at, i in enumerate(idx.tolist()):
                if i in self._rows:
                    out[at] = self._rows[i]
                else:
                    missing.append(at)
        if missing:
            there, fetched = self.fetch(idx[missing])
            out[missing] = fetched
            if len(missing) <= TOO_MANY:
                self.cache(there, fetched)
        return out

    def cache(self, idx: np.ndarray, rows: np.ndarray) -> None:
        """Keep rows at the driver; the oldest beyond `CACHED` are dropped."""
        with self._lock:
            for i, row in zip(idx.tolist(), rows, strict=True):
                self._rows.pop(i, None)
                self._rows[i] = row
            while len(self._rows) > CACHED:
                del self._rows[next(iter(self._rows))]

    def fetch(self, idx: np.ndarray, wait: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return instances and their rows as they are stored; without `wait`, those of live actors only."""
        out, there = np.empty((len(idx), self.shape[1]), self.stored), np.ones(len(idx), bool)
        asked = [
            (at, call, call())
            for actor, start, at in zip(self.actors, self.starts, self.parts(idx), strict=False)
            if len(at) and (call := partial(actor.raw.remote, idx[at] - start))
        ]
        for at, call, ref in asked:
            try:
                out[at] = self.insist(call, ref) if wait else self.ray.get(ref)
            except self.died:
                there[at] = False
        return idx[there], out[there]

    def insist(self, call: Callable[[], Any], ref: Any = None) -> Any:
        """Return the answer to `ref`, or to a new call; call again while Ray restarts the actor."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ray.get(call() if ref is None else ref)
            except self.died as error:
                ref = None
                if time.monotonic() > end:
                    raise EverylabelError(
                        f"an actor did not restart within {PATIENCE:.0f} s ({error}); expected nodes with "
                        "enough memory for its shards"
                    ) from error
                time.sleep(AGAIN)
