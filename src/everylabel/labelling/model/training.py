"""Exact training: the posterior that labels and class names make, in whatever order they came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.core.updates.partial import expected_shares, note_shares
from everylabel.labelling.state.types import Place
from everylabel.models.names import NameRows, are_of_use, name_rows
from everylabel.models.scaling import Scaling, suited_precision
from everylabel.selection.pool.features import Scaled

RuledOut = Mapping[int, Collection[int]]


class TrainingSet(NamedTuple):
    """Everything that a model is computed from besides the features; classes are numbers of the log.

    columns : class of each column of the model
    places : items that are not free: labelled, leased, excluded, or with classes ruled out
    names : vectors of class names that may teach, by class
    n_items : number of items in the pool
    trusts_names : the names teach whether or not leave-one-out bears them out
    """

    columns: tuple[int, ...]
    places: Mapping[int, Place]
    names: Mapping[int, np.ndarray]
    n_items: int
    trusts_names: bool = False

    @property
    def n_classes(self) -> int:
        return len(self.columns)

    def labels(self) -> dict[int, int]:
        """Return the column of each labelled item, the earliest label first."""
        column = {number: j for j, number in enumerate(self.columns)}
        return {item: column[place.label] for item, place in self.places.items() if place.label is not None}

    def ruled_out(self) -> dict[int, frozenset[int]]:
        """Return the columns ruled out for items without a label."""
        found = {
            item: columns_out(place, self.columns) for item, place in self.places.items() if place.ruled_out
        }
        return {item: columns for item, columns in found.items() if columns}


def columns_out(place: Place, columns: Sequence[int]) -> frozenset[int]:
    """Return the columns that a place rules out; none if that would rule out all."""
    found = frozenset(j for j, number in enumerate(columns) if number in place.ruled_out)
    return found if len(found) < len(columns) else frozenset()


def teaching_names(
    vectors: Mapping[int, np.ndarray],
    features: np.ndarray | Scaled,
    labels: Mapping[int, int],
    n_classes: int,
    scaling: Scaling | None,
    trusted: bool = False,
) -> NameRows | None:
    """Return class names as rows to learn from, if the labels bear them out; vectors and labels by column.

    trusted : they teach in any case. An encoder that has seen the labels would always seem to bear them out.
    """
    if scaling is None:
        return None
    width = len(scaling.center)
    rows = name_rows({c: some for c, some in vectors.items() if some.shape[1] == width}, scaling)
    if rows is None or not labels or trusted:
        return rows
    idx, y = in_order(labels)
    x = features[idx].astype(np.float64)
    return rows if are_of_use(rows, x, y, n_classes, suited_precision(n_classes)) else None


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
    """Return the posterior trained on labels (row -> column) and names; without any, the prior.

    ruled_out : rows without a label -> the columns that are ruled out, which leave at least one
    init : mean (d + 1, k) to start from
    """
    idx, y = in_order(labels)
    x, k, weights = features[idx].astype(np.float64), max(1, n_classes), np.ones(len(idx))
    if names is not None:
        x, y, weights = names.together_with(x, y)
    prior, partial = suited_precision(k), _partial(features, ruled_out or {}, k)
    mean = np.zeros((features.shape[1] + 1, k))
    if len(y):
        mean = fit_map(x, y, k, prior, weights=weights, init=init, tol=tol)
    if partial is not None:  # not convex: begun where the labels alone end, it ends there from any `init`
        mean = fit_map(x, y, k, prior, weights=weights, partial=partial, init=mean, tol=tol)
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
    """Return the posterior of the classes alone, trained also on rows of no class.

    Those rows are a class 0 of their own, p_c = e^f_c / (e^f_0 + sum_j e^f_j). Given that a class fits,
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
    """Return the rows with ruled-out columns, and the remaining columns of each; None without any."""
    idx = sorted(ruled_out)
    if not idx:
        return None
    left = [[c not in ruled_out[i] for c in range(k)] for i in idx]
    return features[idx].astype(np.float64), np.array(left)


def in_order(labels: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns sorted by row: the order of labelling must not matter."""
    idx = np.array(sorted(labels), dtype=np.int64)
    return idx, np.array([labels[int(i)] for i in idx], dtype=np.int64)
