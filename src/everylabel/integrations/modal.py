"""modAL: strategies as query functions.

>>> learner = ActiveLearner(LaplaceClassifier(), query_strategy("herding"), X[:20], y[:20])
>>> idx, rows = learner.query(X_pool, n_instances=5)
>>> learner.teach(rows, y_pool[idx])
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from everylabel.core import EverylabelError
from everylabel.integrations.choosing import blank_pool, choose, pool_of
from everylabel.models.classifier import LaplaceClassifier
from everylabel.selection.strategies import DEFAULT, get

__all__ = ["query_strategy"]

Query = Callable[..., tuple[np.ndarray, np.ndarray]]


def query_strategy(strategy: str = DEFAULT, *, seed: int | None = None, **options: Any) -> Query:
    """Return a modAL query function: f(learner, X_pool, n_instances=1) -> (indices, metrics).

    Parameters
    ----------
    strategy : str
        A name from `everylabel.strategies()`.
    seed : int, optional
        Of all random choices; None draws a new one for each query.
    **options
        Options of the strategy.

    The learner's estimator is a `LaplaceClassifier`, or a pipeline that ends in one; all its training
    examples count as labelled. metrics are the scores of the chosen instances, NaN for strategies that score
    batches as a whole. Before the first label, Typiclust picks.

    Examples
    --------
    >>> from modAL.models import ActiveLearner
    >>> from everylabel.integrations.modal import query_strategy
    >>> learner = ActiveLearner(el.LaplaceClassifier(), query_strategy("margin"), x[:50], y[:50])
    >>> idx, rows = learner.query(x[50:500], n_instances=5)
    """
    get(strategy).check(options)

    def query(learner: Any, X_pool: Any, n_instances: int = 1) -> tuple[np.ndarray, np.ndarray]:
        steps, classifier = _parts(learner.estimator)
        X = _rows(steps, X_pool)
        if hasattr(classifier, "posterior_"):
            known, labels, _ = classifier.examples_
            everything = np.concatenate([X, known])
            pool = pool_of(classifier, everything, np.arange(len(X), len(everything)), labels)
        else:
            pool = blank_pool(X)
        now = np.random.default_rng().integers(2**31) if seed is None else seed
        chosen = choose(pool, strategy, n_instances, np.arange(len(X)), int(now), options)
        scores = np.full(len(X), np.nan) if chosen.scores is None else chosen.scores
        return chosen.idx, scores[chosen.idx]

    return query


def _parts(estimator: Any) -> tuple[Pipeline | None, LaplaceClassifier]:
    steps, last = (estimator[:-1], estimator[-1]) if isinstance(estimator, Pipeline) else (None, estimator)
    if not isinstance(last, LaplaceClassifier):
        raise EverylabelError(
            f"the learner's estimator is a {type(last).__name__}; expected a LaplaceClassifier, or a "
            "pipeline that ends in one"
        )
    return steps, last


def _rows(steps: Pipeline | None, X: Any) -> np.ndarray:
    rows = X if steps is None else steps.transform(X)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)
