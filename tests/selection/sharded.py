"""A second kind of pool: features split over parts, each a small pool, and a view that joins them."""

from collections.abc import Callable
from typing import Any

import numpy as np

import everylabel as el
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.pool.view import LearningPool, best


class Sharded(LearningPool):
    """A pool as over several machines: no part sees the features of another."""

    def __init__(
        self, features: Any, posterior: el.Posterior, labelled_idx: Any, labels: Any, n: int
    ) -> None:
        self.parts = [el.Pool(part, posterior) for part in np.array_split(features, n)]
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])
        self.method, self.step_size, self.dtype = None, None, self.parts[0].dtype
        self.state, self.labels = np.zeros(len(self), np.int8), np.full(len(self), -1)
        self.state[labelled_idx], self.labels[labelled_idx] = Where.LABELLED, labels
        f = self.logits(labelled_idx)
        self.auto_step = float(np.mean(f[np.arange(len(f)), labels] - f.mean(axis=1)))

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def posterior(self) -> el.Posterior:
        return self.parts[0].posterior

    def logits(self, idx: Any = None) -> np.ndarray:
        return self._gather(lambda part, some: part.logits(some), idx)

    def variances(self, idx: Any = None) -> np.ndarray:
        return self._gather(lambda part, some: part.variances(some), idx)

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        return self._gather(lambda part, some: part.rows(some, dtype), idx)

    def top(self, score: Callable[[PoolView, np.ndarray], np.ndarray], idx: np.ndarray, n: int) -> np.ndarray:
        return best(self._gather(score, idx), n)

    def learns_by(self, method: str | None = None, step_size: float | str | None = None) -> Any:
        return self.parts[0].learns_by(method, step_size)

    def add(self, idx: int, label: int, *, step_size: float | str | None = None) -> None:
        step: Any = self.auto_step if step_size == "auto" else step_size
        at = int(np.searchsorted(self.starts, idx, side="right")) - 1
        h = self.parts[at].features[idx - self.starts[at]][None]
        posterior = el.update(self.posterior, h, [label], step_size=step)
        for part in self.parts:
            part.refit(posterior)
        self.state[idx], self.labels[idx] = Where.LABELLED, label

    def extend(self, features: Any) -> None:
        """Take more instances, as a part of their own."""
        self.parts.append(el.Pool(features, self.posterior))
        self.starts = np.append(self.starts, self.starts[-1] + len(self.parts[-1]))
        self.state = np.r_[self.state, np.zeros(len(self.parts[-1]), np.int8)]
        self.labels = np.r_[self.labels, np.full(len(self.parts[-1]), -1)]

    def _gather(self, ask: Callable[[PoolView, np.ndarray], np.ndarray], idx: Any) -> np.ndarray:
        """Return what the parts answer for their own instances, in the order of idx."""
        idx = np.arange(len(self)) if idx is None else np.asarray(idx, np.int64)
        owner = np.searchsorted(self.starts, idx, side="right") - 1
        answers = [ask(part, idx[owner == at] - self.starts[at]) for at, part in enumerate(self.parts)]
        order = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
        return np.concatenate(answers)[order]
