"""The same strategies in other libraries: time and peak memory at N = 10,000, d = 384, k = 10, b = 10.

Times are of choosing only: classifiers are fitted before. Memory is what NumPy and Python allocate
at the peak, beyond what was there before.
"""

import time
import tracemalloc
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import everylabel as el

N, D, K, B, LABELLED = 10_000, 384, 10, 10, 100


def measure(job: Callable[[], Any], rounds: int = 3) -> tuple[float, float]:
    """Return the least seconds of some rounds and the peak memory in MB of one more."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(times), peak


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, el.Pool]:
    """Return features, true labels, labels with NaN where unknown, and our pool."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=n)
    x = (rng.normal(size=(K, d))[y] + 2.0 * rng.normal(size=(n, d))).astype(np.float32)
    known = rng.choice(n, min(LABELLED, n // 2), replace=False)
    post = el.laplace(el.fit_map(x[known], y[known], K), x[known])
    partial = np.full(n, np.nan)
    partial[known] = y[known]
    return x, y, partial, el.Pool(x, post, labelled_idx=known, labels=y[known])


def batches() -> list[dict[str, Any]]:
    """Return rows of strategy, other library, both times and both peaks."""
    warnings.simplefilter("ignore")
    x, _, partial, pool = problem(N, D)
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []

    def compare(name: str, peer: str, theirs: Callable[[], Any], factor: float = 1.0, **options: Any) -> None:
        ours, memory = measure(lambda: el.select(pool, name, B, rng, **options))
        their_time, their_memory = measure(theirs, 1)
        rows.append(
            {
                "strategy": name,
                "peer": peer,
                "ours_s": ours,
                "theirs_s": their_time * factor,
                "speedup": their_time * factor / ours,
                "ours_mb": memory,
                "theirs_mb": their_memory,
                "target": 5.0,
            }
        )

    if find_spec("skactiveml"):
        _scikit_activeml(x, partial, compare)
    else:
        rows.append({"strategy": "all", "peer": "scikit-activeml is not installed"})
    if find_spec("small_text"):
        from small_text.query_strategies import greedy_coreset

        known, free = np.flatnonzero(~np.isnan(partial)), np.flatnonzero(np.isnan(partial))
        compare("coreset", "small-text", lambda: greedy_coreset(x, free, known, B))
    if find_spec("batchbald_redux"):
        _batchbald_redux(x, pool, compare)
    return rows


def _scikit_activeml(x: np.ndarray, partial: np.ndarray, compare: Callable[..., None]) -> None:
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import Badge, BatchBALD, CoreSet, TypiClust
    from sklearn.linear_model import LogisticRegression

    def classifier(seed: int = 0) -> Any:
        known = np.random.default_rng(seed).choice(np.flatnonzero(~np.isnan(partial)), LABELLED)
        clf = SklearnClassifier(LogisticRegression(max_iter=100), classes=np.arange(K))
        return clf.fit(x[known], partial[known])

    clf, ensemble = classifier(), [classifier(seed) for seed in range(10)]
    for name, strategy in (("coreset", CoreSet), ("typiclust", TypiClust)):
        query = strategy(random_state=0).query
        compare(name, "scikit-activeml", lambda query=query: query(x, partial, batch_size=B))
    query = Badge(random_state=0).query
    compare("badge", "scikit-activeml", lambda: query(x, partial, clf, fit_clf=False, batch_size=B))
    joint = BatchBALD(random_state=0).query
    compare(
        "batchbald",
        "scikit-activeml, 10 members",
        lambda: joint(x, partial, ensemble, fit_ensemble=False, batch_size=B),
        n_samples=10,
    )


def _batchbald_redux(x: np.ndarray, pool: el.Pool, compare: Callable[..., None]) -> None:
    import torch
    from batchbald_redux.batchbald import get_batchbald_batch

    from everylabel.selection.sampling import Members

    some = pool.free_idx[:200]
    probs = Members(pool, 100, np.random.default_rng(0)).probs(some)
    log_probs = torch.from_numpy(np.log(np.maximum(probs, 1e-30)).transpose(1, 0, 2).copy()).double()
    compare(
        "batchbald",
        "batchbald_redux, 100 members, 1,000 labellings, timed on 200 instances x 50",
        lambda: get_batchbald_batch(log_probs, B, 1000, dtype=torch.double),
        N / len(some),
    )


def expected_error() -> list[dict[str, Any]]:
    """Return the time of one pick of expected error reduction, 200 instances and 10 classes."""
    if not find_spec("skactiveml"):
        return [{"strategy": "expected error", "peer": "scikit-activeml is not installed"}]
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import MonteCarloEER
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")
    x, _, partial, pool = problem(200, D)
    partial = partial.copy()
    rng = np.random.default_rng(0)
    options: Any = {"n_candidates": 200, "n_eval": 200}
    ours = []
    for _ in range(9):
        began = time.perf_counter()
        el.select(pool, "lookahead", 1, rng, **options)
        ours.append(time.perf_counter() - began)
    clf = SklearnClassifier(LogisticRegression(max_iter=100), classes=np.arange(K))
    began = time.perf_counter()
    MonteCarloEER(random_state=0).query(x, partial, clf, X_eval=x)
    theirs = time.perf_counter() - began
    mine = float(np.quantile(ours, 0.25))
    return [
        {
            "strategy": "expected error, 200 instances (100 labelled)",
            "peer": "scikit-activeml",
            "ours_s": mine,
            "theirs_s": theirs,
            "speedup": theirs / mine,
            "target": 1000.0,
        }
    ]
