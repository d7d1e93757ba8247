"""`ActiveLearner`: the paper's Algorithm 1 around a network that is retrained after each batch.

    repeat
        for i = 1 ... b:   choose x by the strategy and the posterior given all labels so far,
                           ask for its label, update the posterior                       (Algorithm 1)
        retrain the network on all labels; recompute features and posterior
The posterior is that of the last layer, so a label between retrainings costs milliseconds.
A run is a folder: each label is appended to a file at once, and a killed run continues after the last label.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from everylabel.core import Posterior, laplace, predict_proba
from everylabel.core.checks import check_count
from everylabel.core.errors import EverylabelError, need
from everylabel.models.class_names import Phrases
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.finetuning.encoder import Encoder, TunedEncoder
from everylabel.models.finetuning.recipe import Recipe, trained_share
from everylabel.models.finetuning.tuning import LEAST, Progress, Tuner
from everylabel.models.last_layer import LastLayer
from everylabel.models.scaling import Scaling, fit_pool_scaling, no_scaling, suited_precision
from everylabel.models.trainers import LabelledItems, Train, train_network
from everylabel.selection import Pool, select
from everylabel.selection.pool import Where

RUN, LABELS, TEXTS = "run.json", "labels.jsonl", "pool.json"


class RunHistory(list):
    """One row (a dict) per retraining: round, labels, seconds, guessed, and further measurements."""

    def frame(self) -> Any:
        """Return a pandas data frame."""
        return need("pandas", "table", "a data frame").DataFrame(list(self))

    def plot(self, ax: Any = None) -> Any:
        """Plot accuracy against labels: on held-out items, and of the predictions made before each answer."""
        plt = need("matplotlib.pyplot", "plot", "a plot")
        ax = plt.subplots()[1] if ax is None else ax
        for key, name in (("accuracy", "held-out items"), ("guessed", "guesses before the answer")):
            rows = [(row["labels"], row[key]) for row in self if row.get(key) is not None]
            if rows:
                ax.plot(*zip(*rows, strict=True), marker="o", label=name)
        ax.set(xlabel="labels", ylabel="accuracy")
        ax.legend()
        return ax


class ActiveLearner:
    """Active learning with a network: fast updates between labels, retraining after each batch.

    Parameters
    ----------
    model : torch.nn.Module, or encoder
        A network that ends in a linear layer (`LastLayer`) with one output per class; or a text encoder,
        which is fine-tuned (`everylabel.finetune`) and needs `classes`: the folder or name of a
        sentence-transformers model, or the model itself.
    pool : tensor, dict of tensors, Dataset, or list of texts
        Items to choose from.
    strategy : str or callable
        As in `everylabel.select`.
    update : {"exact", "second_order", "first_order"}
        How a label is learned between retrainings. "exact" refits the last layer to all labels on the
        network's features; the others take the paper's steps from the network's own last layer.
    step_size : float, optional
        Step size of the paper's updates; 10 for "second_order".
    train : callable, optional
        train(model, labelled) -> model, where `labelled` is a dataset of (input, label) with the attributes
        `idx` and `labels`. It gets a copy of the initial network. By default the paper's recipe,
        `train_network`; encoders have their own.
    classes, names : sequence, bool
        For an encoder: all class names (or phrases by class name), and whether to learn from the names.
    recipe : Recipe, optional
        For an encoder: how its blocks are trained, as in `everylabel.finetune`.
    layer : str, optional
        Name of the module's last layer.
    test : (items, labels), optional
        Held-out items; the accuracy on them is recorded in the history.
    candidates : int, optional
        Choose from a random subset of that size; the paper uses 1,000.
    seed : int
    device : str, optional
    progress : callable, optional
        progress(share, message) while an encoder is tuned.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import ActiveLearner, train_network
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    >>> train = lambda model, labelled: train_network(model, labelled, epochs=5)
    >>> learner = ActiveLearner(model, torch.tensor(x[:500], dtype=torch.float32), train=train)
    >>> for batch in learner.rounds(n=2, batch_size=10):
    ...     for i in batch:  # each is chosen by a model that has learned the label before
    ...         batch.label(i, y[i])
    >>> len(learner.labels), [row["labels"] for row in learner.history]
    (20, [10, 20])
    """

    def __init__(
        self,
        model: Any,
        pool: Any,
        *,
        strategy: Any = "margin",
        update: str = "exact",
        step_size: float | None = None,
        train: Train | None = None,
        classes: Sequence[str] | Mapping[str, Phrases] | None = None,
        names: bool = True,
        recipe: Recipe | None = None,
        layer: str | None = None,
        test: tuple[Any, Any] | None = None,
        candidates: int | None = None,
        seed: int = 0,
        device: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.items, self.strategy, self.update, self.step_size = pool, strategy, update, step_size
        self.test, self.candidates, self.seed = test, candidates, seed
        self.labels: dict[int, int] = {}  # item -> class number, in the order of labelling
        self.skipped: set[int] = set()
        self.history = RunHistory()
        self.folder: Path | None = None  # folder of the run, after `save`
        self._guesses: list[bool] = []  # of the labels since the last retraining: predicted right?
        self._trained_on = 0
        self.network: _ModuleNetwork | _EncoderNetwork
        if isinstance(pool, list) and pool and isinstance(pool[0], str):
            if classes is None:
                raise EverylabelError("classes is None; expected the names of all classes, with an encoder")
            self.network = _EncoderNetwork(model, pool, classes, names, recipe, progress, device)
            self.classes: list[Any] = list(classes)
        else:
            self.network = _ModuleNetwork(model, pool, train or train_network, layer, update, device)
            self.classes = list(classes or range(self.network.n_classes))
        self._rebuild()

    def rounds(self, n: int, batch_size: int = 10) -> Iterator[Batch]:
        """Yield batches until the run has had n rounds; retrain the network after each.

        A loaded run continues: an unfinished batch is completed first.
        """
        n, batch_size = check_count(n, "n"), check_count(batch_size, "batch_size")
        while len(self.history) < n:
            left = batch_size - (len(self.labels) - self._trained_on)
            if left > 0:
                if not len(self.pool.free_idx):
                    return
                yield Batch(self, left)
            if len(self.labels) == self._trained_on:
                return  # the caller has stopped labelling
            self.retrain()

    def pick(self) -> int:
        """Return the item to label next."""
        rng = np.random.default_rng([self.seed, len(self.labels), len(self.skipped)])
        n = self.candidates
        subset = n if n is None or n < len(self.pool.free_idx) else None
        return int(select(self.pool, self.strategy, 1, rng, candidates=subset)[0])

    def label(self, i: int, label: Any) -> None:
        """Learn the label of one item, a class number or name, immediately."""
        i, number = int(i), self._class_number(label)
        guess = int(np.argmax(self.pool.logits([i])[0])) == number
        self.pool.add(i, number)
        self.labels[i] = number
        self._guesses.append(guess)
        self._append_event({"item": i, "label": number, "guessed": guess})

    def skip(self, i: int) -> None:
        """Skip an item: it is not chosen again."""
        self.pool.set_aside(int(i))
        self.skipped.add(int(i))
        self._append_event({"item": int(i), "label": None})

    def retrain(self) -> None:
        """Retrain the network on all labels, and recompute features and posterior."""
        begin = time.perf_counter()
        idx, labels = self._known_labels()
        fitted = self.network.fit(idx, labels, self.seed + len(labels))
        self._trained_on = len(labels)
        self._rebuild()
        row: dict[str, Any] = {
            "round": len(self.history) + 1,
            "labels": len(labels),
            "seconds": round(time.perf_counter() - begin, 3),
            "guessed": round(float(np.mean(self._guesses)), 4) if self._guesses else None,
            **fitted,
        }
        if self.test is not None:
            truth = np.array([self._class_number(label) for label in self.test[1]])
            row["accuracy"] = float(np.mean(self.predict_proba(self.test[0]).argmax(axis=1) == truth))
        self._guesses = []
        self.history.append(row)
        if self.folder is not None:
            self._write_run()

    def predict_proba(self, items: Any) -> np.ndarray:
        """Return class probabilities (n, k) of items, given the network and all labels so far."""
        features = self._scaling(self.network.features(items))
        return np.asarray(predict_proba(self.pool.posterior, features, method="mean"))

    def save(self, folder: str | Path) -> None:
        """Write the run to a folder; later labels and retrainings are written there as they happen."""
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        events: list[dict[str, Any]] = [{"item": i, "label": y} for i, y in self.labels.items()]
        guesses: list[bool | None] = [*[None] * (len(events) - len(self._guesses)), *self._guesses]
        lines = [json.dumps({**event, "guessed": hit}) for event, hit in zip(events, guesses, strict=True)]
        lines += [json.dumps({"item": i, "label": None}) for i in sorted(self.skipped)]
        (self.folder / LABELS).write_text("".join(f"{line}\n" for line in lines))
        if isinstance(self.items, list):
            (self.folder / TEXTS).write_text(json.dumps(self.items))
        self._write_run()

    @classmethod
    def load(cls, folder: str | Path, model: Any = None, pool: Any = None, **options: Any) -> Self:
        """Return the run of a folder, after its last label.

        A run with an encoder needs only the folder. For any other network, pass the network (with any
        weights) and the pool again. Further options are those of the class, such as `train` and `test`.
        """
        folder = Path(folder)
        if not (folder / RUN).is_file():
            raise EverylabelError(f"folder is {str(folder)!r}, which has no {RUN}; expected one of save()")
        run = json.loads((folder / RUN).read_text())
        if run["encoder"]:
            model = TunedEncoder.load(folder / run["weights"], options.get("device"))
            pool = json.loads((folder / TEXTS).read_text()) if pool is None else pool
        elif model is None or pool is None:
            raise EverylabelError(
                "model or pool is None; expected those of the run: its folder does not contain them"
            )
        learner = cls(model, pool, **{**run["options"], **options})
        if isinstance(learner.network, _ModuleNetwork):
            learner.network.read(folder / run["weights"])
        learner.history, learner._trained_on = RunHistory(run["history"]), run["trained_on"]
        text = (folder / LABELS).read_text()
        whole = text[: text.rfind("\n") + 1]  # an incomplete last line was never acknowledged
        if whole != text:
            (folder / LABELS).write_text(whole)
        learner._learn_again(whole)
        learner.folder = folder
        return learner

    def _learn_again(self, text: str) -> None:
        """Learn the labels of a file."""
        events = [json.loads(line) for line in text.splitlines()]
        labelled = [event for event in events if event["label"] is not None]
        self.labels = {event["item"]: event["label"] for event in labelled[: self._trained_on]}
        self.skipped = {event["item"] for event in events if event["label"] is None}
        self._rebuild()
        for event in labelled[self._trained_on :]:
            self.pool.add(event["item"], event["label"])
            self.labels[event["item"]] = event["label"]
            self._guesses.append(bool(event["guessed"]))

    def _known_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labelled items and their classes, sorted by item: the order of labelling must not matter."""
        idx = np.array(sorted(self.labels), np.int64)
        return idx, np.array([self.labels[int(i)] for i in idx], np.int64)

    def _rebuild(self) -> None:
        idx, labels = self._known_labels()
        features, self._scaling, posterior = self.network.head(idx, labels)
        step = 10.0 if self.update == "second_order" and self.step_size is None else self.step_size
        known: dict[str, Any] = {"labelled_idx": idx, "labels": labels}
        self.pool = Pool(self._scaling(features), posterior, **known, method=self.update, step_size=step)
        for i in self.skipped:
            self.pool.set_aside(i)

    def _class_number(self, label: Any) -> int:
        """Return the class number of a label given by number or name."""
        if isinstance(label, str):
            if label not in self.classes:
                raise EverylabelError(f"label is {label!r}; expected one of {self.classes[:10]}")
            return self.classes.index(label)
        return int(label)

    def _append_event(self, event: dict[str, Any]) -> None:
        if self.folder is not None:
            with (self.folder / LABELS).open("a") as file:
                file.write(json.dumps(event) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def _write_run(self) -> None:
        """Write weights under a new name, then the record that names them; a crash leaves the old pair."""
        assert self.folder is not None
        name = f"weights-{secrets.token_hex(4)}"
        (self.folder / name).mkdir()
        self.network.write(self.folder / name)
        own: dict[str, Any] = {"strategy": self.strategy, "update": self.update, "seed": self.seed}
        own |= {"step_size": self.step_size, "candidates": self.candidates}
        if isinstance(self.network, _EncoderNetwork):
            own |= {"classes": self.network.phrases, "names": self.network.names}
        record = {
            "encoder": isinstance(self.network, _EncoderNetwork),
            "weights": name,
            "trained_on": self._trained_on,
            "options": own,
            "history": self.history,
        }
        fresh = self.folder / f"{RUN}.new"
        fresh.write_text(json.dumps(record, indent=1))
        fresh.replace(self.folder / RUN)
        for old in self.folder.glob("weights-*"):
            if old.name != name:
                shutil.rmtree(old)


class Batch:
    """Items to label in one round, each chosen after the previous one is labelled."""

    def __init__(self, learner: ActiveLearner, size: int) -> None:
        self.learner, self.size = learner, size

    def __iter__(self) -> Iterator[int]:
        """Yield items until `size` of them are labelled; an item left unlabelled is skipped."""
        end = len(self.learner.labels) + self.size
        while len(self.learner.labels) < end and len(self.learner.pool.free_idx):
            i = self.learner.pick()
            yield i
            if self.learner.pool.where(i) is Where.FREE:
                self.learner.skip(i)

    def label(self, i: int, label: Any) -> None:
        """Learn the label of an item immediately."""
        self.learner.label(i, label)


class FittedHead(NamedTuple):
    """A network's features of the whole pool, and a posterior on these features when they are scaled."""

    features: np.ndarray
    scaling: Scaling
    posterior: Posterior


class _ModuleNetwork:
    """A user's network, trained by a user's function."""

    def __init__(
        self, model: Any, pool: Any, train: Train, layer: str | None, update: str, device: str | None
    ) -> None:
        self.first = model.to(device) if device else model
        self.model = deepcopy(self.first)
        self.pool, self.train, self.layer, self.update = pool, train, layer, update
        self.n_classes = LastLayer(self.model, layer).layer.out_features
        if self.n_classes < 2:
            raise EverylabelError("model has one output; expected one output a class")

    def fit(self, idx: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, Any]:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = deepcopy(self.first)
            self.model = self.train(model, LabelledItems(self.pool, idx, labels)) or model
        return {}

    def head(self, idx: np.ndarray, labels: np.ndarray) -> FittedHead:
        features = self.features(self.pool)
        if not len(idx) or self.update == "exact":
            return _exact_head(features, idx, labels, self.n_classes, None)
        mean = LastLayer(self.model, self.layer).mean().cpu().numpy()  # the paper updates it
        return FittedHead(
            features, no_scaling(features.shape[1]), laplace(mean, features[idx], labels=labels)
        )

    def features(self, items: Any) -> np.ndarray:
        return LastLayer(self.model, self.layer).features(items).double().cpu().numpy()

    def write(self, place: Path) -> None:
        torch.save([self.first.state_dict(), self.model.state_dict()], place / "model.pt")

    def read(self, place: Path) -> None:
        first, now = torch.load(place / "model.pt", weights_only=True)
        self.first = deepcopy(self.first)  # the user's network is not changed
        self.first.load_state_dict(first)
        self.model.load_state_dict(now)


class _EncoderNetwork:
    """A text encoder, fine-tuned and cross-validated; everylabel's head is its last layer."""

    def __init__(
        self,
        model: Any,
        texts: list[str],
        classes: Sequence[str] | Mapping[str, Phrases],
        names: bool,
        recipe: Recipe | None,
        progress: Progress | None,
        device: str | None,
    ) -> None:
        given = classes if isinstance(classes, Mapping) else dict.fromkeys(classes, ())
        self.phrases: dict[str, Phrases] = dict(given)
        self.names, self.recipe, self.progress, self.n_classes = names, recipe, progress, len(self.phrases)
        if not isinstance(model, TunedEncoder):  # a loaded run passes a TunedEncoder
            own = model if isinstance(model, (str, Path)) else deepcopy(model)
            encoder = Encoder(own, blocks=trained_share(self.n_classes), device=device)
            model = TunedEncoder(encoder, encoder.weights(), encoder.weights(), False)
        self.tuned = model
        model.encoder.set_weights(model.frozen)
        self.tuner = Tuner(model.encoder, texts, list(self.phrases), self.phrases if names else None)
        self.rows = self.tuner.features(model)

    def fit(self, idx: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, Any]:
        if len(labels) < LEAST or len(np.unique(labels)) < 2:
            return {"trusted": False}
        known = dict(zip(idx.tolist(), labels.tolist(), strict=True))
        found = self.tuner.tune(known, recipe=self.recipe, seed=seed, progress=self.progress)
        self.tuned, self.rows = found.encoder, found.rows
        return {"trusted": found.trusted, "expected": found.accuracy["tuned" if found.trusted else "frozen"]}

    def head(self, idx: np.ndarray, labels: np.ndarray) -> FittedHead:
        features, names = self.rows[: self.tuner.n], self.tuner.by_class(self.rows)
        return _exact_head(features, idx, labels, self.n_classes, names)

    def features(self, items: Any) -> np.ndarray:
        return self.tuned.embed(list(items))

    def write(self, place: Path) -> None:
        self.tuned.save(place)


def _exact_head(features: np.ndarray, idx: np.ndarray, labels: np.ndarray, k: int, names: Any) -> FittedHead:
    """Return the posterior trained exactly on the labels (the prior if there are none)."""
    if not len(idx) and names is None:
        prior = laplace(
            np.zeros((features.shape[1] + 1, k)), features[:0], prior_precision=suited_precision(k)
        )
        return FittedHead(features, fit_pool_scaling(features), prior)
    head = LaplaceClassifier()
    head.fit(features[idx], labels, unlabelled=features, names=names, classes=np.arange(k))
    return FittedHead(features, head._scaling, head.posterior_)
