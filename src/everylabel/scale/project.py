"""A folder of shards as a project: items are row numbers, shown by the source's rows.

Nothing here takes memory in proportion to the pool: ids are computed, texts are read on demand, and the
features are at the actors of a Ray cluster, in memory if they fit, or in their files.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core import files
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.data.cells import text_of
from everylabel.data.classes import UNLABELLED
from everylabel.data.digests import spread
from everylabel.data.display import SHORT, Display, Pictures, Texts
from everylabel.data.display import Rows as RowNumbers
from everylabel.data.items import Items, Numbered, Options
from everylabel.data.readers.rows import check_columns
from everylabel.data.readers.table import named_ids
from everylabel.labelling.model.training import FeatureTable
from everylabel.projects.project import Reader
from everylabel.scale import filesystem
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.manifest import Manifest, finished_shards, is_changed
from everylabel.scale.pool import ShardPool
from everylabel.scale.shards import MappedShards, Shard, load, shards_of
from everylabel.scale.sources import Source, files_of, open_source

LOOKED_AT = 8  # rows of each shard in its digest
BLOCK, BLOCKS = 64, 64  # rows of the source read together, and the number of blocks cached


def on_ray(address: str) -> Reader:
    """Return a reader of shards with features at the actors of a cluster."""
    return _reader(lambda folder, shards: ShardedFeatures(folder, address))


def in_memory() -> Reader:
    """Return a reader of shards with features in memory; it raises if they do not fit."""
    return _reader(_loaded)


def in_files() -> Reader:
    """Return a reader of shards with features in their files, for commands that need a few rows."""
    return _reader(lambda folder, shards: MappedShards(shards), with_columns=True)


def _loaded(folder: str, shards: list[Shard]) -> np.ndarray:
    size = sum(filesystem.stamp(shard.place).size for shard in shards)
    if size > files.MEMORY_SHARE * files.total_memory():
        raise EverylabelError(
            f"shards {folder!r} hold {size / 2**30:.1f} GB of features, too much for this machine's memory; "
            "expected --ray auto with a Ray cluster whose machines hold them together (or --ray local: this "
            "machine alone, with the files mapped)"
        )
    return load(shards)


def _reader(features: Callable[[str, list[Shard]], Any], with_columns: bool = False) -> Reader:
    """Return a reader; with_columns: exports get the source's own columns and ids."""

    def read(where: str, options: Options) -> Items:
        manifest = finished_shards(where)
        shards = shards_of(manifest)
        n = sum(shard.rows for shard in shards)
        source, why = _source(manifest, options)
        if source is not None and (named := named_ids(options.id_column)) is not None:
            check_columns(source.place, list(source.types()), [named])
        ids = Numbered(n)
        content, display = (ids, RowNumbers(ids)) if source is None else _shown(source, ids)
        return Items(
            items=content,
            kind="features" if source is None else source.kind,
            ids=ids,
            labels=np.broadcast_to(np.int8(UNLABELLED), n),  # takes no memory
            classes=() if options.classes is None else options.classes,
            features=features(where, shards),
            display=display,
            digests=(_digest(manifest, shards),),
            notes=(why,) if why else (),
            **(_beside(source, options) if with_columns and source is not None else {}),
        )

    return read


def _digest(manifest: Manifest, shards: list[Shard]) -> str:
    """Return a digest of the options and source files of shards, their sizes, and some rows."""
    known = dict(manifest.about), [one.digest for one in manifest.files], [(s.rows, s.width) for s in shards]
    found = hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8)
    starts = np.cumsum([0, *(shard.rows for shard in shards)])
    some = [spread(a, b, LOOKED_AT) for a, b in pairwise(starts.tolist())]
    found.update(MappedShards(shards)[np.concatenate(some)].tobytes())
    return found.hexdigest()


def _beside(source: Source, options: Options) -> dict[str, Any]:
    """Return the source's columns, and its own ids if their column was named; cells are read on demand."""
    columns = {name: SourceColumn(source, name, kind) for name, kind in source.types().items()}
    named = named_ids(options.id_column)
    if named is None:
        return {"columns": columns}
    own = SourceColumn(source, named, str, lambda value: text_of(value).strip())
    return {"columns": columns, "own_ids": own, "id_column": named}


def _shown(source: Source, ids: Numbered) -> tuple[Any, Display]:
    """Return the content of the rows, and its display."""
    cells = SourceColumn(source, source.column, str, source.item)
    return cells, Texts(cells) if source.kind == "text" else SourceImages(cells, ids, folder=source.base)


def _source(manifest: Manifest, options: Options) -> tuple[Source | None, str]:
    """Return the source of shards, or None and a note that says why and what to do."""
    place = options.show or manifest.source
    try:
        if options.show is None and filesystem.is_remote(place):  # a stranger's manifest may name any address
            why = "is in another store, which you have not named"
        elif filesystem.is_file(place) or filesystem.is_folder(place):
            return _opened(place, manifest, options), ""
        else:
            why = "does not exist"
    except OSError as error:
        why = f"cannot be read ({error.strerror or error})"
    return None, f"the source {place!r} {why}; items are shown by their row: name it by --show"


def _opened(place: str, manifest: Manifest, options: Options) -> Source:
    """Return the source, or raise if the shards were made from another one.

    A forged manifest could name a private file, but its author cannot know the content of that file. Of a
    source that the user names, only the sizes are compared.
    """
    files, about = files_of(place), manifest.about
    pairs = zip(files, manifest.files, strict=False)
    changed = any(is_changed(file, was, content=options.show is None) for file, was in pairs)
    if changed or len(files) != len(manifest.files):
        raise EverylabelError(
            f"{place!r} is not the source of the shards {manifest.folder!r}; expected the file that they "
            f"were made from, {filesystem.base_name(manifest.source)}: put it back, or name it by --show FILE"
        )
    filesystem.opened(files[0]).close()  # raises without permission to read
    how = Options(
        options.text_column or about.get("--text-column"),
        options.image_column or about.get("--image-column"),
        encoding=about.get("--encoding"),
        long_rows=about.get("--long-rows"),
    )
    source = open_source(place, how, manifest.folder)
    source.convert()  # shards of versions up to 0.2 have no copy of the rows
    return source.with_rows(manifest)


class SourceColumn(Sequence[Any]):
    """One column of a source, read on demand in blocks of rows, with values converted to a known type."""

    def __init__(
        self, source: Source, name: str, kind: type, convert: Callable[[Any], Any] | None = None
    ) -> None:
        self.type, self._n, self._convert = kind, sum(source.rows), convert
        self._block = lru_cache(BLOCKS)(lambda at: [value for (value,) in source.read([name], at, BLOCK)])

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, at: Any) -> Any:
        i = range(self._n)[at]
        if isinstance(i, range):
            return [self[each] for each in i]
        value = self._block(i - i % BLOCK)[i % BLOCK]
        return value if self._convert is None else self._convert(value)


@dataclass(frozen=True, eq=False)
class SourceImages(Pictures):
    """Images of a source, by path or as bytes; a path outside of its folder is not shown."""

    folder: Path = Path()

    def home(self) -> Path:
        return self.folder

    def text(self, i: int) -> str:
        file = self.file(i)
        return f"row {i}" if file is None else file.name[:SHORT]


class ShardTable(FeatureTable):
    """The features of a project in shards, by row number, never copied."""

    features: Any

    def __init__(self, features: ShardedFeatures) -> None:
        super().__init__(Numbered(len(features)), features)  # type: ignore[arg-type]

    @staticmethod
    def make_pool(features: Any, posterior: Posterior, known: Mapping[str, Any], exact: bool) -> ShardPool:
        """Return a pool over shards; it learns by one step, not exactly."""
        return ShardPool(features, posterior.replace(data=None), step_size="auto", **known)

    def scales_lazily(self, n: int) -> bool:
        return True

    def close(self) -> None:
        """Stop the actors."""
        self.features.close()
