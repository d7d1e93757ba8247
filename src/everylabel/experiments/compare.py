"""Learning curves of strategies on your own labelled features: strategies x datasets x repetitions.

A repetition starts with b random labels, the same for all strategies. In each cycle a strategy chooses b
items; then the head is trained exactly on all labels and evaluated on held-out and on unlabelled items.
A strategy that uses the model learns each label before it chooses the next item (the paper's Algorithm 1);
the others, and "margin/batch", choose the b items at once. "skactiveml:Badge" is a strategy of
scikit-activeml.

Strategies are compared by the area under the learning curve, divided by its width.
    win rate     share of repetitions in which one area is larger than the other; ties count half
    regret       largest mean area on a dataset minus the strategy's, averaged over datasets
    rank         by area within a block, averaged over blocks. Two of k strategies differ significantly (5 %)
                 in n blocks if their ranks differ by q sqrt(k (k + 1) / (6 n)) (Nemenyi; Demsar 2006)
Blocks are datasets, or repetitions if there are fewer than MANY datasets.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import fit_map, laplace
from everylabel.core.arrays import log_softmax
from everylabel.core.errors import EverylabelError, need
from everylabel.core.files import write_atomically
from everylabel.experiments.data import Data, Setting, digest_of
from everylabel.experiments.engine import Cell, Experiment
from everylabel.experiments.reporting.summary import Estimate, datasets_of, estimate, runs_of, variants_of
from everylabel.experiments.results import Measurement, Row
from everylabel.experiments.selecting import Choose, Labelled, learning_curve
from everylabel.models.scaling import fit_pool_scaling, suited_precision
from everylabel.selection import select
from everylabel.selection.select import NEED_NO_MODEL
from everylabel.selection.strategies import get

METRICS = {
    "accuracy": "accuracy on held-out items",
    "macro F1": "macro F1 on held-out items",
    "log loss": "log loss on held-out items",
    "accuracy of the rest": "accuracy on items without a label",
}
USUAL = ("random", "margin", "margin/batch", "entropy", "badge/batch", "typiclust", "lookahead", "herding")
AT_ONCE, SKACTIVEML = "/batch", "skactiveml:"  # after, and before, the name of a strategy
MANY = 5


def store_features(folder: Path, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write features and labels of a dataset where every process of a run can load them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.npz", lambda file: np.savez(file, **dict(arrays)))  # type: ignore[arg-type]


@lru_cache(maxsize=2)
def load_features(name: str, folder: str, batch: int) -> Data:
    """Return a stored dataset, scaled by its pool as the labelling page scales it."""
    with np.load(Path(folder) / f"{name}.npz") as file:
        x, y, test_x, test_y = (file[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    digest = digest_of(x, y, test_x, test_y)
    scaling = fit_pool_scaling(x.astype(np.float64))
    x, test_x = scaling(x.astype(np.float64)), scaling(test_x.astype(np.float64))
    k = int(max(y.max(), test_y.max())) + 1
    setting = Setting("features", batch, name)
    return Data(name, x, y, x[:0], y[:0], test_x, test_y, k, setting, digest)


def split(x: np.ndarray, y: np.ndarray, share: float) -> dict[str, np.ndarray]:
    """Return labelled features as training and held-out items, split the same way in every run."""
    known = np.flatnonzero(y >= 0)
    order = np.random.default_rng(0).permutation(known)
    n_test = round(share * len(order))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return {"X_train": x[train], "y_train": y[train], "X_test": x[test], "y_test": y[test]}


class Comparison(Experiment):
    """Learning curves of some strategies, `cycles` batches each."""

    name, figure, title = "compare", "", "Strategies compared"

    def __init__(self, strategies: Sequence[str], batch: int, cycles: int, candidates: int | None) -> None:
        self.strategies = tuple(strategies)
        self.cycles, self.candidates = cycles, candidates
        self.grid = f"compare, b = {batch}, {cycles} cycles, candidates {candidates or 'all'}"
        for strategy in self.strategies:
            chooser(strategy)

    def cells(self, datasets: Sequence[str], repetitions: int) -> list[Cell]:
        """Return all cells, one repetition of everything after the other; no dataset is loaded for that."""
        return [
            Cell(self.grid, name, repetition, "exact", strategy)
            for repetition in range(repetitions)
            for name in datasets
            for strategy in self.strategies
        ]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        single, precision = data.x.astype(np.float32), suited_precision(data.n_classes)
        mean: np.ndarray | None = None

        def fit(labelled: np.ndarray, _: np.random.Generator) -> tuple[Labelled, dict[str, float]]:
            nonlocal mean
            x, y = data.x[labelled], data.y[labelled]
            mean = np.asarray(fit_map(x, y, data.n_classes, precision, init=mean, tol=1e-3))
            posterior = laplace(mean, x, labels=y, prior_precision=precision)
            return Labelled(posterior, data, single, labelled), _evaluate(mean, data, labelled)

        return learning_curve(cell, data, chooser(cell.part, self.candidates), self.cycles, fit)


def _evaluate(mean: np.ndarray, data: Data, labelled: np.ndarray) -> dict[str, float]:
    """Return the value of each of METRICS."""
    from sklearn.metrics import f1_score

    logs = np.asarray(log_softmax(data.test_x @ mean[:-1] + mean[-1]))
    guesses = logs.argmax(axis=1)
    left = np.setdiff1d(np.arange(len(data.x)), labelled)
    rest = (data.x[left] @ mean[:-1] + mean[-1]).argmax(axis=1) == data.y[left]
    values = (
        float(np.mean(guesses == data.test_y)),
        float(f1_score(data.test_y, guesses, average="macro", zero_division=0.0)),
        float(-np.mean(logs[np.arange(len(guesses)), data.test_y])),
        float(rest.mean()) if len(left) else float("nan"),
    )
    return dict(zip(METRICS, values, strict=True))


def chooser(strategy: str, candidates: int | None = None) -> Choose:
    """Return the function that chooses n items by a strategy of ours, or of scikit-activeml.

    candidates : the number of random items to choose from; None: all
    """

    def some(state: Labelled, n: int, rng: np.random.Generator) -> np.ndarray:
        return state.candidates(rng, max(candidates or len(state.x), n))

    if strategy.startswith(SKACTIVEML):
        return _skactiveml(strategy.removeprefix(SKACTIVEML), some)
    name = strategy.removesuffix(AT_ONCE)
    get(name)
    at_once = strategy.endswith(AT_ONCE) or name in NEED_NO_MODEL

    def choose(state: Labelled, n: int, rng: np.random.Generator) -> np.ndarray:
        ask = None if at_once else lambda i: int(state.data.y[i])
        return select(state.pool(), name, n, rng, ask, candidates=some(state, n, rng))

    return choose


def _skactiveml(name: str, some: Choose) -> Choose:
    """Return a chooser of scikit-activeml, by the name of its class, among some candidates."""
    rules: Any = need("skactiveml.pool", "skactiveml", f"the strategy {name}")
    kind: Any = getattr(rules, name, None)
    queries = inspect.isclass(kind) and not inspect.isabstract(kind) and hasattr(kind, "query")
    wants = set(inspect.signature(kind.query).parameters) if queries else set()
    if "candidates" not in wants or wants & {"reg", "query_kwargs"}:
        raise EverylabelError(
            f"strategy is {SKACTIVEML + name!r}; expected a class of skactiveml.pool that chooses for "
            "classification, such as skactiveml:Badge"
        )

    def choose(state: Labelled, n: int, rng: np.random.Generator) -> np.ndarray:
        data, candidates = state.data, some(state, n, rng)
        seed = int(rng.integers(2**31))
        usual = {"random_state": seed, "classes": list(range(data.n_classes))}
        usual = {key: value for key, value in usual.items() if key in inspect.signature(kind).parameters}
        known = np.full(len(data.x), np.nan)
        known[state.idx] = data.y[state.idx]
        models = {key: make(data.n_classes, seed) for key, make in MODELS.items() if key in wants}
        try:
            rule = kind(**usual)
            return np.asarray(rule.query(data.x, known, candidates=candidates, batch_size=n, **models))
        except (TypeError, ValueError) as error:
            raise EverylabelError(f"strategy {SKACTIVEML + name!r} refuses {data.name}: {error}") from error

    return choose


def _classifier(k: int, seed: int) -> Any:
    """Return our model for a strategy of scikit-activeml."""
    from everylabel.integrations.skactiveml import EverylabelClassifier
    from everylabel.models.classifier import LaplaceClassifier

    head = LaplaceClassifier(prior_precision=suited_precision(k), scale_features=False)
    return EverylabelClassifier(head, use_unlabelled=False, classes=range(k), random_state=seed)


def _ensemble(k: int, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    classifiers: Any = need("skactiveml.classifier", "skactiveml", "a strategy that asks an ensemble")
    return classifiers.SklearnClassifier(RandomForestClassifier(random_state=seed), classes=range(k))


MODELS = {"clf": _classifier, "estimator": _classifier, "discriminator": _classifier, "ensemble": _ensemble}


class Summary(NamedTuple):
    """A comparison of strategies by the area under their curves; see the module docstring."""

    strategies: list[str]
    datasets: list[str]
    repetitions: list[int]  # that all strategies have finished, of each dataset
    areas: list[list[Estimate]]  # of each strategy, on each dataset
    wins: np.ndarray  # (strategies, strategies), share of repetitions in which the row is ahead of the column
    regret: np.ndarray  # (strategies,)
    ranks: np.ndarray  # (strategies,), 1 is best
    critical: float  # difference of ranks that is significant; NaN with fewer than two blocks
    blocks: str  # the unit of a rank: dataset or repetition


def summarise(rows: Sequence[Row]) -> Summary:
    """Return the comparison over repetitions that all strategies have finished, best rank first."""
    from scipy.stats import rankdata

    names = variants_of(rows)
    areas: dict[str, np.ndarray] = {}
    for dataset in datasets_of(rows):
        runs = runs_of(rows, "accuracy", dataset).values()
        complete = [[_area(run[name]) for name in names] for run in runs if run.keys() >= set(names)]
        if complete:
            areas[dataset] = np.array(complete)  # (repetitions, strategies)
    if not areas:
        raise EverylabelError(
            "no repetition is complete yet; expected at least one that all strategies finished"
        )
    means = np.array([some.mean(axis=0) for some in areas.values()])
    every = np.concatenate(list(areas.values()))
    ahead = (every[:, :, None] > every[:, None, :]) + 0.5 * (every[:, :, None] == every[:, None, :])
    of_datasets = len(areas) >= MANY
    blocks = means if of_datasets else every
    ranks = np.asarray(rankdata(-blocks, axis=1)).mean(axis=0)  # ties share their mean rank
    regret = (means.max(axis=1, keepdims=True) - means).mean(axis=0)
    best = np.argsort(ranks, kind="stable")
    return Summary(
        [names[i] for i in best],
        list(areas),
        [len(some) for some in areas.values()],
        [[estimate(some[:, i]) for some in areas.values()] for i in best],
        ahead.mean(axis=0)[np.ix_(best, best)],
        regret[best],
        ranks[best],
        critical_difference(len(names), len(blocks)),
        "dataset" if of_datasets else "repetition",
    )


def critical_difference(k: int, n: int) -> float:
    """Return the difference of mean ranks that is significant at 5 %: k strategies, n blocks (Nemenyi)."""
    from scipy.stats import studentized_range

    if k < 2 or n < 2:
        return float("nan")
    return float(studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))


def _area(curve: Mapping[float, float]) -> float:
    x = np.array(sorted(curve))
    values = np.array([curve[at] for at in x])
    return float(np.trapezoid(values, x) / (x[-1] - x[0])) if len(x) > 1 else float(values[0])
