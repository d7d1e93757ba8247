"""Logits and variances of a pool in shards: each step goes to all actors at once, in a few KB.

An actor that dies misses steps. The next question waits until Ray has restarted it, and it begins again from
the driver's posterior.
"""

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.scale.features import BACKGROUND, PATIENCE, ShardedFeatures
from everylabel.scale.worker import Behind
from everylabel.selection.pool.features import Scaled
from everylabel.selection.pool.sparse import Sparse
from everylabel.selection.pool.view import shares_cov

_count = itertools.count()


@dataclass
class Part:
    """One actor's part of a pool, as the driver sees it."""

    actor: Any
    start: int
    stop: int
    live: bool = False  # it has taken all steps


class DesignRows:
    """The design of a pool in shards.

    x (n, d) as the actors hold them, h = (x - center) M as the model sees them. The map is folded into the
    weights here, so the actors need not know it:
        h w + b = [x 1] T [w; b]         T = [M 0; -center M 1]
    """

    def __init__(self, features: ShardedFeatures | Scaled, bias: bool) -> None:
        self.array, self.bias, self.n = features, bias, len(features)
        self.dtype: type = features.dtype.type
        self.folds: np.ndarray | None = None  # T
        if isinstance(features, Scaled):
            d = features.shape[1]
            self.folds = np.eye(d + 1)
            self.folds[:d, :d] = features.matrix
            self.folds[d, :d] = -features.center @ features.matrix

    def fold(self, weights: np.ndarray) -> np.ndarray:
        """Return weights (d, ...) on h as weights on x, in the precision of the actors."""
        return np.asarray(weights if self.folds is None else self.folds @ weights, self.dtype)

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return design rows with the bias column."""
        found = self.array[np.asarray(idx, np.int64).reshape(-1)].astype(dtype)
        return np.c_[found, np.ones(len(found), dtype)] if self.bias else found

    def native(self, i: int) -> np.ndarray:
        """Return one instance (1, d) as the model sees it."""
        return self.array[[i]]


class CachedLogits:
    """Logits and variances that the actors cache.

    state, now : return the places of all instances, and the posterior that the logits belong to
    """

    def __init__(
        self,
        features: ShardedFeatures | Scaled,
        posterior: Posterior,
        state: Callable[[], Sparse],
        now: Callable[[], Posterior],
    ) -> None:
        if posterior.n_features != features.shape[1]:
            raise EverylabelError(
                f"the shards have {features.shape[1]} features and the posterior {posterior.n_features}; "
                "expected the features that it was made with"
            )
        self.features = DesignRows(features, posterior.bias)
        sharded: Any = features.raw if isinstance(features, Scaled) else features
        self.sharded: ShardedFeatures = sharded
        self.n = len(features)
        self.binary = posterior.likelihood == "binary"
        self.key = f"{os.getpid()}-{next(_count)}"
        bounds = itertools.pairwise(self.sharded.starts.tolist())
        self.parts = [Part(actor, *bound) for actor, bound in zip(self.sharded.actors, bounds, strict=True)]
        self._fold, self._state, self._posterior = self.features.fold, state, now
        self.moves: dict[int, int] = {}  # new places of instances that the actors do not know yet
        self.steps = 0
        self.has_variances = False

    def rows(self, idx: Any) -> np.ndarray:
        """Return design rows (n, d) with the bias column."""
        return self.features.rows(idx)

    def reset(self, mean: np.ndarray) -> None:
        """Compute the logits of another mean, on all actors."""
        self.steps += 1
        self.has_variances = False
        for part in self.parts:
            part.live = False
        self._begin(mean)

    def move(self, v: np.ndarray, residual: np.ndarray, taken: float) -> None:
        """Follow a step along one direction."""
        self.step("move", self._fold(v), np.asarray(residual, self.features.dtype), taken)

    def replace(self, moved: np.ndarray, columns: np.ndarray, v: np.ndarray | None, taken: float) -> None:
        """Recompute the logits of some columns."""
        self.step("replace", moved, self._fold(columns), None if v is None else self._fold(v), taken)

    def add_classes(self, k: int) -> None:
        """Extend the logits to k classes."""
        self.step("add_classes", k)

    def forget_variances(self) -> None:
        """Drop the variances; the next request computes them again."""
        if self.has_variances:
            self.has_variances = False
            self.step("forget_variances")

    def find_variances(self, posterior: Posterior) -> None:
        """Compute the variances from scratch."""
        self.has_variances = True
        self.step("find_variances", self._unscaled(posterior))

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return variances that were computed."""
        return self.collect(idx, "variances")

    def logits_of(self, idx: Any, binary: bool) -> np.ndarray:
        """Return logits (n, k)."""
        return self.collect(idx, "logits")

    def extend(self, features: Any, posterior: Posterior) -> None:
        """Refuse new instances: shards do not grow."""
        raise EverylabelError(
            "features cannot be added to a pool in shards; put another shard into the folder and start again"
        )

    def step(self, name: str, *args: Any) -> None:
        """Take a step on all actors."""
        live = [part for part in self.parts if part.live]
        refs = [part.actor.step.remote(self.key, self.steps, name, args) for part in live]
        self.steps += 1
        self._answers(live, refs)

    def ask(self, name: str, *args: Any) -> list[tuple[Part, Any]]:
        """Return each part with its answer."""
        return list(zip(self.parts, self._ask(name, [(part, args) for part in self.parts]), strict=True))

    def collect(self, idx: Any, name: str, *args: Any, axis: int = 0) -> np.ndarray:
        """Call a method of the parts on instances; return the answers in the order of `idx` along `axis`."""
        idx = np.arange(self.n) if idx is None else np.asarray(idx, np.int64).reshape(-1)
        asked = [
            (part, at)
            for part, at in zip(self.parts, self.sharded.parts(idx), strict=True)
            if len(at) or (not len(idx) and part is self.parts[0])
        ]
        answers = self._ask(name, [(part, (*args, idx[at] - part.start)) for part, at in asked])
        order = np.argsort(np.concatenate([at for _, at in asked]), kind="stable")
        return np.take(np.concatenate(answers, axis=axis), order, axis=axis)

    def send_moves(self) -> None:
        """Send new places of instances to the actors."""
        if self.moves:
            moves, self.moves = self.moves, {}
            idx, where = list(moves), list(moves.values())
            self.step("place", np.asarray(idx, np.int64), np.asarray(where, np.int8))

    def end(self) -> None:
        """Drop this pool on all actors."""
        for part in self.parts:
            part.actor.end.remote(self.key)

    def _ask(self, name: str, calls: list[tuple[Part, tuple[Any, ...]]]) -> list[Any]:
        """Return the answers of some parts to a question each; ask again if an actor dies meanwhile."""
        self.send_moves()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._begin(to_numpy(self._posterior().mean))
            refs = [part.actor.ask.remote(self.key, self.steps, name, args) for part, args in calls]
            answers = self._answers([part for part, _ in calls], refs)
            if all(part.live for part, _ in calls):
                return answers
        raise EverylabelError(
            f"actors died whenever they were asked for {name!r}, for {PATIENCE:.0f} s; expected nodes with "
            "enough memory for their shards"
        )

    def _begin(self, mean: np.ndarray) -> None:
        """Begin this pool again on actors that have missed a step, from the current posterior and places."""
        lost, now = [part for part in self.parts if not part.live], self._posterior()
        if not lost:
            return
        how = self.features.bias, self._fold(mean), self.binary
        known = self._unscaled(now) if self.has_variances else None
        calls = []
        for part in lost:
            begin = part.actor.begin.options(concurrency_group=BACKGROUND)
            taken = self._state().unusual(part.start, part.stop)
            calls.append(partial(begin.remote, self.key, self.steps, part.start, *how, taken, known))
        self.sharded.insist(calls)
        for part in lost:
            part.live = True

    def _answers(self, parts: list[Part], refs: list[Any]) -> list[Any]:
        """Return the answers of parts; None, and a part that is not live, where an actor has died."""
        answers, errors = [], list[Exception]()
        for part, ref in zip(parts, refs, strict=True):  # all of them: Ray reports errors that nobody fetches
            answer = None
            try:
                answer = self.sharded.ray.get(ref)
            except (*self.sharded.died, Behind):
                part.live = False
            except self.sharded.ray.exceptions.RayTaskError as error:
                errors.append(error.cause)
            answers.append(answer)
        if errors:
            raise errors[0]
        return answers

    def _unscaled(self, posterior: Posterior) -> Posterior:
        """Return a posterior for the features as the actors hold them: its covariance is T cov T'."""
        if self.features.folds is None:
            return posterior.replace(data=None)
        if not shares_cov(posterior):
            raise EverylabelError(
                f"likelihood is {posterior.likelihood!r} and the features are scaled; expected a covariance "
                "that classes share"
            )
        folds = self.features.folds
        return posterior.replace(data=None, cov=folds @ to_numpy(posterior.cov) @ folds.T)
