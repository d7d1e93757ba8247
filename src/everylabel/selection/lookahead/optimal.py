"""The optimal look-ahead (Sec. 5, App. F): of many batches, the one that improves a validation set most.

An upper baseline: it knows the labels of the pool. b instances per batch, C candidates, M validation
instances; G = X cov X' between them is built once, and a batch never touches a d x d matrix.
    jointly     dF_V = -step G_VB (I + q G_BB)^-1 R_B             all residuals at the old mean
    one by one  the same label by label; both are the core's steps in the space of b instances (`kernel`)
"greedy" is beyond the paper: large random batches rarely hold many good instances at once, so it builds one
batch by adding the instance that lowers the validation log loss most. After each pick
    F -= step/(1 + q g_ii) g_i (p_i - e_y)'        G -= q/(1 + q g_ii) g_i g_i'                (Eqs. 5-7)
The tests compare both with `update` and `predict_proba` in a loop.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from everylabel.core import kernel
from everylabel.core.arrays import CHUNK, from_numpy, log_softmax, to_numpy
from everylabel.core.checks import (
    check_choice,
    check_count,
    check_features,
    check_labels,
    check_positive,
    check_rng,
    outliers_known,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.shared import diagonal
from everylabel.core.updates import default_step, update
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.view import check_view, shares_cov
from everylabel.selection.sampling import kmeans
from everylabel.selection.select import free_candidates
from everylabel.selection.strategies.refine import proposals
from everylabel.selection.threads import share, worth_compiling

METRICS = ("accuracy", "log_loss")
SOURCES = ("random", "clusters", "uncertain", "mixed", "boss")
SHARE = 0.5  # share of the candidates from which a strategy of "boss" picks a batch
CANDIDATES = 1000  # drawn from the pool (App. F)
RANDOM_BATCHES, BOSS_BATCHES = 2000, 100  # as in the paper and in BoSS
CACHE = 2**19  # validation logits scored together, so that they stay in the processor's cache (2 MB)


def optimal_batch(
    pool: PoolView,
    labels: Any,
    val_features: Any,
    val_labels: Any,
    n: int,
    n_batches: int | None = None,
    *,
    rng: np.random.Generator,
    candidates: Any = CANDIDATES,
    batches: str = "random",
    metric: str = "accuracy",
    joint: bool = False,
    step_size: float | str | None = None,
) -> np.ndarray:
    """Return the batch of n free instances whose labels improve the validation score most.

    Parameters
    ----------
    pool, labels : PoolView, array (n,)
        The pool and all its true labels.
    val_features, val_labels : array (m, d), array (m,)
        The validation set on which batches are scored.
    n, n_batches : int
        Size and number of the batches tried; by default 2,000 batches (the paper), or 100 with "boss" (its
        authors).
    rng : numpy.random.Generator
        Draws the batches.
    candidates : int or array
        A random subset of this size, or positions, as in `select`; the paper draws 1,000.
    batches : {"random", "clusters", "uncertain", "mixed", "boss", "greedy"}
        Random batches (the paper), one instance per k-means cluster, instances of small margin, or a third
        each. With "boss" nine strategies propose batches from random subsets, as in the oracle BoSS.
        "greedy" tries no batches but adds the instance that lowers the log loss most, n times.
    metric : {"accuracy", "log_loss"}
        Score of an updated model, from its predictions at the mean.
    joint, step_size
        As in `update`; step_size="auto" is the pool's.

    Examples
    --------
    >>> pool = el.Pool(x[:1000], post, labelled_idx=np.arange(100), labels=y[:100])
    >>> best = el.optimal_batch(
    ...     pool, y[:1000], x[1000:], y[1000:], n=5, n_batches=20, rng=rng, candidates=100
    ... )
    >>> len(best)
    5
    """
    check_view(pool)
    n, rng = check_count(n, "n"), check_rng(rng)
    check_choice(batches, "batches", (*SOURCES, "greedy"))
    usual_batches = BOSS_BATCHES if batches == "boss" else RANDOM_BATCHES
    n_batches = usual_batches if n_batches is None else check_count(n_batches, "n_batches")
    check_choice(metric, "metric", METRICS)
    step = pool.auto_step if step_size == "auto" else step_size
    usual = default_step("second_order", pool.posterior.likelihood)
    step = usual if step is None else check_positive(step, "step_size", zero=True)
    truth = check_labels(_plain(labels), len(pool), pool.n_classes, np.zeros(1))
    rows = to_numpy(check_features(val_features, pool.posterior.mean, pool.posterior.bias, "val_features"))
    if not len(rows):
        raise EverylabelError("val_features has no rows; expected at least one instance to score batches on")
    right = check_labels(_plain(val_labels), len(rows), pool.n_classes, np.zeros(1), "val_labels")
    idx = free_candidates(pool, candidates, rng)
    if n > len(idx):
        raise EverylabelError(f"n is {n}, but {len(idx)} free instance(s) can be chosen from")
    if batches == "greedy" and shares_cov(pool.posterior):
        return idx[_greedy_batch(pool, idx, truth[idx], rows, right, n, step)]
    if batches == "greedy":
        raise EverylabelError(
            f"batches is 'greedy', which needs one covariance for all classes, but the likelihood is "
            f"{pool.posterior.likelihood!r}; expected one of {', '.join(map(repr, SOURCES))}"
        )
    tried = draw_batches(pool, idx, n, n_batches, batches, rng)
    logits_after = _in_kernel_space if shares_cov(pool.posterior) else _by_updates
    moved = logits_after(pool, idx, truth[idx], tried, rows, step, joint)
    scores = np.concatenate([_score(logits, right, metric) for logits in moved])
    return idx[tried[int(np.argmax(scores))]]


def _plain(values: Any) -> np.ndarray:
    return np.asarray(to_numpy(values) if hasattr(values, "detach") else values)


def _in_kernel_space(
    pool: PoolView,
    idx: np.ndarray,
    labels: np.ndarray,
    tried: np.ndarray,
    val_rows: np.ndarray,
    step: float,
    joint: bool,
) -> Iterator[np.ndarray]:
    """Yield the validation logits (some, k, m) of several batches at a time; `tried` are positions in idx."""
    kind: Any = LIKELIHOODS[pool.posterior.likelihood]
    seen = pool.cov_rows(idx)
    gram, cross = seen @ pool.rows(idx).T, (seen @ val_rows.T).astype(np.float32)  # G_CC, G_CV
    mean = to_numpy(pool.posterior.mean)
    f = pool.logits(idx)[:, -mean.shape[1] :].astype(np.float64)
    val_logits = (val_rows @ mean).T.astype(np.float32)
    targets, ones = kind.targets(labels, mean.shape[1]), np.ones(tried.shape[1])
    at_once = max(1, CHUNK // (4 * tried.shape[1] * max(tried.shape[1], f.shape[1])))
    scored = max(1, CACHE // (len(val_rows) * max(tried.shape[1], f.shape[1])))
    for start in range(0, len(tried), at_once):
        b = tried[start : start + at_once]
        g = gram[b[:, :, None], b[:, None, :]]
        if joint:
            probs = kind.link(f[b])
            weights = step * kernel.jointly(g, diagonal(kind.curvature(probs)), probs - targets[b])
        else:
            learned = kernel.one_by_one(g, f[b], targets[b], ones, step, kind.link, kind.curvature)
            weights = learned.weights  # (some, b, k) with dF_V = -G_VB weights
        weights = np.ascontiguousarray(np.swapaxes(weights, 1, 2), np.float32)
        for at in range(0, len(b), scored):
            moved = weights[at : at + scored] @ cross[b[at : at + scored]]
            yield np.subtract(val_logits, moved, out=moved)


def _score(logits: np.ndarray, labels: np.ndarray, metric: str) -> np.ndarray:
    """Return accuracy or mean log likelihood (n_batches,) from logits (n_batches, k, m)."""
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    if metric == "log_loss":
        log_probs = log_softmax(np.swapaxes(logits, 1, 2))
        return log_probs[:, np.arange(len(labels)), labels].mean(axis=1, dtype=np.float64)
    top, right = logits[:, 0].copy(), np.broadcast_to(labels == 0, logits[:, 0].shape).copy()
    for j in range(1, logits.shape[1]):  # argmax by rows; the first of equals wins
        better = logits[:, j] > top
        np.copyto(right, labels == j, where=better)
        np.maximum(top, logits[:, j], out=top)
    return right.mean(axis=1)


def _by_updates(
    pool: PoolView,
    idx: np.ndarray,
    labels: np.ndarray,
    tried: np.ndarray,
    val_rows: np.ndarray,
    step: float,
    joint: bool,
) -> Iterator[np.ndarray]:
    """Yield the same logits by updates, batch by batch, for covariances that classes do not share."""
    for b in tried:
        features = from_numpy(pool.rows(idx[b])[:, : pool.posterior.n_features], pool.posterior.mean)
        with outliers_known():
            after = update(pool.posterior, features, labels[b].tolist(), step_size=step, joint=joint)
        yield (val_rows @ to_numpy(after.mean)).T[None]


def draw_batches(
    pool: PoolView, idx: np.ndarray, n: int, n_batches: int, source: str, rng: np.random.Generator
) -> np.ndarray:
    """Return n_batches batches of n different positions in idx.

    For "boss" each is picked by one of nine strategies from a random half of the candidates; the oracle BoSS
    (Huseljic et al., 2026) judges such batches by retraining.
    """
    if source == "mixed":
        sizes = [n_batches - 2 * (n_batches // 3), n_batches // 3, n_batches // 3]
        parts = [
            draw_batches(pool, idx, n, size, kind, rng)
            for kind, size in zip(SOURCES, sizes, strict=False)
            if size
        ]
        return np.concatenate(parts)
    if source == "boss":
        return proposals(pool, idx, n, n_batches, SHARE, rng)
    if source == "clusters":
        return _one_of_each(kmeans(pool.rows(idx, np.float32), n, rng), n_batches, rng)
    if source == "uncertain":
        narrow = np.argsort(pool.margins(idx), kind="stable")[: max(3 * n, len(idx) // 10)]
        return narrow[_distinct(len(narrow), n, n_batches, rng)]
    return _distinct(len(idx), n, n_batches, rng)


def _distinct(size: int, n: int, n_batches: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of n different numbers below size."""
    return np.stack([rng.choice(size, n, replace=False, shuffle=False) for _ in range(n_batches)])


def _one_of_each(cluster: np.ndarray, n_batches: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows with a random member of every cluster."""
    members = [np.flatnonzero(cluster == c) for c in range(int(cluster.max()) + 1)]
    return np.stack([m[rng.integers(len(m), size=n_batches)] for m in members], axis=1)


def _greedy_batch(
    pool: PoolView,
    idx: np.ndarray,
    labels: np.ndarray,
    val_rows: np.ndarray,
    val_labels: np.ndarray,
    n: int,
    step: float,
) -> np.ndarray:
    """Return n positions in idx; labels (len(idx),) are the true ones."""
    kind: Any = LIKELIHOODS[pool.posterior.likelihood]
    rows = pool.rows(idx)
    gram = pool.cov_rows(idx) @ np.r_[rows, val_rows].T  # G_CC and G_CV side by side
    f = np.r_[rows, val_rows] @ to_numpy(pool.posterior.mean)
    targets = kind.targets(labels, f.shape[1])
    size, picked = len(idx), list[int]()
    left = np.ones(size, bool)
    for _ in range(n):
        probs = kind.link(f[:size])
        own = gram[np.arange(size), np.arange(size)]
        shift = step / (1.0 + kind.curvature(probs) * own)
        tried = np.flatnonzero(left)
        scores = log_likelihood(
            f[size:], gram[tried, size:] * shift[tried, None], (probs - targets)[tried], val_labels
        )
        i = int(tried[np.argmax(scores)])
        picked.append(i)
        left[i] = False
        f -= shift[i] * np.outer(gram[i], probs[i] - targets[i])  # Eq. 5
        curvature = kind.curvature(kind.link(f[i]))  # Eq. 6, at the new mean
        gram = kernel.condition_seen(gram, i, gram[i], kernel.shrinkage(own[i], curvature))
    return np.asarray(picked)


def log_likelihood(f: np.ndarray, shift: np.ndarray, residual: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the mean log likelihood (C,) of labels (M,) when logits f (M, k) move by -shift residual'."""
    if f.shape[1] == 1:
        f, residual = np.c_[np.zeros_like(f), f], np.c_[np.zeros_like(residual), residual]
    if worth_compiling(shift.size * f.shape[1]):
        from everylabel.selection.lookahead.expected_loops import log_likelihood as run

        out = np.empty(len(shift))
        low = f - f.max(axis=1, keepdims=True)
        a, r, g = (np.ascontiguousarray(x, np.float32) for x in (shift, residual, low.T))
        own = low[np.arange(len(f)), labels].astype(np.float32)
        share(lambda start, stop: run(g, a, r, own, labels, out, start, stop), len(out))
        return out
    scores = []
    for a, r in zip(shift, residual, strict=True):
        scores.append(np.mean(log_softmax(f - np.outer(a, r))[np.arange(len(f)), labels]))
    return np.asarray(scores)
