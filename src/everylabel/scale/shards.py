"""A folder of shards: files with rows of features, in the order of their names, here or elsewhere by fsspec.

part-000000.npy         rows of features
part-000000.parquet     a row each, the features in a column of that name (lists of one length)
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import IO, Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, listed, need
from everylabel.core.files import NO_ARRAY
from everylabel.scale import filesystem
from everylabel.scale.manifest import SHARDS, Manifest, finished_shards, read_manifest

COLUMN = "features"
OPEN = 64  # files that stay open
ENDINGS = (".npy", ".parquet")


class Shard(NamedTuple):
    """One file: its place, and how many rows of how many numbers it has."""

    place: str
    rows: int
    width: int


def find_shards(folder: str) -> list[Shard]:
    """Return the shards of a folder in their order; refuse what cannot be one pool.

    They are those that its manifest names, or all files where it has none.
    """
    if not filesystem.is_folder(folder):
        raise EverylabelError(f"folder {folder!r} is not there; expected a folder of shards")
    home = filesystem.absolute(folder)  # workers are elsewhere
    manifest = read_manifest(home)
    if manifest is not None and manifest.ending == SHARDS:
        return shards_of(finished_shards(home))
    names = filesystem.list_files(folder)
    kinds = {ending: [name for name in names if name.endswith(ending)] for ending in ENDINGS}
    found = [some for some in kinds.values() if some]
    if len(found) != 1:
        what = "no .npy or .parquet file" if not found else ".npy and .parquet files"
        raise EverylabelError(f"folder {folder!r} holds {what}; expected the shards of one pool, of one kind")
    return _of_one_model(folder, [shard_of(filesystem.inside(home, name)) for name in found[0]])


def shards_of(manifest: Manifest) -> list[Shard]:
    """Return the shards that a manifest names; refuse one that has not the rows that it says."""
    shards = [shard_of(manifest.place(part)) for part in manifest.parts]
    for shard, part in zip(shards, manifest.parts, strict=True):
        if shard.rows != part.rows:
            raise EverylabelError(
                f"shard {shard.place!r} has {shard.rows:,} rows; expected {part.rows:,}, as the manifest "
                "beside it says: run the everylabel embed command that made it once more"
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
    """Return the rows of some shards: of a single file of this machine mapped, else in memory."""
    parts = [_rows(file) for file in files]
    if len(parts) == 1:
        return parts[0]
    whole = np.empty((sum(len(part) for part in parts), parts[0].shape[1]), parts[0].dtype)
    at = 0
    while parts:  # each is let go of once it is copied
        part = parts.pop(0)
        whole[at : at + len(part)] = part
        at += len(part)
    return whole


def shared_out(shards: Sequence[Shard], n: int) -> list[list[Shard]]:
    """Return the shards as n stretches of about as many rows; fewer if there are fewer shards."""
    n = min(n, len(shards))
    total, sizes = sum(shard.rows for shard in shards), np.cumsum([shard.rows for shard in shards])
    middles = sizes - np.asarray([shard.rows for shard in shards]) / 2
    owner = np.minimum((middles * n / max(total, 1)).astype(int), n - 1)
    return [some for i in range(n) if (some := [s for s, o in zip(shards, owner, strict=True) if o == i])]


def shard_of(place: str) -> Shard:
    """Return what a file holds, without reading its rows."""
    try:
        with filesystem.opened(place) as file:
            if place.endswith(".parquet"):
                about = _parquet().ParquetFile(file)
                first = next(about.iter_batches(1, columns=[COLUMN])).column(0)[0]
                return Shard(place, int(about.metadata.num_rows), len(first))
            n, d = _header(file)[0]
            if n < 0 or d < 1:
                raise ValueError(f"its shape is {n} x {d}")
            return Shard(place, int(n), int(d))
    except (*NO_ARRAY, KeyError, TypeError, StopIteration) as error:
        raise _no_shard(place, error) from error


def damage(place: str, rows: int, dtype: str) -> str:
    """Return what is wrong with a shard of so many rows, by its header and its size; "" if nothing."""
    try:
        with filesystem.opened(place) as file:
            (n, d), _, kind = _header(file)
            size = file.tell() + n * d * kind.itemsize
    except (*NO_ARRAY, TypeError):
        return "no header"
    if (n, kind) != (rows, np.dtype(dtype)):
        return f"{n:,} rows of {kind}, not {rows:,} of {dtype}"
    there = filesystem.stamp(place).size
    return "" if there == size else f"{there:,} of {size:,} bytes"


def _header(file: IO[bytes]) -> Any:
    """Return shape, order and type of the array in a .npy file that is read from its start."""
    version = np.lib.format.read_magic(file)
    read: Any = np.lib.format.read_array_header_1_0
    return (np.lib.format.read_array_header_2_0 if version > (1, 0) else read)(file)


def _rows(place: str) -> np.ndarray:
    try:
        if place.endswith(".parquet"):
            with filesystem.opened(place) as file:
                column = _parquet().read_table(file, columns=[COLUMN]).column(0).combine_chunks()
            flat = column.flatten().to_numpy(zero_copy_only=False)
            return flat.reshape(len(column), -1)
        if not filesystem.is_remote(place):
            mapped: np.ndarray = np.load(place, mmap_mode="r", allow_pickle=False)
            return mapped
        with filesystem.opened(place) as file:
            read: np.ndarray = np.load(file, allow_pickle=False)
            return read
    except (*NO_ARRAY, KeyError) as error:
        raise _no_shard(place, error) from error


_parquet = partial(need, "pyarrow.parquet", "ray", "a shard in Parquet")


def _no_shard(place: str, error: BaseException) -> EverylabelError:
    return EverylabelError(
        f"shard {place!r} holds no rows of features ({error}); run the command that made it once more"
    )


class MappedShards:
    """Rows (n, d) of shards that stay in their files, those of this machine mapped: read when asked for."""

    ndim = 2

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._starts = np.cumsum([0, *(shard.rows for shard in shards)])
        self.shape = int(self._starts[-1]), shards[0].width
        self.size = self.shape[0] * self.shape[1]
        self._load = lru_cache(OPEN)(lambda number: load([shards[number].place]))
        self.dtype = np.dtype(np.float64 if self._load(0).dtype == np.float64 else np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __getitem__(self, key: Any) -> np.ndarray:
        """Return rows; one (d,) for a number."""
        if isinstance(key, int | np.integer):
            return self[[int(key)]][0]
        idx = np.arange(*key.indices(len(self))) if isinstance(key, slice) else np.asarray(key, np.int64)
        out = np.empty((len(idx), self.shape[1]), self.dtype)
        owner = np.searchsorted(self._starts, idx, side="right") - 1
        for number in np.unique(owner).tolist():
            at = owner == number
            out[at] = self._load(number)[idx[at] - self._starts[number]]
        return out
