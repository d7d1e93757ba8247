"""`predict_shards`: a project's predictions for every row of a folder of shards, one table a shard."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice, check_count
from everylabel.core.errors import EverylabelError
from everylabel.formats.known import TABLES
from everylabel.formats.records import prediction_records
from everylabel.formats.tables import ROW, Cells, ItemColumns, write_table
from everylabel.labelling.state.state import LabelSet
from everylabel.models.embedding.embed import FITTED, Embedder
from everylabel.projects.predictions import Head, head_of
from everylabel.projects.project import Project
from everylabel.scale import filesystem
from everylabel.scale.cluster import connect, make_parts
from everylabel.scale.embedding import DIGEST, FIT, MODEL, model_digest
from everylabel.scale.manifest import (
    Manifest,
    Part,
    finished_shards,
    is_shards,
    open_or_create,
    read_manifest,
)
from everylabel.scale.shards import Shard, load, shards_of

BLOCK = 4096  # rows checked together


class Predicted(NamedTuple):
    """The result of `predict_shards`."""

    predictions: Manifest
    kept: int  # rows that were there already
    broken: int  # rows of NaN, which have no prediction


def head_digest(head: Head) -> str:
    """Return a digest that no other model has."""
    total = hashlib.blake2b(repr((head.classes, head.scaling.scale)).encode(), digest_size=8)
    for array in (head.posterior.mean, head.scaling.center, head.scaling.matrix, head.thresholds):
        total.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


@dataclass(frozen=True)
class Predicting:
    """The job: write the predictions of shards as tables."""

    shards: list[Shard]
    head: Head
    predictions: Manifest
    form: str

    @property
    def key(self) -> str:
        return f"{self.predictions.folder} {head_digest(self.head)} {self.form}"

    def make(self, part: Part) -> int:
        """Write the table of a shard; return the number of its rows without a prediction."""
        features = load([self.shards[part.number].place])
        finite = _finite(features)
        beside = ItemColumns({ROW: Cells(int, lambda i: part.first + i)}, {})
        records = prediction_records(
            beside,
            finite,
            lambda at: self.head.probabilities(features[at]),
            self.head.classes,
            self.head.thresholds,
        )
        filesystem.write(
            self.predictions.place(part), lambda file: file.writelines(write_table(records, self.form))
        )
        return len(features) - len(finite)


def _finite(features: np.ndarray) -> np.ndarray:
    """Return the rows without NaN: the row of an unreadable image is NaN."""
    blocks = [np.isfinite(features[at : at + BLOCK]).all(axis=1) for at in range(0, len(features), BLOCK)]
    return np.flatnonzero(np.concatenate(blocks))


def predict_shards(
    shards: str,
    out: str,
    project: Project,
    label_set: LabelSet,
    form: str = "parquet",
    *,
    ray: str | None = None,
    worker_cpus: int = 1,
    progress: Callable[[int, int], Any] | None = None,
    note: Callable[[str], Any] | None = None,
) -> Predicted:
    """Write the predictions of a project's model for all rows of shards into a folder of tables.

    Tables that are there are kept.

    Parameters
    ----------
    shards, out : str
        Folders, on this machine or at addresses that fsspec knows.
    project, label_set
        The project whose model predicts, and its labels (`log.read_labels`).
    form : {"parquet", "csv", "jsonl"}
        The format of the tables, with columns for the row in the source (from 0), the label, its probability,
        and the probability of each class.
    ray, worker_cpus, progress, note
        As in `embedding.embed_shards`.
    """
    check_choice(form, "format", list(TABLES))
    check_count(worker_cpus, "worker_cpus")
    found = _finished(shards, project)
    if found[0].width != project.features.shape[1]:
        raise EverylabelError(
            f"shards {shards!r} have {found[0].width} features; expected {project.features.shape[1]}, as the "
            "project has"
        )
    head = head_of(project, label_set)
    about = {"a model that learned": head_digest(head), "classes": list(head.classes)}
    files, rows = [shard.place for shard in found], [shard.rows for shard in found]
    predictions = open_or_create(out, about, TABLES[form].ending, shards, files, lambda: rows)
    missing = predictions.missing()
    cluster = None if ray is None else connect(ray, note)
    job = Predicting(found, head, predictions, form)
    done = make_parts(job.make, job.key, predictions, missing, cluster, progress, cpus=worker_cpus)
    return Predicted(predictions, *done)


def embedder_of(folder: str, trust_code: bool) -> Embedder:
    """Return an embedder of new items, made like the rows of a folder of shards."""
    manifest = finished_shards(folder)
    kind = "image" if "--image-column" in manifest.about else "text"
    model, place = str(manifest.about.get(MODEL)), filesystem.inside(manifest.folder, FIT)
    if filesystem.is_file(place):
        with filesystem.local_copy(place) as path:
            embedder = Embedder(kind, None, fit=path)
    elif model in FITTED:
        raise EverylabelError(
            f"shards {folder!r} were made by {model}, fitted on other items, and hold no {FIT}; expected "
            "features of the new items: everylabel embed NEW -o NEW.npy --fit with the same file"
        )
    else:
        embedder = Embedder(kind, model, trust_code)
    if model_digest(embedder.backend) != manifest.about.get(DIGEST):
        raise EverylabelError(
            f"model {model!r} is not the one that made the shards {folder!r}; expected features of the new "
            "items by that model: everylabel embed NEW -o NEW.npy"
        )
    return embedder


def _finished(folder: str, project: Project) -> list[Shard]:
    """Return the shards, or raise unless all are there and made by the project's own model."""
    manifest = finished_shards(folder)
    embedder, own = project.embedder(), read_manifest(project.source) if is_shards(project.source) else None
    made_by = None if own is None else own.about.get(DIGEST)
    if embedder is not None:
        made_by = model_digest(embedder.backend)
    if made_by is not None and made_by != manifest.about.get(DIGEST):
        raise EverylabelError(
            f"shards {folder!r} were made by another model ({manifest.about.get(MODEL)}) than the features "
            f"of project {project.name!r}; expected the project's own model: embed them with its "
            "--model, or with --fit and its embedder.npz"
        )
    return shards_of(manifest)
