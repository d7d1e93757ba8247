"""The pool: features, who is labelled, out or free, and logits and variances kept current.

n instances, d features (with the bias), k classes; H (n, d), F = H mean, q = diag(H cov H').
After a label at h, with v = cov h, s = h'v and u = H v (one pass over the features):
    F -= step/(1 + s) u (p - e_y)'        q -= u^2/(1 + s)                 (Eqs. 5-7 seen through H)
The factors are read off the core's own update: any method that moves a shared covariance's mean
along v (second order, exact) costs one pass; for any other, the columns that moved are recomputed.
The pool is the one object that changes in place; its posterior is a value of the core.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import revise as change
from everylabel.core.arrays import Array, to_numpy
from everylabel.core.checks import check_choice, check_labels, check_positive, check_posterior
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.updates import default_step, update
from everylabel.selection.pool.cache import Cache

FREE, LABELLED, OUT, ASIDE = 0, 1, 2, 3


class Event(NamedTuple):
    """What happened to an instance since the last refit; a label is None for conditioning."""

    kind: str  # "label", "condition", "release" or "add_class"
    idx: int
    label: int | None = None
    weight: float = 1.0
    method: str | None = None
    step_size: float | None = None
    was_out: bool = False
    n_classes: int = 0  # added
    names: tuple[str, ...] | None = None  # of the classes added


@dataclass
class Late:
    """What the logits have yet to follow."""

    moves: list[tuple[Posterior, int]] = field(default_factory=list)
    labelled: list[int] = field(default_factory=list)
    anew: bool = False  # not by moves: compute them from scratch


class Pool:
    """Instances to choose from, and a posterior that learns from those that were chosen.

    Parameters
    ----------
    features : array (n, d)
        As they come: NumPy (also memory-mapped, also float16) or torch. They are never copied.
    posterior : Posterior
        From `laplace` or `update`.
    labelled_idx, labels : array (l,), optional
        Instances of the pool that the posterior was trained on, and their labels.
    method, step_size : optional
        How `add` updates; by default the paper's second-order step of 10. step_size="auto" is
        the scale the last training gave to labelled instances; see `auto_step`.
    """

    def __init__(
        self,
        features: Any,
        posterior: Posterior,
        *,
        labelled_idx: Any = None,
        labels: Any = None,
        method: str | None = None,
        step_size: float | str | None = None,
    ) -> None:
        if not isinstance(posterior, Posterior):
            raise EverylabelError(
                f"posterior is a {type(posterior).__name__}; expected what laplace or update return"
            )
        if (labelled_idx is None) != (labels is None):
            raise EverylabelError("labelled_idx and labels are given together: one label an instance")
        if method is not None:
            check_choice(method, "method", UPDATES)
        if step_size not in (None, "auto"):
            check_positive(step_size, "step_size", zero=True)
        self.method, self.step_size = method, step_size
        self._late: Late | None = None
        self._base: Posterior = posterior
        self._events: list[Event] = []
        self.cache = Cache(features, posterior)
        self.labels = np.full(self.cache.features.n, -1)
        self.weights = np.ones(self.cache.features.n)
        self.state = np.zeros(self.cache.features.n, np.int8)
        if labelled_idx is not None:
            idx = self._check_idx(labelled_idx, "labelled_idx")
            self.labels[idx] = check_labels(np.asarray(labels), len(idx), posterior.n_classes, idx)
            self.state[idx] = LABELLED
        self.refit(posterior)

    def __len__(self) -> int:
        return self.cache.features.n

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={np.sum(self.state == s)}" for s, name in enumerate(_NAMES))
        return f"Pool({counts}, {self.posterior!r})"

    @property
    def posterior(self) -> Posterior:
        return self.cache.posterior

    @property
    def features(self) -> Array:
        return self.cache.features.array

    @property
    def n_classes(self) -> int:
        return self.posterior.n_classes

    @property
    def free_idx(self) -> np.ndarray:
        return np.flatnonzero(self.state == FREE)

    @property
    def labelled_idx(self) -> np.ndarray:
        return np.flatnonzero(self.state == LABELLED)

    @property
    def out_idx(self) -> np.ndarray:
        return np.flatnonzero(self.state == OUT)

    def add(
        self,
        idx: int,
        label: int,
        weight: float = 1.0,
        *,
        method: str | None = None,
        step_size: float | str | None = None,
    ) -> None:
        """Learn the label of one instance that is free or out."""
        i = self._check_one(idx)
        if self.state[i] == LABELLED:
            raise EverylabelError(
                f"idx is {i}, which has label {self.labels[i]} already; call remove_label({i}) first"
            )
        label = int(check_labels(np.asarray([label]), 1, self.n_classes, np.zeros(1), "label")[0])
        method = method or self.method
        step = self._step(self.step_size if step_size is None else step_size, method)
        weight = check_positive(weight, "weight", zero=True)
        out = self.state[i] == OUT
        if out and self.posterior.likelihood != "gaussian":
            self._replay(self._base, self._without_condition(i))  # its curvature must not count twice
            out = False
        self._take(Event("label", i, label, weight, method, step, out))
        self.labels[i], self.weights[i], self.state[i] = label, weight, LABELLED

    def condition(self, idx: int) -> None:
        """Mark a free instance as out with an annotator: it is certain to be known, its label is not."""
        i = self._check_one(idx)
        if self.state[i] != FREE:
            raise EverylabelError(f"idx is {i}, which is {_NAMES[self.state[i]]}; expected a free instance")
        self._take(Event("condition", i))
        self.state[i] = OUT

    def release(self, idx: int) -> None:
        """Make an instance that is out free again, and forget that it was to be known."""
        i = self._check_one(idx)
        if self.state[i] != OUT:
            raise EverylabelError(f"idx is {i}, which is {_NAMES[self.state[i]]}; expected one that is out")
        self.state[i] = FREE
        if self.posterior.likelihood == "gaussian":
            self._take(Event("release", i))
        else:  # its curvature was taken at a mean that has gone since
            self._replay(self._base, self._without_condition(i))

    def set_aside(self, idx: int) -> None:
        """Keep a free instance from being chosen; nothing is learned from it."""
        self._turn(idx, FREE, ASIDE)

    def bring_back(self, idx: int) -> None:
        """Make an instance that was set aside free again."""
        self._turn(idx, ASIDE, FREE)

    def _turn(self, idx: int, old: int, new: int) -> None:
        i = self._check_one(idx)
        if self.state[i] != old:
            raise EverylabelError(
                f"idx is {i}, which is {_NAMES[self.state[i]]}; expected one that is {_NAMES[old]}"
            )
        self.state[i] = new

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let all that is learned inside reach the logits at the end, in one pass over the features.

        Inside, the posterior is current and the logits are not. Afterwards all is as if learned
        one by one, to rounding.
        """
        before, self._late = self.posterior, Late()
        try:
            yield
        finally:
            late, self._late = self._late, None
            if late.anew:
                self.cache.reset(self.posterior)
            elif len(late.labelled) > 1:
                self.cache.posterior, now = before, self.posterior
                self.cache.move_many(now, late.labelled)
            else:
                self.cache.posterior = before
                for posterior, i in late.moves:
                    self.cache.move(posterior, i)

    def remove_label(self, idx: int) -> None:
        """Take a label back, as if it had never been.

        Labels learned exactly do not depend on each other's order: the label is forgotten. After any
        other update all that was learned since the last refit is replayed without it.
        """
        i = self._check_one(idx)
        if self.state[i] != LABELLED:
            raise EverylabelError(f"idx is {i}, which is {_NAMES[self.state[i]]}; expected a labelled one")
        base, events = self._base, [e for e in self._events if not (e.kind == "label" and e.idx == i)]
        if len(events) == len(self._events):  # the last training knew it
            given = self.cache.features.native(i), [int(self.labels[i])]
            try:
                base = change.forget(base, *given, weights=[float(self.weights[i])])
            except EverylabelError as error:
                raise EverylabelError(
                    f"the label of instance {i} came with the last training and cannot be taken back "
                    "here; train without it and call refit"
                ) from error
        elif any(e.idx == i and e.was_out for e in self._events if e.kind == "label"):
            last = max(at for at, e in enumerate(events) if e.kind == "condition" and e.idx == i)
            del events[last]
        exact = all(e.method == "exact" for e in self._events if e.kind == "label")
        if exact and self.posterior.likelihood == "gaussian":
            given = self.cache.features.native(i), [int(self.labels[i])]
            posterior = change.forget(self.posterior, *given, weights=[float(self.weights[i])])
            self._base, self._events = base, events
            self._reset(posterior)
        else:
            self._replay(base, events)
        self.labels[i], self.weights[i], self.state[i] = -1, 1.0, FREE

    def refit(self, posterior: Posterior) -> None:
        """Go on from a newly trained posterior; the labels stay, their updates are in it."""
        posterior = check_posterior(posterior)
        if len(self) and int(self.labels.max()) >= posterior.n_classes:
            raise EverylabelError(
                f"posterior has {posterior.n_classes} classes and the pool has labels up to "
                f"{int(self.labels.max())}; expected a posterior with all classes of the pool"
            )
        self.cache.reset(posterior)
        self._base, self._events = posterior, []
        for i in self.out_idx:
            self._take(Event("condition", int(i)))
        self.auto_step = self._auto_step()

    def add_class(self, n: int = 1, *, names: tuple[str, ...] | list[str] | None = None) -> None:
        """Make room for n classes more, at the prior; nothing else moves."""
        event = Event("add_class", -1, n_classes=n, names=None if names is None else tuple(names))
        posterior = self._after(self.posterior, event)
        if self._late is None:
            self.cache.add_class(posterior)
        else:
            self._reset(posterior)
        self._events.append(event)

    def logits(self, idx: Any = None) -> np.ndarray:
        """Return the logits at the mean (n, k) of the instances; (0, f) if the posterior is binary.

        Without idx it may be a view that later labels move; it cannot be written to.
        """
        return _read_only(self.cache.logits_of(idx))

    def probs(self, idx: Any = None) -> np.ndarray:
        """Return the class probabilities at the mean (n, k)."""
        f = self.cache.logits_of(idx)
        f = np.exp(f - f.max(axis=1, keepdims=True))
        return f / f.sum(axis=1, keepdims=True)

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return the variance of the logits (n,), over classes their mean."""
        return _read_only(self.cache.variances if idx is None else self.cache.variances[idx])

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        """Return the design rows (n, d) of the instances, with the bias column."""
        return self.cache.features.rows(idx, dtype)

    def inner(self, idx: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return w -> H[idx] w, without copying most of a pool's features, and |h|^2 of idx."""
        features = self.cache.features
        if 2 * len(idx) > len(self):
            return lambda w: features.product(w)[..., idx], features.norms()[idx]
        rows = features.rows(idx, features.dtype)
        return lambda w: (rows @ w.astype(rows.dtype)).T, np.einsum("nd,nd->n", rows, rows)

    def _take(self, event: Event) -> None:
        posterior = self._after(self.posterior, event)
        if self._late is None:
            self.cache.move(posterior, event.idx)
        else:
            self._late.moves.append((posterior, event.idx))
            self._late.labelled += [event.idx] if event.kind == "label" else []
            self.cache.posterior = posterior
        self._events.append(event)

    def _reset(self, posterior: Posterior) -> None:
        """Compute the logits from scratch, now or at the end of `together`."""
        if self._late is None:
            self.cache.reset(posterior)
        else:
            self.cache.posterior, self._late.anew = posterior, True

    def _without_condition(self, i: int) -> list[Event]:
        """Return the events without the last conditioning on instance i."""
        last = max(at for at, e in enumerate(self._events) if e.kind == "condition" and e.idx == i)
        return self._events[:last] + self._events[last + 1 :]

    def _after(self, posterior: Posterior, event: Event) -> Posterior:
        if event.kind == "add_class":
            return change.add_class(posterior, event.n_classes, names=event.names)
        h = self.cache.features.native(event.idx)
        if event.kind == "condition":
            return change.condition(posterior, h)
        if event.kind == "release" or (event.was_out and posterior.likelihood == "gaussian"):
            posterior = change.forget(posterior, h)
        if event.kind == "release":
            return posterior
        given: dict[str, Any] = {"weights": [event.weight], "method": event.method}
        return update(posterior, h, [event.label], step_size=event.step_size, **given)

    def _replay(self, base: Posterior, events: list[Event]) -> None:
        posterior = base
        for event in events:
            posterior = self._after(posterior, event)
        self._base, self._events = base, events
        self._reset(posterior)

    def _step(self, step_size: float | str | None, method: str | None) -> float | None:
        if step_size == "auto":
            return self.auto_step
        return None if step_size is None else check_positive(step_size, "step_size", zero=True)

    def _auto_step(self) -> float:
        """Return how far training has set labelled instances apart: mean of f_y - mean(f).

        A label moves its own logits by about step * s/(1 + s) < step: the step is then what
        training would give the instance. The paper's step where the pool knows no labels.
        """
        idx = self.labelled_idx
        f = self.logits(idx)
        own = np.mean(f[np.arange(len(idx)), self.labels[idx]] - f.mean(axis=1)) if len(idx) else 0.0
        return float(own) if own > 0 else default_step("second_order", self.posterior.likelihood)

    def _check_one(self, idx: Any) -> int:
        if isinstance(idx, (bool, np.bool_)) or not isinstance(idx, (int, np.integer)):
            raise EverylabelError(f"idx is {idx!r}; expected the position of one instance, a whole number")
        return int(self._check_idx([idx], "idx")[0])

    def _check_idx(self, idx: Any, name: str) -> np.ndarray:
        array = np.asarray(to_numpy(idx) if hasattr(idx, "detach") else idx)
        n = len(self)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise EverylabelError(f"{name} is {idx!r}; expected positions in the pool, whole numbers")
        if array.size and (array.min() < 0 or array.max() >= n):
            raise EverylabelError(
                f"{name} runs from {array.min()} to {array.max()}; expected positions 0 to {n - 1}"
            )
        if len(np.unique(array)) < array.size:
            raise EverylabelError(f"{name} names some instance twice; expected each once")
        return array.astype(np.int64)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


_NAMES = ("free", "labelled", "out", "set aside")
UPDATES = ("second_order", "first_order", "exact")
