"""A folder of shards as a project: rows known by their numbers, shown as the source has them.

Nothing of the size of the pool is made here: ids are computed, texts are read when they are asked for, and
the features are with the actors of a Ray cluster, in memory if they fit, or in their files.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core import room
from everylabel.core.errors import EverylabelError
from everylabel.data.classes import UNLABELLED
from everylabel.data.digests import spread
from everylabel.data.display import Display, Rows, Texts
from everylabel.data.items import Items
from everylabel.data.numbered import Numbered
from everylabel.data.options import Options
from everylabel.data.readers.ids import check_ids_there, named_ids
from everylabel.projects.project import Reader
from everylabel.scale import places
from everylabel.scale.cluster import connect
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.filed import FiledFeatures
from everylabel.scale.parted import Parted, finished_shards
from everylabel.scale.shards import Shard, load, shards_of
from everylabel.scale.shown import SourceCells, SourceColumns, SourceIds, SourceImages
from everylabel.scale.sources import Source, files_of, open_source

NAME_IT = "; items are shown by their row: name it by --show"
LOOKED_AT = 8  # rows of each shard, by which it is known again


def on_ray(address: str, note: Callable[[str], Any] | None = None) -> Reader:
    """Return a reader of shards whose features are with the actors of a cluster; note is told which it is."""

    def held(folder: str, shards: list[Shard]) -> ShardedFeatures:
        connect(address, note)
        return ShardedFeatures(folder, address)

    return _reader(held)


def in_memory() -> Reader:
    """Return a reader of shards whose features are copied into memory; refused if they do not fit."""
    return _reader(_loaded)


def in_files() -> Reader:
    """Return a reader of shards whose features stay in their files: for those that need a few rows."""
    return _reader(lambda folder, shards: FiledFeatures(shards), with_columns=True)


def _loaded(folder: str, shards: list[Shard]) -> np.ndarray:
    there = room.memory()
    size = sum(places.stamp(shard.place).size for shard in shards)
    if size > room.SHARE * there:
        raise EverylabelError(
            f"shards {folder!r} hold {size / 2**30:.1f} GB of features, and this machine has "
            f"{there / 2**30:.1f} GB; expected --ray auto with a Ray cluster whose machines "
            "hold them together (or --ray local: this machine alone, with the files mapped)"
        )
    return load([shard.place for shard in shards])


def _reader(features: Callable[[str, list[Shard]], Any], with_columns: bool = False) -> Reader:
    """Return a reader; with_columns: the source's own columns and ids go into exports."""

    def read(where: str, options: Options) -> Items:
        parted = finished_shards(where)
        shards = shards_of(parted)
        n = sum(shard.rows for shard in shards)
        source, why = _source(parted, options)
        if source is not None and (named := named_ids(options.id_column)) is not None:
            check_ids_there(Path(source.place), list(source.types()), named)
        content, kind, display, notes = _shown(parted, source, why, n)
        return Items(
            items=content,
            kind=kind,
            ids=Numbered(n),
            labels=np.broadcast_to(np.int8(UNLABELLED), n),  # no room is taken
            classes=() if options.classes is None else options.classes,
            features=features(where, shards),
            display=display,
            digests=(_digest(parted, shards),),
            notes=notes,
            **(_beside(parted, source, options) if with_columns and source is not None else {}),
        )

    return read


def _digest(parted: Parted, shards: list[Shard]) -> str:
    """Return what tells shards from others: what made them of what, their sizes, some rows of each."""
    known = dict(parted.about), [one.digest for one in parted.files], [(s.rows, s.width) for s in shards]
    found = hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8)
    starts = np.cumsum([0, *(shard.rows for shard in shards)])
    some = [spread(a, b, LOOKED_AT) for a, b in pairwise(starts.tolist())]
    found.update(FiledFeatures(shards)[np.concatenate(some)].tobytes())
    return found.hexdigest()


def _beside(parted: Parted, source: Source, options: Options) -> dict[str, Any]:
    """Return the source's columns, and its own ids if their column was named; all are read when asked for."""
    columns, named = SourceColumns(source, parted.parts), named_ids(options.id_column)
    if named is None:
        return {"columns": columns}
    return {"columns": columns, "own_ids": SourceIds(columns[named]), "id_column": named}


def _shown(
    parted: Parted, source: Source | None, why: str, n: int
) -> tuple[Any, str, Display, tuple[str, ...]]:
    """Return the content of the rows, its kind, how it is shown, and what is to be told."""
    if source is None:
        ids = Numbered(n)
        return ids, "features", Rows(ids), (why,)
    cells = SourceCells(source, parted.parts)
    if source.kind == "image":
        return cells, "image", SourceImages(cells, Path(source.files[0]).absolute().parent), ()
    return cells, "text", Texts(cells), ()


def _source(parted: Parted, options: Options) -> tuple[Source | None, str]:
    """Return the source that shards were made of, or why there is none and what to do."""
    place = options.show or parted.source
    if not place:
        return None, f"{parted.folder!r} does not say what it was made of{NAME_IT} FILE"
    if options.show is None and places.is_remote(place):  # a stranger's manifest may name any
        why = f"the source {place!r} lies in another store, which you have not named"
        return None, f"{why}{NAME_IT} {shlex.quote(place)}"
    try:
        if not places.exists(place):
            return None, f"the source {place!r} is not there{NAME_IT} FILE"
        return _opened(place, parted, options), ""
    except OSError as error:
        return None, f"the source {place!r} cannot be read ({error.strerror or error}){NAME_IT} FILE"


def _opened(place: str, parted: Parted, options: Options) -> Source:
    """Return the source, if it can be what shards were made of."""
    about: Mapping[str, Any] = parted.about
    columns = (
        options.text_column or about.get("--text-column"),
        options.image_column or about.get("--image-column"),
    )
    how = Options(*columns, encoding=about.get("--encoding"), long_rows=about.get("--long-rows"))
    if options.show is None:
        _check_made_of(place, parted)
    places.opened(files_of(place)[0]).close()  # one that may not be read is told as such
    source = open_source(place, how)
    if [one.size for one in source.stamps()] != [one.size for one in parted.files]:
        raise _another(place, parted, "its size is another")
    return source


def _check_made_of(place: str, parted: Parted) -> None:
    """Refuse a file that a manifest names and does not know: not its size and time, nor its content.

    Who made up a manifest cannot know these of a file that they never saw.
    """
    files = files_of(place)
    plain = places.is_remote(place) or all(Path(file).is_file() for file in files)
    if not plain or len(files) != len(parted.files):
        raise _another(place, parted, "it has other files")
    for file, was in zip(files, parted.files, strict=True):
        now = places.stamp(file)
        if now.size != was.size:
            raise _another(place, parted, "its size is another")
        if not now.same_file(was) and places.digest(file) != was.digest:
            raise _another(place, parted, "its content is another")


def _another(place: str, parted: Parted, why: str) -> EverylabelError:
    return EverylabelError(
        f"source {place!r} is not what shards {parted.folder!r} were made of: {why}; put the old one back, "
        "or name where it lies by --show FILE"
    )
