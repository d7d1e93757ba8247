"""`embed_shards` and `predict_shards`: the features of a source of any size, and predictions for them.

The shards, one after the other, hold the rows that `everylabel.embed` writes into one file. A worker holds a
chunk of rows at a time, whatever the size of source and shard. Predictions are one table a shard.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

from everylabel.core.checks import check_choice, check_count
from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.formats.known import TABLES
from everylabel.formats.records import Predictor, prediction_records
from everylabel.formats.tables import ROW, Cells, ItemColumns, write_table
from everylabel.labelling.state.state import LabelSet
from everylabel.models.embedding.backend import Backend
from everylabel.models.embedding.choose import choose, kind_of
from everylabel.models.embedding.chunks import Chunks
from everylabel.models.embedding.embed import FITTED, Embedder, encoded_rows, load_fit, write_rows
from everylabel.projects.predictions import Head, head_of
from everylabel.projects.project import Project
from everylabel.scale import filesystem
from everylabel.scale.cluster import make_parts
from everylabel.scale.manifest import Manifest, Part, finished_shards, is_shards, open_or_create
from everylabel.scale.shards import Shard, load, shard_of, shards_of
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


def embed_part(source: Source, backend: Backend, shards: Manifest, dtype: str, part: Part) -> int:
    """Write the shard of a part; return the number of unreadable images, whose rows are NaN."""
    broken: list[str] = []
    rows = encoded_rows(Chunks(source.values(part), source.kind), backend, False, broken, None)
    filesystem.write(shards.place(part), lambda file: write_rows(file, rows, np.dtype(dtype)))
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
    how: dict[str, Any] = {"batch_size": check_count(batch_size, "batch_size"), "device": device}
    how |= {"trust_code": trust_model_code, "threads": 0 if ray is None else cpus}
    no_rows = partial(_no_rows, model)
    backend = choose(origin.kind, model, no_rows, **how) if fit is None else load_fit(fit, origin.kind, model)
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
    job = partial(embed_part, origin.with_rows(shards), backend, shards, dtype)
    gpus = int(str(getattr(backend, "device", None)).startswith("cuda"))
    kept, broken = make_parts(job, shards, ray, progress, cpus=cpus, gpus=gpus)
    return Embedded(shards, kept, broken, shard_of(shards.place(shards.parts[0])).width, origin.column)


def model_digest(backend: Backend) -> str:
    """Return a digest of a model: the same digest and items give the same features."""
    return hashlib.sha256(backend.key.encode()).hexdigest()[:16]


def _no_rows(model: str | None) -> Any:
    """Refuse a model that needs all rows at once."""
    raise EverylabelError(
        f"model {model or '(none: no language or vision model is installed)'} needs all rows at once, and no "
        "shard has them; expected a pretrained model, or fit= (--fit) with a fitted encoder (embedder.npz of "
        "a project, or the file of everylabel.embed(..., fit_out=...))"
    )


def predict_shard(shards: list[Shard], head: Head, predictions: Manifest, form: str, part: Part) -> int:
    """Write the table of a shard; return the number of its rows without a prediction."""
    features = load([shards[part.number]])
    finite = np.flatnonzero(np.isfinite(features).all(axis=1))  # the row of an unreadable image is NaN
    beside = ItemColumns({ROW: Cells(int, lambda i: part.first + i)}, {})
    predictor = Predictor(lambda at: head.probabilities(features[at]), head.classes, head.thresholds)
    records = prediction_records(beside, finite, predictor)
    filesystem.write(predictions.place(part), lambda file: file.writelines(write_table(records, form)))
    return len(features) - len(finite)


def predict_shards(
    shards: str,
    out: str,
    project: Project,
    label_set: LabelSet,
    form: str = "parquet",
    *,
    ray: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> tuple[Manifest, int, int]:
    """Write the predictions of a project's model for all rows of shards into a folder of tables.

    Tables that are there are kept. Return the manifest of the folder, the number of rows that were there
    already, and of rows of NaN, which have no prediction.

    label_set : the project's labels (`projects.predictions.read_labels`)
    form : one of TABLES; a table has the row in the source, the label, and the probability of each class
    """
    found = _finished(shards, project)
    head = head_of(project, label_set)
    known = joblib.hash((head.scaling, np.asarray(head.posterior.mean), head.thresholds))
    about = {"a model that learned": known, "classes": list(head.classes)}
    files, rows = [shard.place for shard in found], [shard.rows for shard in found]
    predictions = open_or_create(out, about, TABLES[form].ending, shards, files, lambda: rows)
    job = partial(predict_shard, found, head, predictions, form)
    return predictions, *make_parts(job, predictions, ray, progress)


def embedder_of(folder: str, trust_code: bool) -> Embedder:
    """Return an embedder of new items, made like the rows of a folder of shards."""
    manifest = finished_shards(folder)
    kind = "image" if "--image-column" in manifest.about else "text"
    model, place = str(manifest.about.get(MODEL)), filesystem.inside(manifest.folder, FIT)
    embedder = None
    if filesystem.is_file(place):
        with filesystem.local_copy(place) as path:
            embedder = Embedder(kind, None, fit=path)
    elif model not in FITTED:
        embedder = Embedder(kind, model, trust_code)
    if embedder is None or model_digest(embedder.backend) != manifest.about.get(DIGEST):
        raise EverylabelError(
            f"the model {model!r} is not here as it made the shards {folder!r}; expected features of the new "
            "items by that model: everylabel embed NEW -o NEW.npy (--fit, if it was fitted on other items)"
        )
    return embedder


def _finished(folder: str, project: Project) -> list[Shard]:
    """Return the shards, or raise unless all are there and made by the project's own model."""
    manifest = finished_shards(folder)
    shards, embedder, made_by = shards_of(manifest), project.embedder(), None
    if is_shards(project.source):
        made_by = finished_shards(project.source).about.get(DIGEST)
    if embedder is not None:
        made_by = model_digest(embedder.backend)
    same = made_by in (None, manifest.about.get(DIGEST))
    if not same or shards[0].width != project.features.shape[1]:
        raise EverylabelError(
            f"shards {folder!r} were made by another model ({manifest.about.get(MODEL)}) than the features "
            f"of project {project.name!r}; expected the project's own model: embed them with its "
            "--model, or with --fit and its embedder.npz"
        )
    return shards
