"""Logits and variances of a pool in shards: each step goes to all actors at once, in a few KB.

While an actor is dead, the others continue. Once Ray has restarted it, it begins again from the
posterior; steps that are taken meanwhile queue up behind that.
"""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.scale.features import BACKGROUND, ShardedFeatures
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
    live: bool = True
    pending: list[Any] = field(default_factory=list)  # calls to finish before it is live again


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
        self._mean: np.ndarray | None = None  # of a reset that is under way
        self.moves: dict[int, int] = {}  # new places of instances that the actors do not know yet
        self.steps = 0
        self.has_variances = False

    def rows(self, idx: Any) -> np.ndarray:
        """Return design rows (n, d) with the bias column."""
        return self.features.rows(idx)

    def reset(self, mean: np.ndarray) -> None:
        """Compute the logits of another mean, on all actors."""
        self.steps += 1
        self.has_variances, self._mean = False, mean
        try:
            for part in self.parts:
                self._begin(part)
            for part in self.parts:
                self._revive(part, wait=True)
        finally:
            self._mean = None

    def move(self, v: np.ndarray, residual: np.ndarray, taken: float) -> None:
        """Follow a step along one direction."""
        self.step("move", self._fold(v), np.asarray(residual, self.features.dtype), taken)

    def move_many(self, v: np.ndarray, factors: np.ndarray) -> None:
        """Follow several labels at once."""
        self.has_variances = False
        self.step("move_many", self._fold(v), np.asarray(factors, self.features.dtype))

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
        """Take a step on all actors; for an actor that is away it queues up."""
        calls = [
            (part, part.actor.step.remote(self.key, self.steps, name, args))
            for part in self.parts
            if part.live or part.pending
        ]
        self.steps += 1
        for part, ref in calls:
            if part.live:
                self._answer(part, ref)
            else:
                part.pending.append(ref)
        self._revive_all()

    def ask(self, name: str, *args: Any) -> list[tuple[Part, Any]]:
        """Query every live actor and return their answers."""
        self.send_moves()
        self._revive_all()
        calls = [(part, self._call(part, name, args)) for part in self.parts if part.live]
        answers, errors = [], list[Exception]()
        for part, ref in calls:  # all of them: Ray reports errors that nobody fetches
            try:
                answers.append((part, self._answer(part, ref)))
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        answers = [(part, answer) for part, answer in answers if part.live]
        if answers:
            return answers
        self._revive(self.parts[0], wait=True)
        return self.ask(name, *args)

    def collect(self, idx: Any, name: str, *args: Any, axis: int = 0) -> np.ndarray:
        """Call a method of the parts on instances; return the answers in the order of `idx` along `axis`.

        Actors that are away are waited for.
        """
        self.send_moves()
        idx = np.arange(self.n) if idx is None else np.asarray(idx, np.int64).reshape(-1)
        asked = [
            (part, at, (*args, idx[at] - part.start))
            for part, at in zip(self.parts, self.sharded.parts(idx), strict=True)
            if len(at) or (not len(idx) and part is self.parts[0])
        ]
        for part, _, _ in asked:
            self._revive(part, wait=True)
        refs = [self._call(part, name, given) for part, _, given in asked]
        answers = []
        for (part, _, given), ref in zip(asked, refs, strict=True):
            answer = self._answer(part, ref)
            while not part.live:
                self._revive(part, wait=True)
                answer = self._answer(part, self._call(part, name, given))
            answers.append(np.asarray(answer))
        order = np.argsort(np.concatenate([at for _, at, _ in asked]), kind="stable")
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

    def away(self) -> list[Part]:
        """Return the parts whose actors cannot answer now; if that is all of them, wait for one."""
        self._revive_all()
        if not any(part.live for part in self.parts):
            self._revive(self.parts[0], wait=True)
        return [part for part in self.parts if not part.live]

    def _call(self, part: Part, name: str, args: tuple[Any, ...]) -> Any:
        return part.actor.ask.remote(self.key, self.steps, name, args)

    def _begin(self, part: Part) -> None:
        """Begin this pool again on an actor, from its current posterior and places."""
        now, taken = self._posterior(), self._state().unusual(part.start, part.stop)
        mean = self._fold(to_numpy(now.mean) if self._mean is None else self._mean)
        known = self._unscaled(now) if self.has_variances else None
        sent = self.key, self.steps, part.start, self.features.bias, mean, self.binary, taken, known
        begin = part.actor.begin  # later steps queue up behind it, unless all actors are waited for
        if self._mean is not None:
            begin = begin.options(concurrency_group=BACKGROUND)
        part.live, part.pending = False, [begin.remote(*sent)]

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

    def _revive_all(self) -> None:
        for part in self.parts:
            self._revive(part, wait=False)

    def _revive(self, part: Part, wait: bool) -> None:
        """Mark an actor as live once it has finished all pending calls; begin again where they failed."""
        ray = self.sharded.ray
        while not part.live:
            if not part.pending:
                self._begin(part)
            done, _ = ray.wait(part.pending, num_returns=len(part.pending), timeout=None if wait else 0)
            if len(done) < len(part.pending):
                return
            pending, part.pending = part.pending, []
            part.live = True
            for ref in pending:
                self._answer(part, ref)
            if not part.live:
                if not wait:
                    return
                self.sharded.insist(part.actor.stored_type.remote)

    def _answer(self, part: Part, ref: Any) -> Any:
        """Return an answer; if the actor has died or is behind, mark it as away and return None."""
        try:
            return self.sharded.ray.get(ref)
        except (*self.sharded.died, Behind):
            part.live, part.pending = False, []
            return None
        except self.sharded.ray.exceptions.RayTaskError as error:
            raise error.cause from None
