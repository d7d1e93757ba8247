"""The updating experiments (Sec. 4): step size, learning stages, size of D+, speed-up.

In each, a head is trained on |D| random instances, updated with |D+| more by every method, and
compared with a head trained on all of them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from everylabel.core import Posterior, fit_map, laplace, predict_proba, sample, update
from everylabel.experiments.data import Data
from everylabel.experiments.engine import Cell
from everylabel.experiments.metrics import accuracy, calibration_error, distance, flips, log_loss
from everylabel.experiments.results import Measurement

Update = Callable[[Any, np.ndarray, np.ndarray], Any]
SAMPLES = 10_000  # the paper's; fewer where they would not fit in memory
MOST_NUMBERS = 10**8  # of all samples' weights together
BASELINE, RETRAINED = "baseline", "retraining"


def train(x: np.ndarray, y: np.ndarray, data: Data, training: str, rng: np.random.Generator) -> np.ndarray:
    """Return last-layer weights by the paper's recipe or, fast, by exact training."""
    if training == "fast":
        return np.asarray(fit_map(x, y, data.n_classes, tol=1e-6))
    from everylabel.models.recipe import train_head

    rate = data.setting.learning_rate
    return train_head(x, y, data.n_classes, rng, learning_rate=rate).numpy().astype(np.float64)


def updates(data: Data) -> dict[str, Update]:
    """Return the updates compared in Sec. 4, with the paper's step sizes."""
    return {
        "second order": lambda state, x, y: update(state, x, y, "second_order"),
        "first order": lambda state, x, y: update(state, x, y, "first_order"),
        "Monte Carlo": lambda state, x, y: update(state, x, y, "monte_carlo", data.setting.exponent),
        "exact": lambda state, x, y: update(state, x, y, "exact"),
    }


def n_samples(data: Data) -> int:
    """Return how many samples the Monte Carlo update draws: 10,000 up to some 25 classes at d = 384."""
    return min(SAMPLES, MOST_NUMBERS // ((data.x.shape[1] + 1) * data.n_classes))


def draw(data: Data, n: int, n_new: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of D and D+, drawn at random."""
    idx = rng.permutation(len(data.x))[: n + n_new]
    return idx[:n], idx[n:]


class Stages:
    """|D+| = 10 at growing |D|: what each update gains (Fig. 3), and how close it is to retraining."""

    name, figure, title = "stages", "Fig. 3", "Different learning stages"
    sizes = (10, 20, 30, 40, 50, 100, 200, 500, 1000)
    n_new = 10

    def parts(self, data: Data) -> Sequence[str]:
        return [""]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        rng = cell.shared_rng()
        rows: list[Measurement] = []
        for n in self.sizes:
            if n + self.n_new > len(data.x):
                break
            old, new = draw(data, n, self.n_new, rng)
            rows += compare(cell, data, old, new, n)
        return rows


class NewSizes:
    """|D| = 100 and growing |D+| (Fig. 4)."""

    name, figure, title = "new-sizes", "Fig. 4", "Varying size of the new data"
    sizes = tuple(range(10, 101, 10))
    n = 100

    def parts(self, data: Data) -> Sequence[str]:
        return [""]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        old, new = draw(data, self.n, max(self.sizes), cell.shared_rng())
        rows: list[Measurement] = []
        for size in self.sizes:
            rows += compare(cell, data, old, new[:size], size)
        return rows


def compare(cell: Cell, data: Data, old: np.ndarray, new: np.ndarray, x: float) -> list[Measurement]:
    """Return test figures of the baseline, every update and retraining at one size."""
    rng = cell.rng(len(old), len(new))
    both = np.concatenate([old, new])
    base = posterior(data, old, cell.training, rng)
    states: dict[str, Any] = {BASELINE: base, RETRAINED: posterior(data, both, cell.training, rng)}
    for name, learn in updates(data).items():
        start = sample(base, n_samples(data), rng) if name == "Monte Carlo" else base
        states[name] = learn(start, data.x[new], data.y[new])
    truth = probabilities(states[RETRAINED], data.test_x)
    return [
        row
        for name, state in states.items()
        for row in figures(name, x, probabilities(state, data.test_x), truth, data.test_y)
    ]


def posterior(data: Data, idx: np.ndarray, training: str, rng: np.random.Generator) -> Posterior:
    """Return the Laplace posterior of a head trained on these instances (prior precision 1)."""
    return laplace(train(data.x[idx], data.y[idx], data, training, rng), data.x[idx])


def probabilities(state: Any, x: np.ndarray) -> np.ndarray:
    """Return predictions at the mean, or the samples' average."""
    return np.asarray(predict_proba(state, x, "mean" if isinstance(state, Posterior) else None))


def figures(
    variant: str, x: float, probs: np.ndarray, truth: np.ndarray, labels: np.ndarray
) -> Iterator[Measurement]:
    """Yield accuracy, calibration, and the distance and flips against retraining."""
    values = {
        "accuracy": accuracy(probs, labels),
        "log loss": log_loss(probs, labels),
        "calibration error": calibration_error(probs, labels),
        "distance": distance(probs, truth),
        "flips": flips(probs, truth),
    }
    for metric, value in values.items():
        yield Measurement(variant, x, metric, value)


class StepSize:
    """|D| = 50, |D+| 1 to 10, several steps for every update; validation accuracy (Fig. 2, App. B)."""

    name, figure, title = "step-size", "Fig. 2, App. B", "Step size"
    steps: ClassVar[dict[str, tuple[float, ...]]] = {
        "second_order": (1.0, 3.0, 5.0, 10.0, 20.0, 30.0),
        "first_order": (0.0001, 0.001, 0.01, 0.1),
        "monte_carlo": (0.001, 0.005, 0.01, 0.1, 1.0),
    }
    n, sizes = 50, tuple(range(1, 11))

    def parts(self, data: Data) -> Sequence[str]:
        return [""]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        old, new = draw(data, self.n, max(self.sizes), cell.shared_rng())
        rng = cell.rng()
        base = posterior(data, old, cell.training, rng)
        samples = sample(base, n_samples(data), rng)
        rows = []
        for size in self.sizes:
            taught = data.x[new[:size]], data.y[new[:size]]
            states: dict[str, Any] = {
                BASELINE: base,
                RETRAINED: posterior(data, np.concatenate([old, new[:size]]), cell.training, rng),
                "exact": update(base, *taught, "exact"),
            }
            for method, steps in self.steps.items():
                start: Any = samples if method == "monte_carlo" else base
                for step in steps:
                    states[f"{method.replace('_', ' ')}, {step:g}"] = update(start, *taught, method, step)
            rows += [
                Measurement(name, size, "accuracy", accuracy(probabilities(state, data.val_x), data.val_y))
                for name, state in states.items()
            ]
        return rows


class SpeedUp:
    """Seconds of retraining divided by seconds of updating with |D+| = 10 (Fig. 5)."""

    name, figure, title = "speed-up", "Fig. 5", "Speed-up over retraining"
    sizes = (10, 100, 1000)
    n_new = 10

    def parts(self, data: Data) -> Sequence[str]:
        return [""]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        rng = cell.shared_rng()
        rows = []
        for n in self.sizes:
            if n + self.n_new > len(data.x):
                break
            old, new = draw(data, n, self.n_new, rng)
            both = np.concatenate([old, new])
            base = posterior(data, old, "fast", rng)
            samples = sample(base, n_samples(data), rng)
            taught = data.x[new], data.y[new]
            retraining = {
                name: _seconds(partial(train, data.x[both], data.y[both], data, name, rng), 1)
                for name in ("recipe", "fast")
            }
            for name, learn in updates(data).items():
                start: Any = samples if name == "Monte Carlo" else base
                seconds = _seconds(partial(learn, start, *taught), 3)
                rows += [
                    Measurement(name, n, f"speed-up over {way}", retraining[way] / seconds)
                    for way in retraining
                ]
        return rows


def _seconds(job: Callable[[], Any], rounds: int) -> float:
    """Return the shortest time of a few rounds after a warm-up."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return min(times[1:])
