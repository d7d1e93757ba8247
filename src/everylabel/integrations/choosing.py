"""Choosing instances for other libraries.

These libraries hold features and labels themselves, so a pool is made for each query.
"""

from typing import Any, NamedTuple

import numpy as np

from everylabel.core import laplace
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.labels import encode
from everylabel.models.scaling import Scaling, fit_pool_scaling
from everylabel.selection import Pool, select
from everylabel.selection.select import acting_strategy
from everylabel.selection.strategies import get
from everylabel.selection.strategies.strategy import all_scores

__all__ = ["pool_of"]


class Chosen(NamedTuple):
    """Positions in the pool, in the order of picking, and the scores of the candidates, if any."""

    idx: np.ndarray
    scores: np.ndarray | None


def pool_of(classifier: LaplaceClassifier, X: np.ndarray, idx: np.ndarray, y: np.ndarray) -> Pool:
    """Return a pool of instances X with labels y at idx, scaled as a fitted classifier does.

    For libraries that keep features and labels themselves and ask for positions.

    Examples
    --------
    >>> from everylabel.integrations.choosing import pool_of
    >>> known = np.arange(50)
    >>> classifier = el.LaplaceClassifier().fit(x[known], y[known], unlabelled=x)
    >>> pool = pool_of(classifier, x, known, y[known])
    >>> len(el.select(pool, "margin", n=5))
    5
    """
    if len(classifier.classes_) < 2:  # no classes to distinguish
        return blank_pool(X, idx)
    scaling = Scaling(classifier.center_, classifier.scale_, classifier.matrix_)
    labels = encode(y, classifier.classes_)
    return Pool(scaling(X), classifier.posterior_, labelled_idx=idx, labels=labels)


def blank_pool(X: np.ndarray, idx: np.ndarray | None = None) -> Pool:
    """Return a pool with an untrained model; the instances at idx are labelled with one class."""
    features = fit_pool_scaling(X)(X)
    nothing = laplace(np.zeros((X.shape[1] + 1, 2)), features[:0])
    labels = None if idx is None else np.zeros(len(idx), np.int64)
    return Pool(features, nothing, labelled_idx=idx, labels=labels)


def choose(
    pool: Pool,
    strategy: str,
    n: int,
    candidates: np.ndarray,
    seed: int,
    options: dict[str, Any],
    scored: bool = True,
) -> Chosen:
    """Return the n best of the candidates by a strategy, and if `scored` the scores of all of them."""
    rng = np.random.default_rng(seed)
    picked = select(pool, strategy, n, rng, candidates=candidates, **options)
    acting = get(acting_strategy(strategy, pool))
    if not acting.has_scores or not scored:
        return Chosen(picked, None)
    options = options if acting.name == strategy else {}
    if "n_candidates" in acting.options:  # as in select: at least n are tried
        tried = options.get("n_candidates", acting.options["n_candidates"])
        options = {**options, "n_candidates": max(n, tried)}
    found = all_scores(acting, pool, np.sort(candidates), np.random.default_rng(seed), **options)
    return Chosen(picked, np.asarray(found)[np.argsort(np.argsort(candidates))])
