"""Features in the shards of a folder, as the driver sees them: an array whose rows can be fetched.

Each stretch of shards is held by an actor; Ray restarts an actor that dies, on another node if need be, and
it reads its files again. The driver caches rows that were fetched a few at a time, so that the label of an
instance on the page can be learned while its actor is away.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.scale.cluster import connect
from everylabel.scale.shards import find_shards, shared_out
from everylabel.scale.worker import Worker

CACHED = 20_000  # rows that the driver keeps
TOO_MANY = 2_000  # rows fetched at once that are not cached
PATIENCE = 300.0  # seconds that an actor has to come back in, when nobody else can answer
AGAIN = 0.2  # seconds between attempts
BESIDE = "beside"  # the thread of an actor that computes the logits of a new model, while labels go on


class ShardedFeatures:
    """Rows (n, d) of a folder of shards, by actors of a Ray cluster.

    Parameters
    ----------
    folder : str
        Of .npy or Parquet files, here or anywhere that fsspec reaches; all nodes have to.
    ray : str
        The cluster: "auto", "local" or an address; see `cluster.connect`.
    actors : int, optional
        How many hold the shards; one a core of the cluster unless given, and at most one a shard.

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

    ndim = 2
    pool = "everylabel.scale.ShardPool"  # that chooses from them; any other would fetch them all

    def __init__(self, folder: str, ray: str = "auto", actors: int | None = None) -> None:
        self.ray = connect(ray)
        shards = find_shards(folder)
        cores = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        stretches = shared_out(shards, cores if actors is None else actors)
        self.starts = np.cumsum([0, *(sum(shard.rows for shard in some) for some in stretches)])
        self.shape = int(self.starts[-1]), shards[0].width
        how: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "num_cpus": 0.01}
        kind: Any = self.ray.remote(**how, concurrency_groups={BESIDE: 1})(Worker)
        self.actors = [
            kind.options(scheduling_strategy="SPREAD").remote([shard.place for shard in some])
            for some in stretches
        ]
        errors = self.ray.exceptions
        self.died = (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError)  # asked again
        self.stored = np.dtype(self.ray.get(self.actors[0].about.remote()))
        self._rows: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        self.sample: tuple[np.ndarray, np.ndarray] | None = None  # of `DriverSample`

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ShardedFeatures({self.shape[0]:,} x {self.shape[1]}, {len(self.actors)} actors)"

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64 if self.stored == np.float64 else np.float32)

    def __getitem__(self, key: Any) -> Any:
        """Return rows as the model sees them, without a bias; all of them in a slice are these features."""
        if isinstance(key, int | np.integer):
            return self[[int(key)]][0]
        if isinstance(key, slice):
            if key.indices(len(self)) == (0, len(self), 1):
                return self
            key = np.arange(*key.indices(len(self)))
        return self.rows(key, self.dtype.type)[:, : self.shape[1]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.rows(np.arange(len(self)), self.dtype if dtype is None else dtype)

    def close(self) -> None:
        """Stop the actors."""
        for actor in self.actors:
            self.ray.kill(actor)

    def parts(self, idx: np.ndarray) -> list[np.ndarray]:
        """Return, for each actor, where in idx its instances are."""
        owner = np.searchsorted(self.starts, idx, side="right") - 1
        return [np.flatnonzero(owner == part) for part in range(len(self.actors))]

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return the rows of some instances as they are stored; a few of them are cached."""
        idx = np.asarray(idx, np.int64).reshape(-1)
        with self._lock:
            found = {at: row for at, i in enumerate(idx.tolist()) if (row := self._rows.get(i)) is not None}
        missing = [at for at in range(len(idx)) if at not in found]
        out = np.empty((len(idx), self.shape[1]), dtype)
        for at, row in found.items():
            out[at] = row
        if missing:
            there, fetched = self.fetch(idx[missing])
            out[missing] = fetched
            if len(missing) <= TOO_MANY:
                self.cache(there, fetched)
        return out

    def cache(self, idx: np.ndarray, rows: np.ndarray) -> None:
        """Keep rows at the driver, the latest of them."""
        with self._lock:
            for i, row in zip(idx.tolist(), rows, strict=True):
                self._rows[i] = row
                self._rows.move_to_end(i)
            while len(self._rows) > CACHED:
                self._rows.popitem(last=False)

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

    def insist(self, again: Callable[[], Any], ref: Any = None) -> Any:
        """Return an actor's answer; call it again while Ray restarts it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ray.get(again() if ref is None else ref)
            except self.died as error:
                ref = None
                if time.monotonic() > end:
                    raise EverylabelError(
                        f"a part of the pool has not come back within {PATIENCE:.0f} s ({error}); expected "
                        "nodes with room for its shards"
                    ) from error
                time.sleep(AGAIN)
