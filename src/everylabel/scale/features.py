"""Features in a folder of shards, held by actors of a Ray cluster; the driver fetches rows.

Each actor holds consecutive shards. Ray restarts an actor that dies, on another node if need be, where it
reads its files again, and repeats the calls that it has not answered. The driver caches rows, such as those
of labelled items.
"""

import threading
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.scale.cluster import connect
from everylabel.scale.shards import RowsOnDemand, find_shards, shared_out
from everylabel.scale.worker import Worker

CACHED = 20_000  # rows that the driver keeps
PATIENCE = 300.0  # seconds for an actor to restart and answer
BACKGROUND = "background"  # the thread of an actor that computes the logits of a retrained model


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
        how: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "num_cpus": 0.01}
        kind: Any = self.ray.remote(**how, concurrency_groups={BACKGROUND: 1})(Worker)
        self.actors = [kind.options(scheduling_strategy="SPREAD").remote(some) for some in stretches]
        super().__init__(int(self.starts[-1]), shards[0])
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
        if len(idx) > CACHED:
            return self.fetch(idx).astype(dtype, copy=False)
        with self._lock:
            missing = [i for i in dict.fromkeys(idx.tolist()) if i not in self._rows]
            self._rows |= zip(missing, self.fetch(np.asarray(missing, np.int64)), strict=True)
            found = np.asarray([self._rows[i] for i in idx.tolist()], dtype)
            while len(self._rows) > CACHED:  # the oldest go
                del self._rows[next(iter(self._rows))]
        return found.reshape(len(idx), self.shape[1])

    def fetch(self, idx: np.ndarray) -> np.ndarray:
        """Return rows from the actors, as they are stored."""
        out = np.empty((len(idx), self.shape[1]), self.stored)
        asked = [(part, at) for part, at in enumerate(self.parts(idx)) if len(at)]
        calls = [self.actors[part].raw.remote(idx[at] - self.starts[part]) for part, at in asked]
        for (_, at), rows in zip(asked, self.answers(calls), strict=True):
            out[at] = rows
        return out

    def answers(self, calls: list[Any]) -> list[Any]:
        """Return the answers to calls of actors; wait for actors that are restarted."""
        _, late = self.ray.wait(calls, num_returns=len(calls), timeout=PATIENCE) if calls else ([], [])
        if late:
            raise EverylabelError(
                f"an actor with shards has not answered within {PATIENCE:.0f} s; expected nodes with enough "
                "memory for their shards"
            )
        try:
            return self.ray.get(calls)
        except self.ray.exceptions.RayTaskError as error:  # our own error, without Ray's wrapper
            raise error.cause from None
