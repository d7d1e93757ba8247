"""A folder of shards as a project: items are row numbers, shown by the source's rows.

Nothing here takes memory in proportion to the pool: ids are computed, texts are read on demand, and the
features are at the actors of a Ray cluster, in memory if they fit, or in their files.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core import files
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.data.cells import ReadColumn, text_of
from everylabel.data.classes import UNLABELLED
from everylabel.data.digests import bytes_digest, content_digest, spread
from everylabel.data.display import SHORT, Display, Texts, shown_item
from everylabel.data.display import Rows as RowNumbers
from everylabel.data.items import Items, Numbered, Options
from everylabel.data.media import Picture, shown_image
from everylabel.data.readers.rows import check_columns
from everylabel.data.readers.table import named_ids
from everylabel.labelling.model.training import Rows
from everylabel.projects.project import Reader
from everylabel.scale import filesystem
from everylabel.scale.cluster import connect
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.manifest import Manifest, difference, finished_shards
from everylabel.scale.pool import ShardPool
from everylabel.scale.shards import MappedShards, Shard, load, shards_of
from everylabel.scale.sources import Source, files_of, open_source

NAME_IT = "; items are shown by their row: name it by --show"
LOOKED_AT = 8  # rows of each shard in its digest
BLOCK, BLOCKS = 64, 64  # rows of the source read together, and the number of blocks cached


def on_ray(address: str, note: Callable[[str], Any] | None = None) -> Reader:
    """Return a reader of shards with features at the actors of a cluster; note(text) names the cluster."""

    def features(folder: str, shards: list[Shard]) -> ShardedFeatures:
        connect(address, note)
        return ShardedFeatures(folder, address)

    return _reader(features)


def in_memory() -> Reader:
    """Return a reader of shards with features in memory; it raises if they do not fit."""
    return _reader(_loaded)


def in_files() -> Reader:
    """Return a reader of shards with features in their files, for commands that need a few rows."""
    return _reader(lambda folder, shards: MappedShards(shards), with_columns=True)


def _loaded(folder: str, shards: list[Shard]) -> np.ndarray:
    there = files.total_memory()
    size = sum(filesystem.stamp(shard.place).size for shard in shards)
    if size > files.MEMORY_SHARE * there:
        raise EverylabelError(
            f"shards {folder!r} hold {size / 2**30:.1f} GB of features, and this machine has "
            f"{there / 2**30:.1f} GB; expected --ray auto with a Ray cluster whose machines "
            "hold them together (or --ray local: this machine alone, with the files mapped)"
        )
    return load([shard.place for shard in shards])


def _reader(features: Callable[[str, list[Shard]], Any], with_columns: bool = False) -> Reader:
    """Return a reader; with_columns: exports get the source's own columns and ids."""

    def read(where: str, options: Options) -> Items:
        manifest = finished_shards(where)
        shards = shards_of(manifest)
        n = sum(shard.rows for shard in shards)
        source, why = _source(manifest, options)
        if source is not None and (named := named_ids(options.id_column)) is not None:
            check_columns(source.place, list(source.types()), [named])
        content, kind, display, notes = _shown(source, why, n)
        return Items(
            items=content,
            kind=kind,
            ids=Numbered(n),
            labels=np.broadcast_to(np.int8(UNLABELLED), n),  # takes no memory
            classes=() if options.classes is None else options.classes,
            features=features(where, shards),
            display=display,
            digests=(_digest(manifest, shards),),
            notes=notes,
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
    columns, named = SourceColumns(source), named_ids(options.id_column)
    if named is None:
        return {"columns": columns}
    own = SourceColumn(columns, named, str, lambda value: text_of(value).strip())
    return {"columns": columns, "own_ids": own, "id_column": named}


def _shown(source: Source | None, why: str, n: int) -> tuple[Any, str, Display, tuple[str, ...]]:
    """Return the content of the rows, its kind, its display, and notes."""
    if source is None:
        ids = Numbered(n)
        return ids, "features", RowNumbers(ids), (why,)
    cells = SourceColumn(SourceColumns(source), source.column, str, source.item)
    if source.kind == "image":
        return cells, "image", SourceImages(cells, source.base), ()
    return cells, "text", Texts(cells), ()


def _source(manifest: Manifest, options: Options) -> tuple[Source | None, str]:
    """Return the source of shards, or None and a note that says why and what to do."""
    place = options.show or manifest.source
    if not place:
        return None, f"the manifest of {manifest.folder!r} names no source{NAME_IT} FILE"
    if options.show is None and filesystem.is_remote(place):  # a stranger's manifest may name any address
        why = f"the source {place!r} is in another store, which you have not named"
        return None, f"{why}{NAME_IT} {shlex.quote(place)}"
    try:
        if not filesystem.exists(place):
            return None, f"the source {place!r} is not there{NAME_IT} FILE"
        return _opened(place, manifest, options), ""
    except EverylabelError as error:
        if options.show is None:
            raise
        raise EverylabelError(
            f"--show {place!r} is not the source of the shards {manifest.folder!r} ({error}); expected the "
            f"file that they were made from, {filesystem.base_name(manifest.source) or 'as embed read it'}"
        ) from error
    except OSError as error:
        return None, f"the source {place!r} cannot be read ({error.strerror or error}){NAME_IT} FILE"


def _opened(place: str, manifest: Manifest, options: Options) -> Source:
    """Return the source, or raise if the shards were made from another one."""
    about: Mapping[str, Any] = manifest.about
    columns = (
        options.text_column or about.get("--text-column"),
        options.image_column or about.get("--image-column"),
    )
    how = Options(*columns, encoding=about.get("--encoding"), long_rows=about.get("--long-rows"))
    if options.show is None:
        _check_made_of(place, manifest)
    filesystem.opened(files_of(place)[0]).close()  # raises without permission to read
    source = open_source(place, how, manifest.folder)
    if [filesystem.stamp(file).size for file in source.files] != [one.size for one in manifest.files]:
        raise _another(place, manifest, "its size is different")
    source.convert()  # shards of versions up to 0.2 have no copy of the rows
    return source.with_rows(manifest)


def _check_made_of(place: str, manifest: Manifest) -> None:
    """Raise unless the source has the size and content that the manifest records.

    A forged manifest could name a private file, but its author cannot know the content of that file.
    """
    files = files_of(place)
    plain = filesystem.is_remote(place) or all(Path(file).is_file() for file in files)
    if not plain or len(files) != len(manifest.files):
        raise _another(place, manifest, "it has other files")
    for file, was in zip(files, manifest.files, strict=True):
        if found := difference(file, was):
            raise _another(place, manifest, f"its {found} is different")


def _another(place: str, manifest: Manifest, why: str) -> EverylabelError:
    return EverylabelError(
        f"source {place!r} is not the one that shards {manifest.folder!r} were made from: {why}; put the old "
        "one back, or name its place by --show FILE"
    )


class SourceColumns(Mapping[str, ReadColumn]):
    """The columns of a source, read in blocks of rows; a block has the columns in use."""

    def __init__(self, source: Source) -> None:
        self.source, self._types = source, source.types()
        self._taken: dict[str, int] = {}  # columns in use -> position in a row of a block
        self._block = lru_cache(BLOCKS)(lambda names, at: list(source.read(names, at, BLOCK)))

    def take(self, name: str) -> None:
        """Read this column with the others."""
        self._taken.setdefault(name, len(self._taken))

    def cell(self, name: str, row: int) -> Any:
        """Return one value of a column in use."""
        block = self._block(tuple(self._taken), row - row % BLOCK)
        if row % BLOCK >= len(block):
            raise EverylabelError(
                f"source {self.source.place!r} has no row {row:,}, which the manifest of its shards names; "
                "expected the file that they were made from: put it back, or name it by --show FILE"
            )
        return block[row % BLOCK][self._taken[name]]

    def __getitem__(self, name: str) -> ReadColumn:
        return SourceColumn(self, name, self._types[name])

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


class SourceColumn(ReadColumn):
    """One column, with values converted as they are read."""

    def __init__(
        self, columns: SourceColumns, name: str, kind: type, convert: Callable[[Any], Any] | None = None
    ) -> None:
        columns.take(name)
        self._columns, self._name, self.type, self._convert = columns, name, kind, convert

    def __len__(self) -> int:
        return sum(self._columns.source.rows)

    def at(self, i: int) -> Any:
        value = self._columns.cell(self._name, i)
        return value if self._convert is None else self._convert(value)


@dataclass(frozen=True, eq=False)
class SourceImages(Display):
    """Images of a source, by path or as bytes; a path outside of its folder is not shown."""

    images: Sequence[Any]
    folder: Path
    what = "an image"

    def item(self, i: int) -> dict[str, Any]:
        return shown_item(None, image=True)

    def picture(self, i: int) -> Picture:
        return shown_image(self.images[i], f"row {i}")

    def digest(self, i: int) -> str:
        image = self.images[i]
        return bytes_digest(image) if isinstance(image, bytes) else content_digest(image)

    def file(self, i: int) -> Path | None:
        image = self.images[i]
        return image if isinstance(image, Path) else None

    def home(self) -> Path:
        return self.folder

    def text(self, i: int) -> str:
        file = self.file(i)
        return f"row {i}" if file is None else file.name[:SHORT]


class ShardRows(Rows):
    """The features of a project in shards, by row number, never copied."""

    features: Any

    def __init__(self, features: ShardedFeatures) -> None:
        super().__init__(Numbered(len(features)), features)  # type: ignore[arg-type]

    @staticmethod
    def make_pool(features: Any, posterior: Posterior, known: Mapping[str, Any], exact: bool) -> ShardPool:
        """Return a pool over shards; it learns by one step, not exactly."""
        return ShardPool(features, posterior.replace(data=None), step_size="auto", **known)

    def add(self, ids: Sequence[str], features: np.ndarray) -> None:
        """Raise: shards do not grow."""
        raise EverylabelError("shards do not grow while they are labelled; put more rows into another folder")

    def is_folded(self, n: int) -> bool:
        return True

    def close(self) -> None:
        """Stop the actors."""
        self.features.close()
