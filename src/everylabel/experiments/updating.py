"""The updating experiments (Sec. 4): step size, learning stages, size of D+, speed-up.

In each, a head is trained on |D| random instances, updated with |D+| more by every method, and
compared with a head trained on all of them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from everylabel.core import Posterior, predict_proba, sample, update
from everylabel.core.checks import with_bias
from everylabel.core.updates.monte_carlo import predict_weightings
from everylabel.experiments.data import Data
from everylabel.experiments.engine import Cell, Experiment, seeded
from everylabel.experiments.results import Measurement
from everylabel.experiments.training import (
    accuracy,
    distance,
    posterior,
    train,
    train_with_torchs_parts,
)

SAMPLES = 10_000  # the paper's; fewer where there are many classes or features
MOST_NUMBERS = 4 * 10**7  # weights of all samples together
SAMPLES_NOTE = (
    f"Monte Carlo: {SAMPLES:,} samples, fewer where they would have more than {MOST_NUMBERS // 10**6} "
    "million weights."
)
LONG = 500  # instances above which the recipe is timed once
TESTED = 500  # test instances of a repetition, drawn again for each
BASELINE, RETRAINED, MONTE_CARLO = "baseline", "retraining", "Monte Carlo"
Updates = Mapping[str, tuple[str, float | None]]  # name -> method and step (None: its default)


def n_samples(data: Data) -> int:
    """Return the number of samples of the Monte Carlo update: 10,000 up to 10 classes at d = 384."""
    return min(SAMPLES, MOST_NUMBERS // ((data.x.shape[1] + 1) * data.n_classes))


def usual_updates(data: Data) -> Updates:
    """Return all updates with their usual steps."""
    at_the_mean = {name.replace("_", " "): (name, None) for name in ("second_order", "first_order", "exact")}
    return {**at_the_mean, MONTE_CARLO: ("monte_carlo", data.setting.exponent)}


def tested(cell: Cell, data: Data) -> Data:
    """Return the data with the test instances of this repetition."""
    idx = seeded("tested", cell.dataset, cell.repetition).permutation(len(data.test_x))[:TESTED]
    return data._replace(test_x=data.test_x[idx], test_y=data.test_y[idx])


def draw(data: Data, n: int, n_new: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of D and D+, drawn at random."""
    idx = rng.permutation(len(data.x))[: n + n_new]
    return idx[:n], idx[n:]


class Stages(Experiment):
    """|D+| = 10 at growing |D|: the gain of each update (Fig. 3), and its distance to retraining."""

    name = grid = "stages"
    figure, title = "Fig. 3", "Different learning stages"
    xlabel, relative_to, note = "|D|", BASELINE, SAMPLES_NOTE
    sizes = (10, 20, 30, 50, 100, 200, 500, 1000)
    n_new = 10

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        rng = cell.shared_rng()
        sizes = [n for n in self.sizes if n + self.n_new <= len(data.x)]
        draws = [(*draw(data, n, self.n_new, rng), {n: self.n_new}) for n in sizes]
        return compare(cell, tested(cell, data), draws)


class NewSizes(Experiment):
    """|D| = 100 and growing |D+| (Fig. 4)."""

    name = grid = "new-sizes"
    figure, title = "Fig. 4", "Varying size of the new data"
    xlabel, relative_to, note = "|D+|", BASELINE, SAMPLES_NOTE
    sizes = tuple(range(10, 101, 10))
    n = 100

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        sizes = [size for size in self.sizes if self.n + size <= len(data.x)]
        old, new = draw(data, self.n, max(sizes, default=0), cell.shared_rng())
        return compare(cell, tested(cell, data), [(old, new, {size: size for size in sizes})])


def compare(
    cell: Cell,
    data: Data,
    draws: Sequence[tuple[np.ndarray, np.ndarray, Mapping[int, int]]],
    updates: Updates | None = None,
) -> list[Measurement]:
    """Return test figures of updates, the baseline and retraining: accuracy, and distance to retraining.

    draws : D, D+, and x -> size: the first `size` of D+ are learned, and measured at x
    updates : by default each method with its usual step
    """
    rng, updates = cell.rng(), updates or usual_updates(data)
    steps = {name: step for name, (method, step) in updates.items() if method == "monte_carlo"}
    rows: list[Measurement] = []
    for old, new, sizes in draws:
        base = posterior(data, old, cell.training, rng)
        weightings = [(size, step) for size in sizes.values() for step in steps.values()]
        mixtures = iter(
            reweighted(base, data.x[new], data.y[new], weightings, data.test_x, n_samples(data), rng)
        )
        for x, size in sizes.items():
            some = new[:size]
            states = {BASELINE: base}
            states[RETRAINED] = posterior(data, np.concatenate([old, some]), cell.training, rng)
            for name, (method, step) in updates.items():
                if name not in steps:
                    states[name] = update(base, data.x[some], data.y[some], method, step)
            probs = {name: next(mixtures) for name in steps}
            for name, state in states.items():
                probs[name] = np.asarray(predict_proba(state, data.test_x, "mean"))
            for name, found in probs.items():
                rows.append(Measurement(name, x, "accuracy", accuracy(found, data.test_y)))
                rows.append(Measurement(name, x, "distance", distance(found, probs[RETRAINED])))
    return rows


def reweighted(
    base: Posterior,
    x: np.ndarray,
    y: np.ndarray,
    weightings: Sequence[tuple[int, float | None]],
    at: np.ndarray,
    n: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Return predictions of samples after Monte Carlo updates: for each (size, step), by the first labels."""
    samples = sample(base, n, rng)
    learned = [update(samples, x[:size], y[:size], "monte_carlo", step) for size, step in weightings]
    return [np.asarray(probs) for probs in predict_weightings(learned, with_bias(at))]


class StepSize(Experiment):
    """|D| = 50, |D+| 1 to 10, several steps for every update; validation accuracy (Fig. 2, App. B)."""

    name = grid = "step-size"
    figure, title, note = "Fig. 2, App. B", "Step size", SAMPLES_NOTE
    steps: ClassVar[dict[str, tuple[float, ...]]] = {
        "second_order": (1.0, 3.0, 5.0, 10.0, 20.0, 30.0),
        "first_order": (0.0001, 0.001, 0.01, 0.1),
        "monte_carlo": (0.001, 0.005, 0.01, 0.1, 1.0),
    }
    n, sizes = 50, tuple(range(1, 11))

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        old, new = draw(data, self.n, max(self.sizes), cell.shared_rng())
        updates: dict[str, tuple[str, float | None]] = {"exact": ("exact", None)}
        for method, steps in self.steps.items():
            updates |= {f"{method.replace('_', ' ')}, {step:g}": (method, step) for step in steps}
        validation = data._replace(test_x=data.val_x, test_y=data.val_y)
        rows = compare(cell, validation, [(old, new, {size: size for size in self.sizes})], updates)
        return [row for row in rows if row.metric == "accuracy"]


class SpeedUp(Experiment):
    """Seconds of retraining divided by seconds of updating with |D+| = 10 (Fig. 5)."""

    name = grid = "speed-up"
    figure, title = "Fig. 5", "Speed-up over retraining"
    note = "Processor time of one thread for everything; first order updates the covariance, too."
    sizes = (10, 100, 1000)
    n_new = 10

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
            retraining = _retraining(data, both, rng)
            for name, (method, step) in usual_updates(data).items():
                state: Any = samples if method == "monte_carlo" else base
                seconds = _seconds(partial(update, state, *taught, method, step), 3)
                for way, whole in retraining.items():
                    rows.append(Measurement(name, n, f"speed-up over {way}", whole / seconds))
        return rows


def _retraining(data: Data, idx: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Return the seconds of every training; the recipe only with torch.

    The paper's figure shows CIFAR-10: there the recipe is also timed as written with torch's own parts.
    """
    x, y = data.x[idx], data.y[idx]
    ways = {"fast": _seconds(partial(train, x, y, data, "fast", rng), 1)}
    if find_spec("torch") is not None:
        rounds = 0 if len(idx) > LONG else 1  # warm from the sizes before
        ways["recipe"] = _seconds(partial(train, x, y, data, "recipe", rng), rounds)
        if data.name == "cifar10":
            ways["recipe in torch's parts"] = _seconds(partial(train_with_torchs_parts, x, y, data), rounds)
    return ways


def _seconds(job: Callable[[], Any], rounds: int) -> float:
    """Return the median processor time of some rounds after a warm-up; without rounds, of the warm-up.

    On one thread of an idle machine this is wall-clock time; other processes add little to it.
    """
    times = []
    for _ in range(rounds + 1):
        began = time.process_time()
        job()
        times.append(time.process_time() - began)
    return float(np.median(times[1:] or times))


UPDATING = (StepSize(), Stages(), NewSizes(), SpeedUp())
