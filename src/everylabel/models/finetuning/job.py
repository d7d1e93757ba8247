"""Fine-tuning in a process of its own: `python -m everylabel.models.finetuning.job FOLDER`.

FOLDER holds `job.json` and `items.json`. The process writes the tuned encoder, features and cross-fitted
probabilities beside them, and `result.json` last: without it the attempt counts as failed. Progress goes to
standard output, one JSON object per line.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

JOB, ITEMS, RESULT = "job.json", "items.json", "result.json"
ENCODER, FEATURES, NAMES, PROBABILITIES = "encoder", "features.npy", "names.npy", "probabilities.npy"
NICENESS = 10  # people who label come first


class Job(NamedTuple):
    """The input of one attempt.

    model, kind : the encoder and the kind of its items
    labels : row of an item -> number of its class in `classes`
    phrases : of each class, the name first
    recipe : fields of `Recipe` that differ from the defaults
    """

    model: str
    kind: str
    classes: list[str]
    labels: dict[str, int]
    phrases: list[list[str]]
    recipe: dict[str, float]
    seed: int = 0


def write_job(folder: Path, job: Job, items: list[str]) -> None:
    """Write the input of an attempt."""
    (folder / ITEMS).write_text(json.dumps(items))
    (folder / JOB).write_text(json.dumps(job._asdict()))


def run(folder: Path) -> None:
    """Run the attempt that a folder describes."""
    import torch

    from everylabel.models.finetuning import Encoder, Recipe, Tuner
    from everylabel.models.finetuning.recipe import trained_share

    torch.set_num_threads(1)
    job = Job(**json.loads((folder / JOB).read_text()))
    items = json.loads((folder / ITEMS).read_text())
    encoder = Encoder(job.model, job.kind, trained_share(len(job.classes)))
    phrases = dict(zip(job.classes, job.phrases, strict=True)) if job.kind == "text" else None
    tuner = Tuner(encoder, items, job.classes, phrases, progress=_say(0.0, 0.3))
    labels = {int(row): number for row, number in job.labels.items()}
    recipe = Recipe(**job.recipe)  # type: ignore[arg-type]
    tuned = tuner.tune(labels, recipe=recipe, seed=job.seed, progress=_say(0.3, 1.0))
    result = {
        "trusted": bool(tuned.trusted),
        "log_loss": tuned.log_loss,
        "accuracy": tuned.accuracy,
        "rows": tuned.labelled.tolist(),
        "names_hold": bool(tuned.names_hold),
        "phrases": tuner.phrases,
    }
    if tuned.trusted:
        tuned.save(folder / ENCODER)
        np.save(folder / FEATURES, tuned.all_features.astype(np.float32))
        np.save(folder / NAMES, tuned.phrase_features.astype(np.float32))
        np.save(folder / PROBABILITIES, tuned.proba.astype(np.float32))
    (folder / RESULT).write_text(json.dumps(result))


def _say(begin: float, end: float) -> Any:
    """Return a progress callback that prints its part of the whole."""

    def say(share: float, message: str) -> None:
        print(json.dumps({"share": round(begin + share * (end - begin), 3), "message": message}), flush=True)

    return say


if __name__ == "__main__":
    os.nice(NICENESS)
    run(Path(sys.argv[1]))
