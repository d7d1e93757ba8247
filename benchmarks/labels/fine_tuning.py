"""SetFit (contrastive fine-tuning of the same MiniLM) on the same labels: accuracy on test data and seconds.

Only Banking-77 and Clinc-150 have texts: ten classes of each, drawn once. SetFit trains with its authors'
settings, one epoch on 20 pairs of each kind per labelled text, but at most 60 steps of 16 pairs (two labels
per class need 50), since a step takes more than a second. The linear head is trained on the original
features, with class names and unlabelled texts.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.labels.chosen import ours, plain
from benchmarks.labels.curve import guesses
from benchmarks.labels.sets import POOL, Data, encoder_path, load_all
from benchmarks.labels.trust import some_of_each
from everylabel.core.errors import need
from everylabel.data.datasets.catalog import read_banking77, read_clinc150

READERS = {"banking77": read_banking77, "clinc150": read_clinc150}
FIELDS = ("set", "seed", "a_class", "arm")
CLASSES, A_CLASS = 10, (2, 4, 8)
ITERATIONS, BATCH, MOST_STEPS = 20, 16, 60


class Texts(NamedTuple):
    """Features with their texts."""

    data: Data
    pool: list[str]
    test: list[str]


def compare(name: str, seed: int, a_class: int, arm: str, folder: Path) -> dict[str, Any]:
    """Return accuracy and seconds of one of ARMS with `a_class` labels per class; features exist already."""
    texts = _some_classes(name, folder)
    labels = some_of_each(texts.data.y, CLASSES, a_class, np.random.default_rng([seed, 7]))
    began = time.perf_counter(), time.process_time()
    guessed = ARMS[arm](texts, labels, seed)
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    right = float(np.mean(guessed == texts.data.y_test))
    print(name, seed, a_class, arm, f"{right:.4f} {cpu:.2f} s", flush=True)
    return {"test": round(right, 4), "seconds": round(wall, 4), "processor_seconds": round(cpu, 4)}


def keys(repetitions: int) -> list[tuple[str, int, int, str]]:
    """Return the comparisons, the cheap arms first."""
    return [(name, seed, n, arm) for seed in range(repetitions) for arm in ARMS for n in A_CLASS
            for name in READERS]  # fmt: skip


def _some_classes(name: str, folder: Path) -> Texts:
    data, official = load_all(name, folder), READERS[name](folder / "official" / name)
    kept = np.sort(np.random.default_rng(0).permutation(data.k)[:CLASSES])
    assert data.names is not None
    train, test = (np.flatnonzero(np.isin(y, kept)) for y in (data.y, data.y_test))
    train = np.random.default_rng(1).permutation(train)[:POOL]
    few = Data(data.x[train], np.searchsorted(kept, data.y[train]),
               data.x_test[test], np.searchsorted(kept, data.y_test[test]),
               tuple(data.classes[c] for c in kept), data.names[kept])  # fmt: skip
    pool, rest = (official.splits[part].items for part in ("train", "test"))
    return Texts(few, [pool[i] for i in train], [rest[i] for i in test])


def _setfit(texts: Texts, labels: dict[int, int], seed: int) -> np.ndarray:
    need("setfit", "bench", "the comparison with SetFit")
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    model = SetFitModel.from_pretrained(encoder_path())
    given = Dataset.from_dict({"text": [texts.pool[i] for i in labels], "label": list(labels.values())})
    with tempfile.TemporaryDirectory() as place:
        how = TrainingArguments(
            output_dir=place, batch_size=BATCH, num_epochs=1, num_iterations=ITERATIONS, seed=seed,
            max_steps=min(MOST_STEPS, 2 * ITERATIONS * len(labels) // BATCH),
            report_to="none", save_strategy="no", show_progress_bar=False,
        )  # fmt: skip
        Trainer(model=model, args=how, train_dataset=given).train()
    return np.asarray(model.predict(texts.test))


def _ours(texts: Texts, labels: dict[int, int], seed: int) -> np.ndarray:
    head = ours(texts.data)
    return guesses(np.asarray(head.trained(labels).mean), head.h_test)


def _plain(texts: Texts, labels: dict[int, int], seed: int) -> np.ndarray:
    head = plain(texts.data)
    return guesses(np.asarray(head.trained(labels).mean), head.h_test)


ARMS: dict[str, Callable[[Texts, dict[int, int], int], np.ndarray]] = {
    "ours": _ours, "version 0.1": _plain, "SetFit": _setfit,
}  # fmt: skip
