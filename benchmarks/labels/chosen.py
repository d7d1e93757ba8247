"""Curves through `el.select`: ours in batches, and rivals by the head of version 0.1 on plain features.

Plain features are centred and scaled to norm 10, with prior precision 1. One by one, the head is trained
exactly after each label; in batches, it is retrained after each batch of 10, with updates between picks
(`ask`) or without.
"""

from collections.abc import Callable, Iterator

import numpy as np

import everylabel as el
from benchmarks.labels.curve import STOPS, Point, batches, guesses, measured
from benchmarks.labels.sets import Data
from everylabel.labelling.model.training import train
from everylabel.models.class_names import NameRows, are_confirmed, rows_of_names
from everylabel.models.scaling import Scaling, fit_pool_scaling, fit_scaling, suited_precision

TRAINED = 1e-3  # tolerance of trainings, from where the last one ended: good enough to classify by


class Head:
    """A last layer on scaled features that is trained on labels, row -> class."""

    def __init__(
        self, data: Data, scaling: Scaling, train_on: Callable[["Head", dict[int, int]], el.Posterior]
    ):
        self.data, self.scaling, self._train_on = data, scaling, train_on
        self.h = scaling(data.x).astype(np.float32)
        self.h_test = scaling(data.x_test).astype(np.float32)

    def rows(self, labels: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return features and classes of the labelled instances."""
        idx, y = np.array(list(labels), dtype=np.int64), np.array(list(labels.values()), dtype=np.int64)
        return self.h[idx].astype(np.float64), y

    def trained(self, labels: dict[int, int]) -> el.Posterior:
        return self._train_on(self, labels)

    def point(self, posterior: el.Posterior, labelled: np.ndarray) -> Point:
        mean = np.asarray(posterior.mean)
        return measured(self.data, labelled, guesses(mean, self.h_test), guesses(mean, self.h))


def plain(data: Data) -> Head:
    """Return the head of version 0.1: no names, and only mean and size of the pool."""
    mean = np.zeros((data.x.shape[1] + 1, data.k))

    def train_on(head: Head, labels: dict[int, int]) -> el.Posterior:
        nonlocal mean
        x, y = head.rows(labels)
        mean = np.asarray(el.fit_map(x, y, data.k, init=mean, tol=TRAINED)) if len(y) else mean
        return el.laplace(mean, x, labels=y)

    return Head(data, fit_scaling(data.x, np.ones(len(data.x)))[0], train_on)


def ours(data: Data) -> Head:
    """Return the current head: the pool as prior, and class names while labels confirm them."""
    scaling = fit_pool_scaling(data.x)
    rows = None if data.names is None else rows_of_names(dict(enumerate(data.names)), scaling)

    def train_on(head: Head, labels: dict[int, int]) -> el.Posterior:
        return train(head.h, labels, data.k, rows if _hold(rows, head, labels) else None, tol=TRAINED)

    return Head(data, scaling, train_on)


def _hold(rows: NameRows | None, head: Head, labels: dict[int, int]) -> bool:
    k = head.data.k
    return rows is not None and are_confirmed(rows, *head.rows(labels), k, suited_precision(k))


def one_by_one(head: Head, strategy: str, seed: int) -> Iterator[Point]:
    """Yield a curve with exact training after each label."""
    pool, rng = el.Pool(head.h, head.trained({}), method="exact"), np.random.default_rng([seed, 3])
    for n in range(max(STOPS) + 1):
        if n in STOPS:
            yield head.point(pool.posterior, pool.labelled_idx)
        if n < max(STOPS):
            (i,) = el.select(pool, strategy, 1, rng)
            pool.add(int(i), int(head.data.y[i]))


def in_batches(head: Head, strategy: str, seed: int, *, updates: bool) -> Iterator[Point]:
    """Yield a curve with training after each batch."""
    rng, labels, posterior = np.random.default_rng([seed, 3]), dict[int, int](), head.trained({})
    yield head.point(posterior, np.zeros(0, np.int64))
    for _, size in batches():
        idx = np.array(list(labels), dtype=np.int64)
        pool = el.Pool(head.h, posterior, labelled_idx=idx, labels=head.data.y[idx])
        picked = el.select(pool, strategy, size, rng, (lambda i: int(head.data.y[i])) if updates else None)
        labels |= {int(i): int(head.data.y[i]) for i in picked}
        posterior = head.trained(labels)
        yield head.point(posterior, np.array(list(labels), dtype=np.int64))
