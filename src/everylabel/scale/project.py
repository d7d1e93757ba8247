"""A folder of shards as a project: rows known by their numbers, shown as the source has them.

Nothing of the size of the pool is made here: ids are computed, texts are read when they are asked for, and
the features are with the actors of a Ray cluster, in memory if they fit, or in their files.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.display import Display, Rows, Texts
from everylabel.data.items import Items
from everylabel.data.numbered import Numbered
from everylabel.data.options import Options
from everylabel.projects.options import remembered
from everylabel.projects.project import ENDING, Reader
from everylabel.scale import places
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.filed import FiledFeatures
from everylabel.scale.parted import Parted, finished_shards
from everylabel.scale.predicting import is_shards
from everylabel.scale.shards import Shard, find_shards, load
from everylabel.scale.shown import SourceCells, SourceImages
from everylabel.scale.sources import Source, open_source

SHARE = 0.5  # of this machine's memory that features may take


def shards_behind(source: str) -> str | None:
    """Return the folder of shards that is labelled: the source itself, or what a project's folder is of."""
    if is_shards(source):
        return source
    path = Path(source)
    before = remembered(path) if path.is_dir() and path.name.endswith(ENDING) else None
    return before.source if before is not None and is_shards(before.source) else None


def on_ray(address: str) -> Reader:
    """Return a reader of shards whose features are with the actors of a cluster."""
    return _reader(lambda folder, shards: ShardedFeatures(folder, address))


def in_memory() -> Reader:
    """Return a reader of shards whose features are copied into memory; refused if they do not fit."""
    return _reader(_loaded)


def in_files() -> Reader:
    """Return a reader of shards whose features stay in their files: for those that need a few rows."""
    return _reader(lambda folder, shards: FiledFeatures(shards))


def _loaded(folder: str, shards: list[Shard]) -> np.ndarray:
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = sum(places.stamp(shard.place).size for shard in shards)
    if size > SHARE * there:
        raise EverylabelError(
            f"shards {folder!r} hold {size / 2**30:.1f} GB of features, and this machine has "
            f"{there / 2**30:.1f} GB; expected --ray auto with a Ray cluster whose machines "
            "hold them together (or --ray local: this machine alone, with the files mapped)"
        )
    return load([shard.place for shard in shards])


def _reader(features: Callable[[str, list[Shard]], Any]) -> Reader:
    def read(where: str, options: Options) -> Items:
        parted = finished_shards(where)
        shards = find_shards(where)
        n = sum(shard.rows for shard in shards)
        content, kind, display, notes = _shown(parted, options, n)
        return Items(
            items=content,
            kind=kind,
            ids=Numbered(n),
            labels=np.full(n, -1, np.int8),
            classes=() if options.classes is None else options.classes,
            features=features(where, shards),
            display=display,
            digests=(_digest(parted, shards),),
            notes=notes,
        )

    return read


def _digest(parted: Parted, shards: list[Shard]) -> str:
    """Return what tells shards from others: what made them of which source, and their sizes."""
    known = dict(parted.about), [one.digest for one in parted.files], [(s.rows, s.width) for s in shards]
    return hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()


def _shown(parted: Parted, options: Options, n: int) -> tuple[Any, str, Display, tuple[str, ...]]:
    """Return the content of the rows, its kind, how it is shown, and what is to be told."""
    source, why = _source(parted, options)
    if source is None:
        ids = Numbered(n)
        return ids, "features", Rows(ids), (f"{why}; items are shown by their row: name it by --show FILE",)
    cells = SourceCells(source, parted.parts)
    if source.kind == "image":
        return cells, "image", SourceImages(cells, Path(source.files[0]).absolute().parent), ()
    return cells, "text", Texts(cells), ()


def _source(parted: Parted, options: Options) -> tuple[Source | None, str]:
    """Return the source that shards were made of, or why there is none."""
    place = options.show or parted.source
    if not place or not places.exists(place):
        what = (
            f"the source {place!r} is not there"
            if place
            else f"{parted.folder!r} does not say what it was made of"
        )
        return None, what
    about: Mapping[str, Any] = parted.about
    columns = (
        options.text_column or about.get("--text-column"),
        options.image_column or about.get("--image-column"),
    )
    how = Options(*columns, encoding=about.get("--encoding"), long_rows=about.get("--long-rows"))
    source = open_source(place, how)
    if [one.size for one in source.stamps()] != [one.size for one in parted.files]:
        raise EverylabelError(
            f"source {place!r} is not what shards {parted.folder!r} were made of: its size is another; put "
            "the old one back, or name where it lies by --show FILE"
        )
    return source, ""
