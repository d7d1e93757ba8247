"""Logits and variances of a pool in shards: each step is sent to all actors at once, in a few KB.

An actor that dies is away, and the others go on. Once Ray has restarted it, it begins again from the
posterior; steps that are made meanwhile queue up behind that.
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
from everylabel.scale.features import BESIDE, ShardedFeatures
from everylabel.scale.worker import Behind
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.features import Scaled
from everylabel.selection.pool.sparse import Sparse
from everylabel.selection.pool.view import shares_cov

_count = itertools.count()


@dataclass
class Part:
    """One actor's part of this pool, as the driver knows it."""

    actor: Any
    start: int
    stop: int
    here: bool = True  # it answers
    coming: list[Any] = field(default_factory=list)  # calls that it has yet to finish before it is back


class DesignRows:
    """The design of a pool in shards, as a cache asks for it.

    x (n, d) as the actors hold them, h = (x - center) M as the model sees them. The map is folded into the
    weights here, so that the actors need not know it:
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
        """Return weights (d, ...) of the design as those of what the actors hold."""
        return weights if self.folds is None else self.folds @ weights

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return design rows with the bias column."""
        found = self.array[np.asarray(idx, np.int64).reshape(-1)].astype(dtype)
        return np.c_[found, np.ones(len(found), dtype)] if self.bias else found

    def native(self, i: int) -> np.ndarray:
        """Return one instance (1, d) as the model sees it."""
        return self.array[[i]]


class CachedLogits:
    """Logits and variances that the actors cache."""

    def __init__(
        self,
        features: ShardedFeatures | Scaled,
        posterior: Posterior,
        state: Callable[[], Sparse],
        now: Callable[[], Posterior],
    ) -> None:
        """Take the features; state() and now() are the pool's, and the posterior that the logits are of."""
        if posterior.n_features != features.shape[1]:
            raise EverylabelError(
                f"the shards have {features.shape[1]} features and the posterior {posterior.n_features}; "
                "expected those that it was made with"
            )
        self.features = DesignRows(features, posterior.bias)
        sharded: Any = features.raw if isinstance(features, Scaled) else features
        self.sharded: ShardedFeatures = sharded
        self.n = len(features)
        self.binary = posterior.likelihood == "binary"
        self.key = f"{os.getpid()}-{next(_count)}"
        starts, self._fold = self.sharded.starts, self.features.fold
        bounds = itertools.pairwise(starts)
        self.parts = [Part(a, int(b), int(e)) for a, (b, e) in zip(self.sharded.actors, bounds, strict=True)]
        self._state, self._posterior = state, now
        self._mean: np.ndarray | None = None  # of a reset that is under way
        self.moves: dict[int, int] = {}  # where instances have moved to that the actors are yet to be told
        self.steps = 0
        self.has_variances = False

    def rows(self, idx: Any) -> np.ndarray:
        """Return design rows (n, d) with the bias column."""
        return self.features.rows(idx)

    def reset(self, mean: np.ndarray) -> None:
        """Have all actors compute the logits of another mean."""
        self.steps += 1
        self.has_variances, self._mean = False, mean
        try:
            for part in self.parts:
                self._begin(part)
            for part in self.parts:
                self._settle(part, wait=True)
        finally:
            self._mean = None

    def move(self, v: np.ndarray, residual: np.ndarray, taken: float) -> None:
        """Follow a step along one direction."""
        self.tell("move", self._cast(self._fold(v)), self._cast(residual), taken)

    def move_many(self, v: np.ndarray, factors: np.ndarray) -> None:
        """Follow several labels at once."""
        self.has_variances = False
        self.tell("move_many", self._cast(self._fold(v)), self._cast(factors))

    def replace(self, moved: np.ndarray, columns: np.ndarray, v: np.ndarray | None, taken: float) -> None:
        """Compute the logits of some columns anew."""
        along = None if v is None else self._cast(self._fold(v))
        self.tell("replace", moved, self._cast(self._fold(columns)), along, taken)

    def add_classes(self, k: int) -> None:
        """Have logits of k classes."""
        self.tell("add_classes", k)

    def forget_variances(self) -> None:
        """Have the variances computed when they are asked for next."""
        if self.has_variances:
            self.has_variances = False
            self.tell("forget_variances")

    def find_variances(self, posterior: Posterior) -> None:
        """Compute the variances from scratch."""
        self.has_variances = True
        self.tell("find_variances", self._seen(posterior))

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return variances that were computed."""
        return self.gather(idx, lambda part, some: part.variances(some))

    def logits_of(self, idx: Any, binary: bool) -> np.ndarray:
        """Return logits (n, k)."""
        return self.gather(idx, lambda part, some: part.logits(some))

    def extend(self, features: Any, posterior: Posterior) -> None:
        """Refuse: shards are what they are."""
        raise EverylabelError(
            "features cannot be added to a pool in shards; put another shard into the folder and start again"
        )

    def tell(self, name: str, *args: Any) -> None:
        """Send a step to all actors."""
        calls = [
            (part, part.actor.step.remote(self.key, self.steps, name, args))
            for part in self.parts
            if part.here or part.coming
        ]
        self.steps += 1
        for part, ref in calls:
            if part.here:
                self._answer(part, ref)
            else:
                part.coming.append(ref)
        self._bring_back()

    def ask(self, name: str, *args: Any) -> list[tuple[Part, Any]]:
        """Query every live actor and return their answers."""
        self.send_moves()
        self._bring_back()
        calls = [
            (part, part.actor.ask.remote(self.key, self.steps, name, args))
            for part in self.parts
            if part.here
        ]
        answers, refused = [], list[Exception]()
        for part, ref in calls:  # all of them: Ray complains of errors that nobody looks at
            try:
                answers.append((part, self._answer(part, ref)))
            except Exception as error:
                refused.append(error)
        if refused:
            raise refused[0]
        answers = [(part, answer) for part, answer in answers if part.here]
        if answers:
            return answers
        self._settle(self.parts[0], wait=True)
        return self.ask(name, *args)

    def gather(self, idx: Any, score: Callable[[PoolView, np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the scores of instances, in their order; wait for parts that are away."""
        return self.collect(idx, "score", score)

    def collect(self, idx: Any, name: str, *args: Any, axis: int = 0) -> np.ndarray:
        """Call a method of the actors, and return its answers for instances in their order along an axis."""

        def call(part: Part, some: np.ndarray) -> Any:
            return getattr(part.actor, name).remote(self.key, self.steps, *args, some)

        self.send_moves()
        idx = np.arange(self.n) if idx is None else np.asarray(idx, np.int64).reshape(-1)
        places = self.sharded.parts(idx)
        asked = [
            (part, at, idx[at] - part.start)
            for part, at in zip(self.parts, places, strict=True)
            if len(at) or (not len(idx) and part is self.parts[0])
        ]
        answers = []
        for part, _, _ in asked:
            self._settle(part, wait=True)
        refs = [call(part, local) for part, _, local in asked]
        for (part, _, local), ref in zip(asked, refs, strict=True):
            answer = self._answer(part, ref)
            while not part.here:
                self._settle(part, wait=True)
                answer = self._answer(part, call(part, local))
            answers.append(np.asarray(answer))
        order = np.argsort(np.concatenate([at for _, at, _ in asked]), kind="stable")
        return np.take(np.concatenate(answers, axis=axis), order, axis=axis)

    def send_moves(self) -> None:
        """Send the actors where instances have moved to."""
        if self.moves:
            moves, self.moves = self.moves, {}
            self.tell("place", *_as_arrays(moves))

    def end(self) -> None:
        """Have the actors drop this pool."""
        for part in self.parts:
            part.actor.end.remote(self.key)

    def away(self) -> list[Part]:
        """Return the parts that cannot answer now."""
        self._bring_back()
        if not any(part.here for part in self.parts):
            self._settle(self.parts[0], wait=True)
        return [part for part in self.parts if not part.here]

    def _cast(self, array: np.ndarray) -> np.ndarray:
        return np.asarray(array, self.features.dtype)

    def _begin(self, part: Part) -> None:
        """Have an actor begin this pool again, as it is now."""
        now, taken = self._posterior(), self._state().unusual(part.start, part.stop)
        mean = self._cast(self._fold(to_numpy(now.mean) if self._mean is None else self._mean))
        known = self._seen(now) if self.has_variances else None
        sent = self.key, self.steps, part.start, self.features.bias, mean, self.binary, taken, known
        begin = part.actor.begin  # later steps queue up behind it, unless all actors are waited for
        if self._mean is not None:
            begin = begin.options(concurrency_group=BESIDE)
        part.here, part.coming = False, [begin.remote(*sent)]

    def _seen(self, posterior: Posterior) -> Posterior:
        """Return a posterior on the features as the actors hold them: its covariance is T cov T'."""
        if self.features.folds is None:
            return posterior.replace(data=None)
        if not shares_cov(posterior):
            raise EverylabelError(
                f"likelihood is {posterior.likelihood!r} and the features are on a scale of their own; "
                "expected a covariance that classes share"
            )
        folds = self.features.folds
        return posterior.replace(data=None, cov=folds @ to_numpy(posterior.cov) @ folds.T)

    def _bring_back(self) -> None:
        for part in self.parts:
            self._settle(part, wait=False)

    def _settle(self, part: Part, wait: bool) -> None:
        """Take an actor back once it has finished all its calls."""
        ray = self.sharded.ray
        while not part.here:
            if not part.coming:
                self._begin(part)
            done, _ = ray.wait(part.coming, num_returns=len(part.coming), timeout=None if wait else 0)
            if len(done) < len(part.coming):
                return
            try:
                ray.get(part.coming)
                part.here, part.coming = True, []
            except (*self.sharded.died, Behind):
                part.coming = []
                if not wait:
                    return
                self.sharded.insist(part.actor.about.remote)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None

    def _answer(self, part: Part, ref: Any) -> Any:
        """Return an answer; None if the part is away from now on."""
        errors = self.sharded.ray.exceptions
        try:
            return self.sharded.ray.get(ref)
        except (*self.sharded.died, Behind):
            part.here, part.coming = False, []
            return None
        except errors.RayTaskError as error:
            raise error.cause from None


def _as_arrays(places: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(list(places), np.int64), np.asarray(list(places.values()), np.int8)
