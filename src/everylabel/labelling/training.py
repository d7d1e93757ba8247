"""Exact training on the labels of some rows: the model that all of them make, in whatever order they came."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.core.updates.partial import expected_shares, note_shares
from everylabel.models.names import NameRows
from everylabel.models.scaling import suited_precision
from everylabel.selection.pool.scaled import Scaled

RuledOut = Mapping[int, Collection[int]]


def train(
    features: np.ndarray | Scaled,
    labels: Mapping[int, int],
    n_classes: int,
    names: NameRows | None = None,
    *,
    ruled_out: RuledOut | None = None,
    init: np.ndarray | None = None,
    tol: float = 1e-8,
) -> Posterior:
    """Return the posterior trained on labels (row -> class) and names; without any, the prior.

    ruled_out : rows without a label -> the classes they are not of, if one at least is left
    init : weights to begin with, near those that are looked for
    """
    idx, y = in_order(labels)
    x, k, weights = features[idx].astype(np.float64), max(1, n_classes), np.ones(len(idx))
    if names is not None:
        x, y, weights = names.together_with(x, y)
    prior, partial = suited_precision(k), _partial(features, ruled_out or {}, k)
    mean = np.zeros((features.shape[1] + 1, k))
    if len(y) or partial is not None:
        mean = fit_map(x, y, k, prior, weights=weights, partial=partial, init=init, tol=tol)
    posterior = laplace(mean, x, prior_precision=prior, weights=weights, labels=y)
    if partial is None:
        return posterior
    return note_shares(posterior, partial[0], expected_shares(posterior, *partial))


def train_with_none(
    features: np.ndarray | Scaled,
    labels: Mapping[int, int],
    none: Sequence[int],
    n_classes: int,
    names: NameRows | None = None,
    ruled_out: RuledOut | None = None,
) -> Posterior:
    """Return the posterior of the classes alone, trained also on rows that are of none of them.

    Those are a class 0 of their own, p_c = e^f_c / (e^f_0 + sum_j e^f_j); given that one of the classes fits,
        p_c / (1 - p_0) = e^f_c / sum_j e^f_j
    so that its column can be left out when all are trained.
    """
    if not none:
        return train(features, labels, n_classes, names, ruled_out=ruled_out)
    both = train(
        features, {**labels, **dict.fromkeys(none, n_classes)}, n_classes + 1, names, ruled_out=ruled_out
    )
    idx, y = in_order(labels)
    x, weights = features[idx].astype(np.float64), np.ones(len(idx))
    if names is not None:
        x, y, weights = names.together_with(x, y)
    mean = np.asarray(both.mean)[:, :n_classes]
    return laplace(mean, x, prior_precision=both.prior_precision, weights=weights, labels=y)


def _partial(
    features: np.ndarray | Scaled, ruled_out: RuledOut, k: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows for which classes are ruled out, by row, and those that are left; None without any."""
    idx = sorted(ruled_out)
    if not idx:
        return None
    left = [[c not in ruled_out[i] for c in range(k)] for i in idx]
    return features[idx].astype(np.float64), np.array(left)


def in_order(labels: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes, by row: the order of labelling must not matter."""
    idx = np.array(sorted(labels), dtype=np.int64)
    return idx, np.array([labels[int(i)] for i in idx], dtype=np.int64)
