"""`embed_shards`: the features of a source of any size, in a folder of .npy files.

The shards, one after the other, hold the rows that `everylabel.embed` writes into one file. A worker holds a
chunk of rows at a time, whatever the size of source and shard.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice, check_count
from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.models.embedding.backend import Backend
from everylabel.models.embedding.choose import How, choose, kind_of
from everylabel.models.embedding.chunks import Chunks
from everylabel.models.embedding.embed import encoded_rows, load_fit, write_rows
from everylabel.scale import filesystem
from everylabel.scale.cluster import connect, make_parts
from everylabel.scale.manifest import Manifest, Part, open_or_create
from everylabel.scale.shards import shard_of
from everylabel.scale.sources import Source, open_source

SHARD_ROWS = 65_536  # a multiple of every backend's chunk
MODEL, DIGEST = "--model", "the model of digest"  # in the manifest
FIT = "embedder.npz"  # in the folder of shards: the fitted encoder, to embed new items


class Embedded(NamedTuple):
    """The result of `embed_shards`."""

    shards: Manifest
    kept: int  # rows that were there already
    broken: int  # images that could not be read
    width: int
    column: str


@dataclass(frozen=True)
class Embedding:
    """The job: encode parts of a source into a folder."""

    source: Source
    backend: Backend
    shards: Manifest
    dtype: str

    @property
    def key(self) -> str:
        return f"{self.shards.folder} {self.backend.key} {self.dtype}"

    def make(self, part: Part) -> int:
        """Write the shard of a part; return the number of unreadable images, whose rows are NaN."""
        broken: list[str] = []

        def rows() -> Iterator[np.ndarray]:
            items, n = Chunks(self.source.values(part), self.source.kind), 0
            for chunk in encoded_rows(items, self.backend, False, broken, None):
                n += len(chunk)
                yield chunk
            if n != part.rows:
                raise EverylabelError(
                    f"source {self.source.place!r} has {n:,} rows from row {part.first:,} on, and had "
                    f"{part.rows:,}; expected a source that does not change meanwhile"
                )

        filesystem.write(self.shards.place(part), lambda file: write_rows(file, rows(), np.dtype(self.dtype)))
        return len(broken)


def embed_shards(
    source: str,
    out: str,
    model: str | None = None,
    *,
    options: Options | None = None,
    ray: str | None = None,
    shard_rows: int = SHARD_ROWS,
    dtype: str = "float32",
    batch_size: int = 32,
    device: str | None = None,
    fit: Path | None = None,
    trust_model_code: bool = False,
    worker_cpus: int = 1,
    progress: Callable[[int, int], Any] | None = None,
    note: Callable[[str], Any] | None = None,
) -> Embedded:
    """Write the features of a source's rows into a folder of shards; shards that are there are kept.

    Parameters
    ----------
    source : str
        A Parquet, CSV, TSV or JSONL file, or a folder of Parquet files; on this machine, or at an address
        that fsspec knows.
    out : str
        The folder, on this machine or elsewhere. With Ray, all machines must reach it and the source.
    model, dtype, batch_size, device, trust_model_code
        As in `everylabel.embed`. The model is pretrained, since no worker sees all rows.
    options : Options
        The columns, and how to read the file.
    ray : str, optional
        The address of a Ray cluster, see `cluster.connect`; None works in this process.
    shard_rows : int
        Rows of a shard; the last may have fewer.
    fit : path, optional
        An encoder (TF-IDF or pixels) fitted on other items, as in `everylabel.embed`.
    worker_cpus : int
        Cores, and threads, of one worker of Ray.
    progress : function, optional
        Called with the rows that are there and in all.
    note : function, optional
        Called with a sentence that names the cluster.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from everylabel.scale import embed_shards
    >>> notes = ["good", "bad", "good and bad"]
    >>> pd.DataFrame({"text": notes}).to_csv("notes.csv", index=False)
    >>> _ = el.embed(notes, model="tfidf", fit_out="embedder.npz")
    >>> embed_shards("notes.csv", "shards", fit=Path("embedder.npz"), shard_rows=2).shards.rows
    3
    """
    check_choice(dtype, "dtype", ["float32", "float16"])
    size, cpus = check_count(shard_rows, "shard_rows"), check_count(worker_cpus, "worker_cpus")
    origin = open_source(source, options or Options(), out)
    if kind_of(model) not in (None, origin.kind):
        raise EverylabelError(
            f"model is {model!r}, and column {origin.column!r} holds items of kind {origin.kind!r}"
        )
    batch = check_count(batch_size, "batch_size")
    how = How(batch, device, trust_model_code, threads=0 if ray is None else cpus)
    backend = pretrained(origin.kind, model, fit, how)
    about = {
        MODEL: getattr(backend, "name", origin.kind),
        DIGEST: model_digest(backend),
        f"--{origin.kind}-column": origin.column,
        "--dtype": dtype,
        "--encoding": origin.options.encoding,
        "--long-rows": origin.options.long_rows,
        "--shard-rows": size,
    }
    shards = open_or_create(out, about, ".npy", source, origin.files, origin.counts, size)
    if fit is not None:
        filesystem.write(filesystem.inside(out, FIT), lambda file: file.write(fit.read_bytes()))
    origin.convert()
    job = Embedding(origin.with_rows(shards), backend, shards, dtype)
    missing = shards.missing()
    gpus = int(str(getattr(backend, "device", None)).startswith("cuda"))
    cluster = None if ray is None else connect(ray, note)
    kept, broken = make_parts(job.make, job.key, shards, missing, cluster, progress, cpus=cpus, gpus=gpus)
    return Embedded(shards, kept, broken, shard_of(shards.place(shards.parts[0])).width, origin.column)


def model_digest(backend: Backend) -> str:
    """Return a digest of a model: the same digest and items give the same features."""
    return hashlib.sha256(backend.key.encode()).hexdigest()[:16]


def pretrained(kind: str, model: str | None, fit: Path | None, how: How) -> Backend:
    """Return an encoder that does not depend on the rows: pretrained, or fitted before on others."""
    if fit is not None:
        return load_fit(fit, kind, model)

    def sample() -> Any:
        raise EverylabelError(
            f"model {model or '(none: no language or vision model is installed)'} learns from all rows, and "
            "no shard has them; expected a pretrained model, or fit= (--fit) with a fitted "
            "encoder (embedder.npz of a project, or the file of everylabel.embed(..., fit_out=...))"
        )

    return choose(kind, model, sample, how)
