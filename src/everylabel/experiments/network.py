"""Updates against retraining the whole network: the paper's framework where the features change, too.

A small network of images (Fashion-MNIST), or a text encoder that is fine-tuned, is trained on all labels;
updates work on its last layer in between. Items are few, so that a repetition takes minutes.
"""

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import Posterior, predict_proba, update
from everylabel.experiments.data import Data
from everylabel.experiments.engine import Cell, Experiment
from everylabel.experiments.results import Measurement
from everylabel.experiments.selecting import CANDIDATES, CHOOSERS, Labelled, learning_curve
from everylabel.experiments.training import accuracy
from everylabel.selection import Pool, select

EPOCHS, STEPS = 200, 150  # the paper's epochs; the most steps of fast training
BATCH_SIZE, RATE = 64, 0.01
CYCLES, BATCH, FIRST = 10, 20, 100
NONE, PAPER, EXACT = "no update", "second order", "exact"
LAST, WHOLE = "last layer retrained", "network retrained"


class State(NamedTuple):
    """A trained network with the posterior of its last layer, and features of pool and test items."""

    posterior: Posterior
    x: np.ndarray
    test_x: np.ndarray

    def accuracy(self, labels: np.ndarray, posterior: Posterior | None = None) -> float:
        """Return the accuracy on test items, by this posterior or another."""
        found = self.posterior if posterior is None else posterior
        return accuracy(np.asarray(predict_proba(found, self.test_x, "mean")), labels)


class Network:
    """The network of one cell: trained on labels from its first weights, seeded by cell and labels."""

    def __init__(self, cell: Cell, data: Data) -> None:
        import torch

        from everylabel.models.active_learner import ActiveLearner
        from everylabel.models.trainers import train_network

        self.data, self.seed = data, int(cell.shared_rng().integers(2**31))
        self.training = cell.training
        options: dict[str, Any] = {"seed": self.seed, "update": "second_order"}
        if data.name == "texts":
            names = [str(c) for c in range(data.n_classes)]
            pool, self.tested = data.x.tolist(), data.test_x.tolist()
            learner = ActiveLearner(data.encoder, pool, classes=names, names=False, **options)
        else:
            with torch.random.fork_rng():
                torch.manual_seed(self.seed)
                first = small_cnn(data.x.shape[2], data.n_classes)
            pool, self.tested = torch.tensor(data.x), torch.tensor(data.test_x)

            def train(model: Any, labelled: Any) -> Any:
                return train_network(
                    model, labelled, epochs=epochs(len(labelled), cell.training), learning_rate=RATE
                )

            learner = ActiveLearner(first, pool, train=train, **options)
        self.network: Any = learner.network

    def fit(self, idx: np.ndarray) -> State:
        """Train on the labels of these items."""
        idx = np.sort(idx)
        self.network.fit(idx, self.data.y[idx], self.seed + len(idx))
        return self.state(idx)

    def state(self, idx: np.ndarray, method: str = "second_order") -> State:
        """Return the posterior of the network's own last layer; for "exact", of a refitted one."""
        idx = np.sort(idx)
        self.network.update = method
        features, scaling, posterior = self.network.head(idx, self.data.y[idx])
        if method != "exact":
            posterior = posterior.replace(data=None)  # as in the other experiments
        return State(posterior, scaling(features), scaling(self.network.features(self.tested)))

    def last_layer(self, idx: np.ndarray) -> State:
        """Return the state after training only the last layer, or the head of an encoder."""
        idx = np.sort(idx)
        if self.data.name == "texts":
            return self.state(idx)
        from everylabel.models.trainers import LabelledItems, train_network

        before = self.network.model
        try:
            labelled = LabelledItems(self.network.pool, idx, self.data.y[idx])
            self.network.model = train_network(
                deepcopy(before),
                labelled,
                layers="last",
                epochs=epochs(len(idx), self.training),
                learning_rate=RATE,
            )
            return self.state(idx)
        finally:
            self.network.model = before


def epochs(n: int, training: str) -> int:
    """Return the number of epochs for n labels."""
    return EPOCHS if training == "recipe" else min(EPOCHS, STEPS // -(-n // BATCH_SIZE))


def small_cnn(width: int, n_classes: int) -> Any:
    """Return a network of two convolutions for gray images."""
    from torch import nn

    left = ((width // 2 - 4) // 2 - 1) ** 2 * 32
    return nn.Sequential(
        *(nn.AvgPool2d(2), nn.Conv2d(1, 16, 4, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(left, 64), nn.ReLU(), nn.Linear(64, n_classes)),
    )


class _OnItems(Experiment):
    on_items = True
    figure = "beyond the paper"
    note = (
        "The network is trained by RAdam on a cosine schedule from its first weights: for 200 epochs, or "
        f"fast, for {STEPS} steps at most; a text encoder by its own recipe."
    )


class NetworkUpdates(_OnItems):
    """|D| = 100 and growing |D+|: updates of the last layer, its retraining, and retraining the network."""

    name = grid = "network-updates"
    title = "Updates against retraining the whole network"
    xlabel, relative_to = "|D+|", NONE
    first, sizes = FIRST, tuple(range(10, 101, 10))

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        order = cell.shared_rng().permutation(len(data.x))
        old, rows = order[: self.first], []
        network = Network(cell, data)
        base = network.fit(old)
        refitted = network.state(old, "exact")
        for size in self.sizes:
            new = order[self.first : self.first + size]
            jobs = {
                NONE: partial(_updated, base, data, new[:0], "second_order"),
                PAPER: partial(_updated, base, data, new, "second_order"),
                EXACT: partial(_updated, refitted, data, new, "exact"),
                LAST: partial(network.last_layer, order[: self.first + size]),
            }
            for variant, job in jobs.items():
                rows += _timed(variant, size, data, job)
        for size in self.sizes:  # last: it changes the network
            rows += _timed(WHOLE, size, data, partial(network.fit, order[: self.first + size]))
        return rows


def _updated(state: State, data: Data, new: np.ndarray, method: str) -> State:
    """Return a state after an update with new labels."""
    if not len(new):
        return state
    return state._replace(posterior=update(state.posterior, state.x[new], data.y[new], method))


def _timed(variant: str, x: float, data: Data, job: Callable[[], State]) -> list[Measurement]:
    """Return accuracy and processor time of a job."""
    began = time.process_time()
    state = job()
    seconds = time.process_time() - began
    return [
        Measurement(variant, x, "accuracy", state.accuracy(data.test_y)),
        Measurement(variant, x, "seconds", seconds),
    ]


class NetworkBatches(_OnItems):
    """Batch strategies over ten cycles of 20 labels, with the network retrained after each."""

    name = grid = "network-batches"
    title = "Batch selection with the network retrained"
    relative_to = "random"
    strategies = (
        "random",
        "margin",
        "margin with updates",
        "Badge",
        "Badge with updates",
        "herding",
        "look-ahead",
    )
    cycles = CYCLES

    def parts(self, data: Data) -> Sequence[str]:
        return self.strategies

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        network = Network(cell, data)

        def fit(labelled: np.ndarray, _: np.random.Generator) -> tuple[Labelled, dict[str, float]]:
            state = network.fit(labelled)
            known = Labelled(state.posterior, data, state.x.astype(np.float32), labelled)
            return known, {"accuracy": state.accuracy(data.test_y)}

        return learning_curve(cell, data, CHOOSERS[cell.part], self.cycles, fit)


class NetworkIntervals(_OnItems):
    """200 labels by margin: the network retrained every 10 to 100, with and without updates between."""

    name = grid = "network-intervals"
    title = "How often to retrain the network"
    relative_to = f"every 10, {NONE}"
    every = (10, 25, 50, 100)
    between = (PAPER, EXACT, NONE)
    n, step = 200, 5  # labels; and between two measurements

    def parts(self, data: Data) -> Sequence[str]:
        return [f"every {m}, {how}" for m in self.every for how in self.between]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        every, how = cell.part.removeprefix("every ").split(", ")
        network, rng, first = Network(cell, data), cell.rng(), data.setting.batch
        labelled = list(cell.shared_rng().choice(len(data.x), first, replace=False))
        rows = []
        while True:
            state = network.fit(np.array(labelled))
            if how == EXACT:
                state = network.state(np.array(labelled), "exact")
            method = "exact" if how == EXACT else "second_order"
            pool = Pool(
                state.x, state.posterior, labelled_idx=labelled, labels=data.y[labelled], method=method
            )
            ahead = iter(select(pool, "margin", int(every), rng, candidates=CANDIDATES))
            for _ in range(min(int(every), first + self.n - len(labelled))):
                if len(labelled) % self.step == 0:
                    found = state.accuracy(data.test_y, pool.posterior)
                    rows.append(Measurement(cell.part, len(labelled), "accuracy", found))
                if how == NONE:
                    labelled.append(int(next(ahead)))
                    continue
                chosen = int(select(pool, "margin", 1, rng, candidates=CANDIDATES)[0])
                pool.add(chosen, int(data.y[chosen]))
                labelled.append(chosen)
            if len(labelled) >= first + self.n:
                found = network.fit(np.array(labelled)).accuracy(data.test_y)
                return [*rows, Measurement(cell.part, len(labelled), "accuracy", found)]


NETWORK = (NetworkUpdates(), NetworkBatches(), NetworkIntervals())
