"""Other libraries with plain features, as their users would run them: batches of 10, logistic regression.

scikit-activeml: three of its newer strategies that need only features and a classifier. small-text: breaking
ties, which its authors recommend and which works with a classifier on features (other strategies need a
transformer's embeddings). Both start from random labels, as their examples do.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.labels.curve import Point, batches, measured
from benchmarks.labels.sets import Data
from everylabel.models.scaling import fit_scaling

Choose = Callable[[Any, np.ndarray, np.ndarray, int], Any]  # classifier, labels or NaN, features, n -> rows
STRATEGIES = ("DropQuery", "Falcun", "MaxHerding")


def arms() -> dict[str, Callable[[Data, int], Iterator[Point]]]:
    """Return the arms of the installed libraries; print the missing ones."""
    found: dict[str, Callable[[Data, int], Iterator[Point]]] = {}
    if find_spec("skactiveml"):
        found |= {f"scikit-activeml, {name}": partial(_activeml, name) for name in STRATEGIES}
    if find_spec("small_text"):
        found["small-text, BreakingTies"] = _small_text
    for library, module in (("scikit-activeml", "skactiveml"), ("small-text", "small_text")):
        if not find_spec(module):
            print(f"{library} is not installed, and takes no part: pip install 'everylabel[bench]'")
    return found


def _activeml(name: str, data: Data, seed: int) -> Iterator[Point]:
    from skactiveml import pool as strategies

    query = getattr(strategies, name)(random_state=seed).query

    def choose(model: Any, known: np.ndarray, x: np.ndarray, n: int) -> Any:
        return query(x, known, *([model, False] if name != "MaxHerding" else []), batch_size=n)

    return _curve(data, seed, choose)


def _small_text(data: Data, seed: int) -> Iterator[Point]:
    from small_text import BreakingTies, SklearnDataset

    query = BreakingTies().query

    def choose(model: Any, known: np.ndarray, x: np.ndarray, n: int) -> Any:
        missing = np.isnan(known)
        labels = np.where(missing, 0, known).astype(int)
        pool = SklearnDataset(x, labels, target_labels=np.arange(data.k))
        free, done = np.flatnonzero(missing), np.flatnonzero(~missing)
        return query(_Probabilities(model), pool, free, done, labels[done], n=n)

    return _curve(data, seed, choose)


class _Probabilities:
    """A fitted classifier in small-text's form."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict_proba(self, pool: Any) -> np.ndarray:
        return np.asarray(self.model.predict_proba(pool.x))


def _curve(data: Data, seed: int, choose: Choose) -> Iterator[Point]:
    from skactiveml.classifier import SklearnClassifier
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")
    scaling, _ = fit_scaling(data.x, np.ones(len(data.x)))
    x, x_test = (scaling(part).astype(np.float64) for part in (data.x, data.x_test))
    known, rng = np.full(len(x), np.nan), np.random.default_rng([seed, 3])
    yield measured(data, np.zeros(0, np.int64), np.zeros(len(x_test)), np.zeros(len(x)))
    model = None
    for n, size in batches():
        rows = choose(model, known, x, size) if n else rng.choice(len(x), size, replace=False)
        known[rows] = data.y[rows]
        model = SklearnClassifier(LogisticRegression(), classes=np.arange(data.k))
        labelled = np.flatnonzero(~np.isnan(known))
        model.fit(x[labelled], known[labelled])
        yield measured(data, labelled, model.predict(x_test), model.predict(x))
