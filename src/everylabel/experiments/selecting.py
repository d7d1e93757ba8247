"""The active-learning experiments (Sec. 5, App. F): batches with updates, and look-ahead.

A cycle: train on what is labelled, measure, choose b more of the candidates. Every strategy starts a
repetition from the same b random instances; each part of a cell is one strategy.
"""

from collections.abc import Callable, Sequence

import numpy as np

from everylabel.core import fit_map, laplace, predict_proba
from everylabel.experiments.data import Data
from everylabel.experiments.engine import Cell
from everylabel.experiments.metrics import accuracy
from everylabel.experiments.results import Measurement
from everylabel.experiments.updating import train
from everylabel.selection import Pool, optimal_batch, select

CYCLES = 20
CANDIDATES = 1000  # App. F: drawn anew in every cycle

Choose = Callable[[Pool, Data, int, np.random.Generator], np.ndarray]


def _by(strategy: str, updates: bool = False, candidates: int | None = CANDIDATES) -> Choose:
    """Return a chooser: top-b, or (with updates) Algorithm 1 with the true labels as oracle."""

    def choose(pool: Pool, data: Data, n: int, rng: np.random.Generator) -> np.ndarray:
        ask = (lambda idx: int(data.y[idx])) if updates else None
        return select(pool, strategy, n, rng, ask, candidates=candidates)

    return choose


def _optimal(pool: Pool, data: Data, n: int, rng: np.random.Generator) -> np.ndarray:
    return optimal_batch(pool, data.y, data.val_x, data.val_y, n, 2000, rng=rng, candidates=CANDIDATES)


CHOOSERS: dict[str, Choose] = {
    "random": _by("random"),
    "margin": _by("margin"),
    "margin with updates": _by("margin", updates=True),
    "Badge": _by("badge"),
    "Badge with updates": _by("badge_norm", updates=True),
    "Typiclust": _by("typiclust", candidates=10_000),
    "optimal": _optimal,
    "look-ahead": _by("lookahead", updates=True),
    "margin with updates, whole pool": _by("margin", updates=True, candidates=None),
    "look-ahead, whole pool": _by("lookahead", updates=True, candidates=None),
}


class _Curves:
    """Learning curves of some strategies over 20 cycles."""

    name = figure = title = ""
    strategies: tuple[str, ...] = ()

    def parts(self, data: Data) -> Sequence[str]:
        return self.strategies

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        return learning_curve(cell, data, CHOOSERS[cell.part], data.y)


class BatchSelection(_Curves):
    """Margin and Badge with and without updates between the picks (Fig. 6)."""

    name, figure, title = "batch-selection", "Fig. 6", "Batch selection with updates"
    strategies = ("random", "margin", "margin with updates", "Badge", "Badge with updates")


class OptimalLookAhead(_Curves):
    """The upper baseline, and our look-ahead that needs no oracle (Fig. 7)."""

    name, figure, title = "look-ahead", "Fig. 7", "Optimal look-ahead"
    strategies = ("random", "margin", "Badge", "Typiclust", "optimal", "look-ahead")


class WholePool(_Curves):
    """Choosing from all instances instead of 1,000 candidates (beyond the paper)."""

    name, figure, title = "whole-pool", "beyond the paper", "The whole pool instead of 1,000 candidates"
    strategies = (
        "margin with updates",
        "margin with updates, whole pool",
        "look-ahead",
        "look-ahead, whole pool",
    )


class LabelNoise(_Curves):
    """One label in ten is wrong (beyond the paper)."""

    name, figure, title = "label-noise", "beyond the paper", "One label in ten is wrong"
    strategies = ("random", "margin", "margin with updates", "look-ahead")
    share = 0.1

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        rng = cell.shared_rng()
        wrong = rng.random(len(data.y)) < self.share
        noisy = np.where(wrong, rng.integers(data.n_classes, size=len(data.y)), data.y)
        return learning_curve(cell, data._replace(y=noisy), CHOOSERS[cell.part], noisy)


class Imbalance(_Curves):
    """Half of the classes keep a tenth of their instances (beyond the paper)."""

    name, figure, title = "imbalance", "beyond the paper", "Half of the classes are rare"
    strategies = ("random", "margin", "margin with updates", "look-ahead")
    keep = 0.1

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        rng = cell.shared_rng()
        rare = data.y % 2 == 1
        kept = np.flatnonzero(~rare | (rng.random(len(data.y)) < self.keep))
        thinned = data._replace(x=data.x[kept], y=data.y[kept])
        return learning_curve(cell, thinned, CHOOSERS[cell.part], thinned.y)


def learning_curve(cell: Cell, data: Data, choose: Choose, labels: np.ndarray) -> list[Measurement]:
    """Return test accuracy after every cycle of b labels."""
    b = data.setting.batch
    rng = cell.rng()
    labelled = cell.shared_rng().choice(len(data.x), b, replace=False)
    mean: np.ndarray | None = None
    rows = []
    for cycle in range(CYCLES + 1):
        x, y = data.x[labelled], labels[labelled]
        if cell.training == "fast":  # to a tenth of a per cent, from where the last cycle ended
            mean = np.asarray(fit_map(x, y, data.n_classes, init=mean, tol=1e-3))
        else:
            mean = train(x, y, data, cell.training, rng)
        posterior = laplace(mean, x)
        probs = np.asarray(predict_proba(posterior, data.test_x, "mean"))
        rows.append(Measurement(cell.part, len(labelled), "accuracy", accuracy(probs, data.test_y)))
        if cycle == CYCLES or len(labelled) + b > len(data.x):
            break
        pool = Pool(data.x, posterior, labelled_idx=labelled, labels=y)
        labelled = np.concatenate([labelled, choose(pool, data, b, rng)])
    return rows
