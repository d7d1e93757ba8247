"""A folder of shards: .npy files with rows of features, in the order of their names, on any fsspec store."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.core.files import NO_ARRAY
from everylabel.scale import filesystem
from everylabel.scale.manifest import SHARDS, Manifest, finished_shards, read_manifest

OPEN = 64  # files kept open


class Shard(NamedTuple):
    """One file: its place, and the shape and type of its rows."""

    place: str
    rows: int
    width: int
    dtype: np.dtype


def find_shards(folder: str) -> list[Shard]:
    """Return the shards of a folder in order: those of its manifest, or without one all .npy files."""
    home = filesystem.absolute(folder)  # workers have another working directory
    manifest = read_manifest(home)
    if manifest is not None and manifest.ending == SHARDS:
        return shards_of(finished_shards(home))
    names = [name for name in filesystem.list_files(home) if name.endswith(SHARDS)]
    if not names:
        raise EverylabelError(f"folder {folder!r} holds no .npy file; expected the shards of a pool")
    shards = [shard_of(filesystem.inside(home, name)) for name in names]
    if len(widths := {shard.width for shard in shards}) > 1:
        raise EverylabelError(
            f"the shards of {folder!r} have {listed([str(width) for width in sorted(widths)])} features; "
            "expected rows of one model"
        )
    return shards


def shards_of(manifest: Manifest) -> list[Shard]:
    """Return the shards that a manifest names, or raise if one has another number of rows."""
    shards = [shard_of(manifest.place(part)) for part in manifest.parts]
    for shard, part in zip(shards, manifest.parts, strict=True):
        if shard.rows != part.rows:
            raise _no_shard(shard.place, f"it has {shard.rows:,} rows, and its manifest says {part.rows:,}")
    return shards


def load(shards: Sequence[Shard]) -> np.ndarray:
    """Return the rows of some shards: memory-mapped for one file of this machine, else in memory."""
    if len(shards) == 1:
        return _rows(shards[0].place)
    whole = np.empty((sum(shard.rows for shard in shards), shards[0].width), shards[0].dtype)
    at = 0
    for shard in shards:
        whole[at : at + shard.rows] = _rows(shard.place)
        at += shard.rows
    return whole


def shared_out(shards: Sequence[Shard], n: int) -> list[list[Shard]]:
    """Split shards into at most n consecutive groups of about the same size."""
    n = min(n, len(shards))
    bounds = np.linspace(0, len(shards), n + 1).round().astype(int)
    return [list(shards[a:b]) for a, b in pairwise(bounds.tolist())]


def shard_of(place: str) -> Shard:
    """Return the shape and type of a file's rows, without reading them."""
    try:
        with filesystem.opened(place) as file:
            version = np.lib.format.read_magic(file)
            read: Any = np.lib.format.read_array_header_1_0
            if version > (1, 0):
                read = np.lib.format.read_array_header_2_0
            (n, d), _, dtype = read(file)
            return Shard(place, int(n), int(d), dtype)
    except NO_ARRAY as error:
        raise _no_shard(place, error) from error


def _rows(place: str) -> np.ndarray:
    try:
        if not filesystem.is_remote(place):
            return np.load(place, mmap_mode="r", allow_pickle=False)
        with filesystem.opened(place) as file:
            return np.load(file, allow_pickle=False)
    except NO_ARRAY as error:
        raise _no_shard(place, error) from error


def _no_shard(place: str, why: object) -> EverylabelError:
    return EverylabelError(
        f"shard {place!r} cannot be used ({why}); delete it, and run the everylabel embed command that made "
        "it again"
    )


class RowsOnDemand:
    """Rows (n, d) that are read when they are asked for, and indexed as an array; `rows` reads them."""

    ndim = 2

    def __init__(self, n: int, like: Shard) -> None:
        self.shape, self.size, self.stored = (n, like.width), n * like.width, like.dtype
        self.dtype = np.dtype(np.float64 if like.dtype == np.float64 else np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.rows(np.arange(len(self)), self.dtype if dtype is None else dtype)

    def __getitem__(self, key: Any) -> Any:
        """Return rows; a row (d,) for a number."""
        if isinstance(key, int | np.integer):
            return self[[int(key)]][0]
        return self.rows(np.arange(*key.indices(len(self))) if isinstance(key, slice) else key, self.dtype)

    def rows(self, idx: Any, dtype: Any) -> np.ndarray:
        """Return rows (n, d)."""
        raise NotImplementedError


class MappedShards(RowsOnDemand):
    """Rows of shards that stay in their files, which are memory-mapped if they are on this machine."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._starts = np.cumsum([0, *(shard.rows for shard in shards)])
        self._load = lru_cache(OPEN)(lambda number: load([shards[number]]))
        super().__init__(int(self._starts[-1]), shards[0])

    def rows(self, idx: Any, dtype: Any) -> np.ndarray:
        idx = np.asarray(idx, np.int64)
        out = np.empty((len(idx), self.shape[1]), dtype)
        owner = np.searchsorted(self._starts, idx, side="right") - 1
        for number in np.unique(owner).tolist():
            at = owner == number
            out[at] = self._load(number)[idx[at] - self._starts[number]]
        return out
