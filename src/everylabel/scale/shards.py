"""A folder of shards: .npy files with rows of features, in the order of their names, on any fsspec store."""

from collections.abc import Sequence
from functools import lru_cache
from typing import IO, Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.core.files import NO_ARRAY
from everylabel.scale import filesystem
from everylabel.scale.manifest import SHARDS, Manifest, finished_shards, read_manifest

OPEN = 64  # files kept open


class Shard(NamedTuple):
    """One file: its place, and the shape of its rows."""

    place: str
    rows: int
    width: int


def find_shards(folder: str) -> list[Shard]:
    """Return the shards of a folder in order, or raise if they cannot be one pool.

    A manifest names the shards; without one, all files are shards.
    """
    if not filesystem.is_folder(folder):
        raise EverylabelError(f"folder {folder!r} is not there; expected a folder of shards")
    home = filesystem.absolute(folder)  # workers have another working directory
    manifest = read_manifest(home)
    if manifest is not None and manifest.ending == SHARDS:
        return shards_of(finished_shards(home))
    names = filesystem.list_files(folder)
    names = [name for name in names if name.endswith(SHARDS)]
    if not names:
        raise EverylabelError(f"folder {folder!r} holds no .npy file; expected the shards of a pool")
    return _of_one_model(folder, [shard_of(filesystem.inside(home, name)) for name in names])


def shards_of(manifest: Manifest) -> list[Shard]:
    """Return the shards that a manifest names, or raise if one has another number of rows."""
    shards = [shard_of(manifest.place(part)) for part in manifest.parts]
    for shard, part in zip(shards, manifest.parts, strict=True):
        if shard.rows != part.rows:
            raise EverylabelError(
                f"shard {shard.place!r} has {shard.rows:,} rows; expected {part.rows:,}, as the manifest "
                "beside it says: delete it, and run the everylabel embed command that made it again"
            )
    return _of_one_model(manifest.folder, shards)


def _of_one_model(folder: str, shards: list[Shard]) -> list[Shard]:
    widths = {shard.width for shard in shards}
    if len(widths) > 1:
        raise EverylabelError(
            f"the shards of {folder!r} have {listed([str(width) for width in sorted(widths)])} features; "
            "expected rows of one model"
        )
    return shards


def load(files: Sequence[str]) -> np.ndarray:
    """Return the rows of some shards: memory-mapped for one file of this machine, else in memory."""
    parts = [_rows(file) for file in files]
    if len(parts) == 1:
        return parts[0]
    whole = np.empty((sum(len(part) for part in parts), parts[0].shape[1]), parts[0].dtype)
    at = 0
    while parts:  # each is freed once it is copied
        part = parts.pop(0)
        whole[at : at + len(part)] = part
        at += len(part)
    return whole


def shared_out(shards: Sequence[Shard], n: int) -> list[list[Shard]]:
    """Split shards into at most n consecutive groups with about the same number of rows."""
    n = min(n, len(shards))
    total, sizes = sum(shard.rows for shard in shards), np.cumsum([shard.rows for shard in shards])
    middles = sizes - np.asarray([shard.rows for shard in shards]) / 2
    owner = np.minimum((middles * n / max(total, 1)).astype(int), n - 1)
    return [some for i in range(n) if (some := [s for s, o in zip(shards, owner, strict=True) if o == i])]


def shard_of(place: str) -> Shard:
    """Return the shape of a file's rows, without reading them."""
    try:
        with filesystem.opened(place) as file:
            n, d = _header(file)[0]
            if n < 0 or d < 1:
                raise ValueError(f"its shape is {n} x {d}")
            return Shard(place, int(n), int(d))
    except (*NO_ARRAY, TypeError) as error:
        raise _no_shard(place, error) from error


def _header(file: IO[bytes]) -> Any:
    """Return shape, order and type of the array in an open .npy file."""
    version = np.lib.format.read_magic(file)
    read: Any = np.lib.format.read_array_header_1_0
    return (np.lib.format.read_array_header_2_0 if version > (1, 0) else read)(file)


def _rows(place: str) -> np.ndarray:
    try:
        if not filesystem.is_remote(place):
            mapped: np.ndarray = np.load(place, mmap_mode="r", allow_pickle=False)
            return mapped
        with filesystem.opened(place) as file:
            read: np.ndarray = np.load(file, allow_pickle=False)
            return read
    except NO_ARRAY as error:
        raise _no_shard(place, error) from error


def _no_shard(place: str, error: BaseException) -> EverylabelError:
    return EverylabelError(
        f"shard {place!r} holds no rows of features ({error}); delete it, and run the command that made it "
        "again"
    )


class RowsOnDemand:
    """Rows (n, d) that are read when they are asked for, and indexed as an array; `rows` reads them."""

    ndim = 2

    def __init__(self, n: int, width: int, stored: np.dtype) -> None:
        self.shape, self.size, self.stored = (n, width), n * width, stored
        self.dtype = np.dtype(np.float64 if stored == np.float64 else np.float32)

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
        self._load = lru_cache(OPEN)(lambda number: load([shards[number].place]))
        super().__init__(int(self._starts[-1]), shards[0].width, self._load(0).dtype)

    def rows(self, idx: Any, dtype: Any) -> np.ndarray:
        idx = np.asarray(idx, np.int64)
        out = np.empty((len(idx), self.shape[1]), dtype)
        owner = np.searchsorted(self._starts, idx, side="right") - 1
        for number in np.unique(owner).tolist():
            at = owner == number
            out[at] = self._load(number)[idx[at] - self._starts[number]]
        return out
