"""The active-learning experiments (Sec. 5, App. F): batches with updates, and look-ahead.

In each cycle: train on all labels, measure, choose b more instances. In a repetition every strategy starts
from the same b random instances; each strategy is one cell.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import Posterior, fit_map, laplace, predict_proba
from everylabel.experiments.data import CYCLES, Data
from everylabel.experiments.engine import Cell, Experiment
from everylabel.experiments.results import Measurement
from everylabel.experiments.training import accuracy, train
from everylabel.selection import Pool, optimal_batch, select
from everylabel.selection.strategies import DEFAULT

FEWER_CYCLES = 10  # cycles of the experiments beyond the paper
CANDIDATES = 1000  # App. F: drawn again in every cycle
LARGE = 100  # batch size from which look-ahead is reduced; see the choosers
BATCHES = 2000


class Labelled(NamedTuple):
    """The state of a learning curve when it chooses."""

    posterior: Posterior
    data: Data
    x: np.ndarray  # (n, d) the pool's features in single precision
    idx: np.ndarray  # labelled instances

    def pool(self) -> Pool:
        """Return the whole pool."""
        return Pool(self.x, self.posterior, labelled_idx=self.idx, labels=self.data.y[self.idx])

    def candidates(self, rng: np.random.Generator, most: int = CANDIDATES) -> np.ndarray:
        """Return the candidates of a cycle: `most` random instances without a label, or all."""
        free = np.setdiff1d(np.arange(len(self.x)), self.idx)
        return free if len(free) <= most else np.sort(rng.choice(free, most, replace=False))


Choose = Callable[[Labelled, int, np.random.Generator], np.ndarray]
Fit = Callable[[np.ndarray, np.random.Generator], tuple[Labelled, dict[str, float]]]  # and figures by metric


def _among_candidates(strategy: str, updates: bool = False) -> Choose:
    """Return a chooser among 1,000 random candidates: the b best, or by Algorithm 1 with the true labels."""

    def choose(state: Labelled, n: int, rng: np.random.Generator) -> np.ndarray:
        idx = state.candidates(rng)
        ask = state.data.y[idx].__getitem__ if updates else None
        return idx[select(Pool(state.x[idx], state.posterior), strategy, n, rng, ask)]

    return choose


def _from_pool(strategy: str, updates: bool = True, candidates: int | None = None) -> Choose:
    """Return a chooser that keeps the whole pool up to date.

    Look-ahead tries 300 candidates on 1,000 instances before each pick; for large batches 60 on 300.
    """

    def choose(state: Labelled, n: int, rng: np.random.Generator) -> np.ndarray:
        options: dict[str, Any] = {}
        if strategy == "lookahead" and n >= LARGE:
            options = {"n_candidates": 60, "n_eval": 300}
        ask = state.data.y.__getitem__ if updates else None
        return select(state.pool(), strategy, n, rng, ask, candidates=candidates, **options)

    return choose


def _optimal(batches: str = "random", metric: str = "accuracy") -> Choose:
    """Return a chooser of the best of 2,000 batches; of large ones 500, each learned jointly."""

    def choose(state: Labelled, n: int, rng: np.random.Generator) -> np.ndarray:
        return optimal_batch(
            state.pool(),
            state.data.y,
            state.data.val_x,
            state.data.val_y,
            n,
            BATCHES // 4 if n >= LARGE else BATCHES,
            rng=rng,
            candidates=CANDIDATES,
            batches=batches,
            metric=metric,
            joint=n >= LARGE,
        )

    return choose


CHOOSERS: dict[str, Choose] = {
    "random": _among_candidates("random"),
    "margin": _among_candidates("margin"),
    "margin with updates": _among_candidates("margin", updates=True),
    "Badge": _among_candidates("badge"),
    "Badge with updates": _among_candidates("badge_norm", updates=True),
    "Typiclust": _from_pool("typiclust", updates=False, candidates=10_000),
    "optimal": _optimal(),
    "optimal, mixed batches": _optimal(batches="mixed", metric="log_loss"),
    "look-ahead": _from_pool("lookahead", candidates=CANDIDATES),
    "margin with updates, whole pool": _from_pool("margin"),
    "look-ahead, whole pool": _from_pool("lookahead"),
    DEFAULT: _from_pool(DEFAULT),
}


class _Curves(Experiment):
    """Learning curves of some strategies over 20 cycles; experiments that share a grid share them."""

    grid = "learning-curves"
    relative_to = "random"

    def parts(self, data: Data) -> Sequence[str]:
        large = data.setting.batch >= LARGE
        return [name for name in self.strategies if not (large and name in self.small_only)]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        return self.curve(cell, data, CYCLES)

    def curve(self, cell: Cell, data: Data, cycles: int) -> list[Measurement]:
        """Return the learning curve of the cell's strategy."""
        fit = fit_last_layer(data, cell.training)
        return learning_curve(cell, data, CHOOSERS[cell.part], cycles, fit)


class BatchSelection(_Curves):
    """Margin and Badge with and without updates between the picks (Fig. 6)."""

    name, figure, title = "batch-selection", "Fig. 6", "Batch selection with updates"
    strategies = ("random", "margin", "margin with updates", "Badge", "Badge with updates")


class OptimalLookAhead(_Curves):
    """The upper baseline, and our look-ahead that needs no oracle (Fig. 7)."""

    name, figure, title = "look-ahead", "Fig. 7", "Optimal look-ahead"
    strategies = ("random", "margin", "Badge", "Typiclust", "optimal", "optimal, mixed batches", "look-ahead")
    small_only = ("optimal, mixed batches",)
    note = (
        f"With b of {LARGE} and more the optimal look-ahead tries {BATCHES // 4} batches, each learned "
        f"jointly, instead of {BATCHES:,}, mixed batches are left out, and ours tries 60 candidates on 300 "
        "instances before each pick instead of 300 on 1,000."
    )


class DefaultChoice(_Curves):
    """The default strategy of `select` (beyond the paper); the demo shows it."""

    name, figure, title = "default-choice", "beyond the paper", "The default choice"
    strategies = (DEFAULT,)


class WholePool(_Curves):
    """Choosing from all instances instead of 1,000 candidates (beyond the paper)."""

    name, figure, title = "whole-pool", "beyond the paper", "The whole pool instead of 1,000 candidates"
    strategies = (
        "margin with updates",
        "margin with updates, whole pool",
        "look-ahead",
        "look-ahead, whole pool",
    )
    small_only = ("look-ahead, whole pool",)
    relative_to = "margin with updates"


class _Harder(_Curves):
    """Fewer cycles of a few strategies on data made harder, the same for all of a repetition."""

    figure = "beyond the paper"
    strategies = ("random", "margin", "margin with updates", "look-ahead")
    small_only = ("look-ahead",)

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        return self.curve(cell, self.harder(data, cell.shared_rng()), FEWER_CYCLES)

    @abstractmethod
    def harder(self, data: Data, rng: np.random.Generator) -> Data:
        """Return the harder data."""


class LabelNoise(_Harder):
    """One label in ten is wrong (beyond the paper)."""

    name = grid = "label-noise"
    title = "One label in ten is wrong"
    share = 0.1

    def harder(self, data: Data, rng: np.random.Generator) -> Data:
        wrong = rng.random(len(data.y)) < self.share
        others = (data.y + rng.integers(1, data.n_classes, size=len(data.y))) % data.n_classes
        return data._replace(y=np.where(wrong, others, data.y))


class Imbalance(_Harder):
    """Half of the classes keep a tenth of their instances (beyond the paper)."""

    name = grid = "imbalance"
    title = "Half of the classes are rare"
    keep = 0.1

    def harder(self, data: Data, rng: np.random.Generator) -> Data:
        kept = np.flatnonzero((data.y % 2 == 0) | (rng.random(len(data.y)) < self.keep))
        return data._replace(x=data.x[kept], y=data.y[kept])


def learning_curve(cell: Cell, data: Data, choose: Choose, cycles: int, fit: Fit) -> list[Measurement]:
    """Return the figures after every cycle of b labels; the first labels are random."""
    rng, batch = cell.rng(), data.setting.batch
    labelled = cell.shared_rng().choice(len(data.x), min(batch, len(data.x)), replace=False)
    rows: list[Measurement] = []
    for cycle in range(cycles + 1):
        state, figures = fit(labelled, rng)
        rows += [Measurement(cell.part, len(labelled), *figure) for figure in figures.items()]
        if cycle == cycles or len(labelled) + batch > len(data.x):
            break
        labelled = np.concatenate([labelled, choose(state, batch, rng)])
    return rows


def fit_last_layer(data: Data, training: str) -> Fit:
    """Return a function that trains the last layer and measures its accuracy on test items."""
    single = data.x.astype(np.float32)
    mean: np.ndarray | None = None

    def fit(labelled: np.ndarray, rng: np.random.Generator) -> tuple[Labelled, dict[str, float]]:
        nonlocal mean
        x, y = data.x[labelled], data.y[labelled]
        if training == "fast":  # from the last mean, until the gradient is 1/1000 of its norm at zero
            mean = np.asarray(fit_map(x, y, data.n_classes, init=mean, tol=1e-3))
        else:
            mean = train(x, y, data, training, rng)
        posterior = laplace(mean, x, keep_data=False)
        probs = np.asarray(predict_proba(posterior, data.test_x, "mean"))
        return Labelled(posterior, data, single, labelled), {"accuracy": accuracy(probs, data.test_y)}

    return fit


SELECTING = (BatchSelection(), OptimalLookAhead(), WholePool(), LabelNoise(), Imbalance())
