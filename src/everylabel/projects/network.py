"""Fine-tuning of the encoder on the labels; each success is a generation of features.

When there are enough new labels, a separate process fine-tunes the encoder, cross-validates, and embeds all
items again (`models.finetuning.job`). If the tuned features predict held-out labels better, they become a
generation (`generations.py`). People continue labelling meanwhile. The last two generations are kept.
"""

import json
import logging
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import free_memory
from everylabel.data.items import Numbered
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.model.learner import Learner, WarmStart
from everylabel.labelling.model.training import ClassNames, FeatureTable, TrainingSet, phrases_of
from everylabel.labelling.progress import NetworkState
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import NONE, Refused
from everylabel.log import events
from everylabel.models.embedding.choose import ALIASES
from everylabel.models.finetuning.job import (
    FEATURES,
    ITEMS,
    RESULT,
    Job,
    write_job,
)
from everylabel.projects.generations import (
    FOLDER,
    IDS,
    Generation,
    content_of,
    file_digest,
    item_digests,
    load_generation,
    weights_digest,
)
from everylabel.projects.project import Project

log = logging.getLogger(__name__)
JOB_MODULE = "everylabel.models.finetuning.job"
PART = ".part"  # suffix of the folder of an attempt that has not ended
KEPT = 2  # number of generations
FEWEST, PER_CLASS, ENOUGH = 32, 4, 300  # the first attempt waits for 4 labels per class, 32 to 300 in all
GROWN = 1.5  # an attempt follows when the labels have grown by this factor since the last one
AGAIN = 1.1  # the same after an attempt that failed with an error
MOST_ITEMS = 20_000  # above this, re-embedding takes minutes: people are asked first
WAIT = 0.5  # seconds between two looks at whether an attempt is due
MEMORY = 1.5 * 2**30  # bytes that the process of an attempt may need
DISK, DISK_PER_ITEM = 2**29, 4096  # bytes for weights and cache, and for the features of an item


def why_frozen(project: Project) -> str:
    """Return a sentence on why a project's encoder cannot be fine-tuned; "" if it can."""
    if project.options.label_separator is not None:
        return "Fine-tuning is for one class per item; the model learns on the features as they are."
    if isinstance(project.ids, Numbered):
        return "For a folder of shards, fine-tune on a sample, and embed all items by the exported encoder."
    if project.kind not in ("text", "image") or project.made_by is None:
        return "The features came with the source: there is no network to train."
    model = encoder_name(project)
    if model is None:
        return "The features were learned from the items themselves, not by a pretrained network."
    if isinstance(project.items, np.ndarray):
        return "The items are in memory, not in files that a network could be trained on."
    if model.startswith(("timm:", "cls:")) or model.endswith(".onnx"):
        return f"The model {model!r} cannot be fine-tuned here; only transformers models can."
    library = "sentence_transformers" if project.kind == "text" else "transformers"
    if None in (find_spec("torch"), find_spec(library)):
        return f"Fine-tuning needs PyTorch: pip install 'everylabel[{project.kind}]'."
    return ""


def encoder_name(project: Project) -> str | None:
    """Return the name or folder of the pretrained model that embeds a project; None if there is none."""
    made = project.made_by
    if made is None or made.model is None:
        return None
    return ALIASES.get(made.model, made.model).removeprefix("st:").removeprefix("mean:")


def _check_room(folder: Path, n_items: int) -> None:
    """Raise if memory or disk space is too small for an attempt."""
    disk, needed = shutil.disk_usage(folder).free, DISK + DISK_PER_ITEM * n_items
    if disk < needed:
        raise EverylabelError(
            f"{disk / 2**30:.1f} GB of disk space are free; fine-tuning needs {needed / 2**30:.1f} GB"
        )
    memory = free_memory()
    if memory < MEMORY:
        raise EverylabelError(
            f"{memory / 2**30:.1f} GB of memory are free; fine-tuning needs {MEMORY / 2**30:.1f} GB"
        )


def opened_desk(
    project: Project,
    rows: FeatureTable,
    store: Any,
    state: State,
    names: ClassNames,
    mean: WarmStart | None,
    note: Callable[[str], Any],
) -> "tuple[Desk, NetworkTrainer]":
    """Return a project's desk with the features of its current generation, and the trainer of the next one.

    rows, names : by the original encoder
    """
    trainer = NetworkTrainer(project, rows, names)
    body = state.generation
    generation = None if body is None else load_generation(project.folder, body)
    if body is not None and generation is None:
        note(
            f"the files of generation {body.number} of the fine-tuned network are missing or "
            "damaged; labelling continues with the frozen features"
        )
    if generation is None:
        trainer.desk = Desk(rows, store, state, names, mean)
        return trainer.desk, trainer
    generation, tuned = generation.on(project.kind, rows.ids, content_of(project))
    trainer.desk = Desk(tuned, store, state, generation.class_names(), mean, generation)
    trainer.desk.frozen_rows = rows
    return trainer.desk, trainer


class NetworkTrainer:
    """A thread that fine-tunes the encoder in a separate process whenever there are enough new labels."""

    desk: Desk
    recipe: Mapping[str, float] = MappingProxyType({})  # fields of `Recipe` that differ from the defaults

    def __init__(self, project: Project, rows: FeatureTable, names: ClassNames) -> None:
        """Prepare the thread; rows, names : by the original encoder."""
        self.project, self.frozen = project, (rows, names)
        self.content: Callable[[Sequence[str]], Sequence[Any]] = lambda ids: []  # ids -> items
        self.is_growing: Callable[[], bool] = lambda: False  # whether items are joining the pool
        self._model = encoder_name(project) if project.kind in ("text", "image") else None
        # what the page shows of fine-tuning; the project's state is `self.desk.state`
        self.state = NetworkState(why_frozen(project), items=len(project), trainer=self)
        self.state.asks = len(project) > MOST_ITEMS
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._unusable: events.Generation | None = None  # a generation whose files are missing or damaged
        self._failed_at = 0  # number of labels at the last failed attempt
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        for unfinished in (project.folder / FOLDER).glob(f"*{PART}"):  # of a killed process
            shutil.rmtree(unfinished, ignore_errors=True)

    def start(self) -> None:
        """Start the thread, if the encoder can be fine-tuned."""
        if not self.state.why_frozen:
            self._thread.start()

    def close(self) -> None:
        """Stop; a running attempt is ended and its files are removed."""
        self._stopped.set()
        process = self._process
        if process is not None:
            process.terminate()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._stopped.wait(WAIT):
            try:
                self._apply_setting()
                if not self._is_due():
                    continue
                self._attempt()
                self.state.error = ""
            except EverylabelError as error:
                self._failed(str(error))
            except Exception as error:  # labelling continues without it
                log.exception("fine-tuning failed")
                self._failed(str(error) or type(error).__name__)

    def _failed(self, why: str) -> None:
        self.state.share, self._failed_at = None, self._n_labels()
        if not self._stopped.is_set():
            self.state.error = why

    def _apply_setting(self) -> None:
        """Switch between the frozen and the tuned features when the setting has changed."""
        wanted, used = self.desk.state.generation, self.desk.generation
        if wanted is None and used is not None:
            self._swap(*self.frozen, None)
        elif wanted is not None and wanted != self._unusable and (used is None or used.body != wanted):
            generation = load_generation(self.project.folder, wanted)
            self._unusable = wanted if generation is None else None
            if generation is not None:
                self._swap_to(generation)

    def _is_due(self) -> bool:
        """Return whether there are enough new labels since the last attempt, and no items are joining."""
        state = self.desk.state
        wanted = state.settings["network"]
        if wanted == "frozen" or (wanted == "auto" and self.state.asks) or self.is_growing():
            return False
        n = self._n_labels()
        n_classes = len({*list(state.labels.values())} - {NONE})
        last = state.generations[-1].labels if state.generations else 0
        first = max(FEWEST, min(PER_CLASS * n_classes, ENOUGH))
        return n_classes > 1 and n >= max(first, GROWN * last, AGAIN * self._failed_at)

    def _n_labels(self) -> int:
        """Return the number of labels that name a class."""
        return sum(number != NONE for number in list(self.desk.state.labels.values()))

    def _attempt(self) -> None:
        """Fine-tune on the current labels; use the new features if they are better."""
        folder = self.project.folder / FOLDER
        number = 1 + max((each.number for each in self.desk.state.generations), default=0)
        # a unique name: the process of a killed server may still be running
        part = folder / f"{number}-{token_hex(4)}{PART}"
        ids, job = self.desk.read(self._job).result()
        _check_room(self.project.folder, len(ids))
        items = [str(item) for item in self.content(ids)]
        part.mkdir(parents=True, mode=0o700)
        try:
            write_job(part, job, items)
            self._run(part)
            result = json.loads((part / RESULT).read_text()) | {"classes": job.classes}
            (part / RESULT).write_text(json.dumps(result))
            accuracy = result["accuracy"]
            body = events.Generation(
                number,
                labels=len(job.labels),
                trusted=result["trusted"],
                frozen_accuracy=round(accuracy["frozen"], 6),
                tuned_accuracy=round(accuracy["tuned"], 6),
            )
            shutil.rmtree(folder / str(number), ignore_errors=True)  # left by an attempt that was not used
            if not body.trusted:
                self.desk.submit(lambda: self._emit(body)).result()
                return
            digests = list(item_digests(self.project.kind, ids, items))
            (part / IDS).write_text(json.dumps({"ids": ids, "digests": digests}))
            (part / ITEMS).unlink()
            part.replace(folder / str(number))
        finally:
            shutil.rmtree(part, ignore_errors=True)
            self.state.share = None
        if self._stopped.is_set():
            return
        place = folder / str(number)
        hashes = {"weights": weights_digest(place), "features": file_digest(place / FEATURES)}
        self._use_generation(msgspec.structs.replace(body, **hashes))

    def _job(self) -> tuple[list[str], Job]:
        """Return the ids of all items and the job of an attempt; call on the desk's thread."""
        state = self.desk.state
        book = state.book
        column = {number: j for j, number in enumerate(book.present)}
        labels = {str(item): column[c] for item, c in state.labels.items() if c in column}
        phrases = [list(phrases_of(book.names[c], book.descriptions.get(c))) for c in book.present]
        classes = [book.names[c] for c in book.present]
        return list(state.ids), Job(
            str(self._model), self.project.kind, classes, labels, phrases, dict(self.recipe)
        )

    def _run(self, part: Path) -> None:
        """Run the process of an attempt to its end, and report its progress."""
        self.state.share = 0.0
        command = [sys.executable, "-m", JOB_MODULE, str(part)]
        with (
            (part / "errors.txt").open("w+") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,  # an interrupt of the server must not reach it
            ) as process,
        ):
            self._process = process
            if self._stopped.is_set():
                process.terminate()
            try:
                for line in process.stdout or ():
                    if line.startswith("{"):
                        report = json.loads(line)
                        self.state.share = report["share"]
                code = process.wait()
            finally:
                process.kill()
                self._process = None
            if code:
                errors.seek(0)
                lines = errors.read().strip().splitlines()
                raise EverylabelError(lines[-1] if lines else f"its process ended with code {code}")
        (part / "errors.txt").unlink()

    def _use_generation(self, body: events.Generation) -> None:
        """Switch the desk to the new generation, and delete the oldest one."""
        generation = load_generation(self.project.folder, body)
        if generation is None:
            raise EverylabelError("the files of the new generation cannot be read")
        self._swap_to(generation, body)
        self._prune(body.number)

    def _swap_to(self, generation: Generation, body: events.Generation | None = None) -> None:
        """Switch the desk to the features of a generation."""
        ids = self.desk.read(lambda: list(self.desk.ids)).result()
        generation, rows = generation.on(self.project.kind, ids, self.content)
        self._swap(rows, generation.class_names(), generation, body)

    def _swap(
        self,
        rows: FeatureTable,
        names: ClassNames,
        generation: Generation | None,
        body: events.Generation | None = None,
    ) -> None:
        """Train a head on other features while the desk continues, then switch the desk to features and head.

        generation : of the features; None if they are the original encoder's
        body : event to log, if the generation is new
        """
        with suppress(EverylabelError):  # names of classes added since the attempt began
            names.learn(self.desk.read(lambda: names.missing(self.desk.state)).result())

        def look() -> TrainingSet:
            vectors = names.vectors(self.desk.state)
            return self.desk.training_set()._replace(names=vectors, trusts_names=generation is not None)

        training = self.desk.read(look).result()
        if any(name not in rows for name in self.desk.ids):
            raise EverylabelError("items joined meanwhile")
        learner = Learner(rows, self.desk.ids, training)

        def command() -> Finish:
            if any(name not in rows for name in self.desk.ids[training.n_items :]):
                raise Refused(409, "items_joined", "items joined while the network was trained")
            self.desk.switch_features(rows, names, learner, generation, body)
            return lambda: None

        self.desk.submit(command, alone=True).result()

    def _emit(self, body: events.Generation) -> Finish:
        """Log an attempt whose encoder is not used."""
        self.desk.emit("", body)
        return lambda: None

    def _prune(self, number: int) -> None:
        """Delete all except the last KEPT generations; `number` is the newest."""
        for place in (self.project.folder / FOLDER).iterdir():
            if place.name.isdigit() and int(place.name) <= number - KEPT:
                shutil.rmtree(place, ignore_errors=True)
