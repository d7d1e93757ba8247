"""The pool: features, the state of each instance (free, labelled, leased), and current logits and variances.

n instances, d features (with the bias), k classes; X (n, d) the features. The pool keeps the logits
F = X mean and, once requested, their variances s = diag(X cov X').
After a label at instance i, with v = cov h_i and u = X v (one pass over the features):
    F -= gamma/(1 + s_i) u (p - e_y)'     s -= u^2/(1 + s_i)    (Eqs. 5-7 times X, Gaussian likelihood)
with gamma the step size and p the probabilities at instance i. The factors are computed from the core's
update. If it moved the mean along v, a label costs the one product X v. Otherwise (an exact update moves each
column in its own direction) F = X mean is recomputed for the columns that moved, also in one pass.
The pool is the one object that changes in place; its posterior is a value of the core.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from everylabel.core.arrays import Array, to_numpy
from everylabel.core.checks import (
    check_answers,
    check_choice,
    check_labels,
    check_positions,
    check_positive,
    check_posterior,
    described,
    warn_of_outliers,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.updates import METHODS, default_step
from everylabel.selection.pool.cached_logits import (
    LocalLogits,
    add_class_logits,
    update_logits,
    update_logits_many,
)
from everylabel.selection.pool.features import FEW, Features, LazyFeatures, LazyScaled
from everylabel.selection.pool.history import Answer, History, Options
from everylabel.selection.pool.view import LearningPool, Where


class Pool(LearningPool):
    """Instances to choose from, and a posterior that learns their labels.

    Parameters
    ----------
    features : array (n, d)
        NumPy (also memory-mapped, also float16) or torch, without a bias column. They are not copied, unless
        `extend` adds to them.
    posterior : Posterior
        From `laplace` or `update`.
    labelled_idx, labels : array (l,), optional
        Instances of the pool that the posterior was trained on, and their labels. A label is a class number;
        for a multi-label posterior it is a row (k,) of 1, 0 or NaN (not answered), here and in all methods.
    ruled_out : mapping, optional
        Other instances that the posterior was trained on, and the classes ruled out for each.
    method, step_size : optional
        How `add` updates; by default the paper's second-order step of 10. step_size="auto" is the mean of
        f_y - mean(f) over the labelled instances after the last training, f their logits and y their labels.

    Examples
    --------
    >>> pool = el.Pool(x[:1000], post, labelled_idx=np.arange(100), labels=y[:100])
    >>> i = el.select(pool, rng=rng)[0]
    >>> pool.add(i, y[i])  # learned; every other instance's score has followed
    >>> len(pool.labelled_idx)
    101
    >>> pool.remove_label(i)  # and taken back
    >>> len(pool.labelled_idx)
    100
    """

    can_scan = True  # all logits are in this process

    def __init__(
        self,
        features: Any,
        posterior: Posterior,
        *,
        labelled_idx: Any = None,
        labels: Any = None,
        ruled_out: Mapping[int, Collection[int]] | None = None,
        method: str | None = None,
        step_size: float | str | None = None,
    ) -> None:
        posterior = check_posterior(posterior)
        if (labelled_idx is None) != (labels is None):
            raise EverylabelError("labelled_idx and labels are given together: one label per instance")
        self.method, self.step_size = _check_options(method, step_size)
        self._begin(posterior)
        self._cached = self._make_cache(features, posterior)
        if type(self._cached.features) is Features:  # no scaled features or shards, which are long checked
            warn_of_outliers(self.features, "features")
        self.dtype = self._cached.features.dtype
        self.labels, self.weights, self.state = self._blank(len(self))
        self.ruled_out = {int(i): frozenset(classes) for i, classes in (ruled_out or {}).items() if classes}
        if self.ruled_out and posterior.multi_label:
            raise _rules_out_by_rows()
        if labelled_idx is not None:
            idx = check_positions(labelled_idx, len(self), "labelled_idx")
            check = check_answers if posterior.multi_label else check_labels
            self.labels[idx] = check(np.asarray(labels), len(idx), posterior.n_classes, idx)
            self.state[idx] = Where.LABELLED
        self.refit(posterior)

    def __len__(self) -> int:
        return self._cached.features.n

    def __repr__(self) -> str:
        counts = ", ".join(f"{where.name.lower()}={len(self.placed(where))}" for where in Where)
        return f"Pool({counts}, {self.posterior!r})"

    @property
    def posterior(self) -> Posterior:
        return self._history.posterior

    @property
    def features(self) -> Array:
        return self._cached.features.array

    def put(
        self,
        idx: int,
        where: Where,
        label: Answer | None = None,
        weight: float = 1.0,
        *,
        method: str | None = None,
        step_size: float | str | None = None,
    ) -> None:
        """Move one instance to another state, with a label if that is LABELLED.

        Nothing happens if it is in that state already. Its old label is taken back as if it had never been
        given; a new label replaces the classes ruled out.
        """
        i, where, here = self._check_one(idx), _check_where(where), self.where(idx)
        if (label is None) == (where is Where.LABELLED):
            expected = "its class" if label is None else "none, since only a labelled instance has one"
            raise EverylabelError(
                f"label is {label!r} and where is {where.name.lower()}; expected {expected}"
            )
        options = self.learns_by(method, step_size) if where is Where.LABELLED else (None, None)
        several = self.posterior.multi_label
        now: tuple[Answer, float] = (np.full(self.n_classes, np.nan) if several else -1, 1.0)
        if label is not None:
            now = self._check_label(label), check_positive(weight, "weight", zero=True)
        before = self.labels[i].astype(np.float64) if several else int(self.labels[i]), float(self.weights[i])
        if here is where and before[1] == now[1] and np.array_equal(before[0], now[0], equal_nan=several):
            return
        h, history = self._cached.features.native(i), self._history
        replaces = i in self.ruled_out and options[0] == "exact"  # step updates leave that to the next refit
        if replaces:
            history = history.rule_out(i, h, self.ruled_out[i], frozenset(), options)
        if here is Where.LABELLED:
            history = history.forget(i, h, *before)
        elif here is Where.LEASED:
            history = history.release(i, h)
        if where is Where.LABELLED:
            history = history.learn(i, h, *now, options)
        elif where is Where.LEASED:
            history = history.condition(i, h)
        self._continue(history, i)
        (self.labels[i], self.weights[i]), self.state[i] = now, where
        if replaces:
            del self.ruled_out[i]

    def rule_out(self, idx: int, classes: Collection[int]) -> None:
        """Learn that an unlabelled instance is not of these classes; with none, take back the ruled-out ones.

        The classes replace those ruled out before.
        """
        if self.posterior.multi_label:
            raise _rules_out_by_rows()
        i, now = self._check_one(idx), self._check_ruled_out(classes)
        before = self.ruled_out.get(i, frozenset())
        if now == before:
            return
        if self.where(i) is Where.LABELLED:
            raise EverylabelError(f"idx is {idx}, which has a label; call remove_label({idx}) first")
        h = self._cached.features.native(i)
        self._continue(self._history.rule_out(i, h, before, now, self.learns_by()), i)
        self.ruled_out[i] = now
        if not now:
            del self.ruled_out[i]

    def add(
        self,
        idx: int,
        label: Answer,
        weight: float = 1.0,
        *,
        method: str | None = None,
        step_size: float | str | None = None,
    ) -> None:
        """Learn the label of one free or leased instance."""
        here = self.where(idx)
        if here is Where.LABELLED:
            raise EverylabelError(
                f"idx is {idx}, which has label {self.labels[idx]} already; call remove_label({idx}) first"
            )
        if here is Where.EXCLUDED:
            raise EverylabelError(f"idx is {idx}, which is excluded; call bring_back({idx}) first")
        self.put(idx, Where.LABELLED, label, weight, method=method, step_size=step_size)

    def condition(self, idx: int) -> None:
        """Lease a free instance to an annotator; the covariance shrinks as if it were labelled."""
        self._move(idx, Where.FREE, Where.LEASED, "a free instance")

    def release(self, idx: int) -> None:
        """Make a leased instance free again, and undo `condition`."""
        self._move(idx, Where.LEASED, Where.FREE, "a leased instance")

    def set_aside(self, idx: int) -> None:
        """Exclude a free instance from being chosen; nothing is learned from it."""
        self._move(idx, Where.FREE, Where.EXCLUDED, "one that is free")

    def bring_back(self, idx: int) -> None:
        """Make an excluded instance free again."""
        self._move(idx, Where.EXCLUDED, Where.FREE, "an excluded one")

    def remove_label(self, idx: int) -> None:
        """Take a label back, as if it had never been given."""
        self._move(idx, Where.LABELLED, Where.FREE, "a labelled one")

    def where(self, idx: int) -> Where:
        """Return the state of an instance."""
        return Where(self.state[self._check_one(idx)])

    def learns_by(self, method: str | None = None, step_size: float | str | None = None) -> Options:
        """Return the method and step size that `add` would use; raise if they are invalid."""
        step_size = self.step_size if step_size is None else step_size
        method, step_size = _check_options(method or self.method, step_size)
        if method == "exact" and self.posterior.data is None:
            raise EverylabelError(
                "method is 'exact', which retrains on all labels, and the posterior has not kept them; "
                "make it by laplace(..., keep_data=True), or use method='second_order'"
            )
        return method, self.auto_step if step_size == "auto" else step_size  # type: ignore[return-value]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Context manager: labels learned inside update the logits at the end, for many in one pass.

        Inside, the posterior is up to date and the logits are not. The result is the same as learning
        one by one, up to rounding.
        """
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False
            self._catch_up()

    def refit(self, posterior: Posterior) -> None:
        """Continue from a newly trained posterior, which includes the pool's labels and ruled-out classes."""
        posterior = check_posterior(posterior)
        if posterior.multi_label != self.posterior.multi_label:
            raise EverylabelError(
                f"posterior is {posterior.likelihood!r}, the pool's is {self.posterior.likelihood!r}; "
                "expected both with several classes per item, or both with one"
            )
        seen = self.labels.shape[1] if posterior.multi_label else int(self.labels.max()) + 1
        if posterior.n_classes < seen:
            raise EverylabelError(
                f"posterior has {posterior.n_classes} classes and the pool's labels {seen}; expected a "
                "posterior with all classes of the pool"
            )
        features = self._cached.features
        width = features.array.shape[1]
        if posterior.n_features != width or posterior.bias != features.bias:
            raise EverylabelError(
                f"posterior has {posterior.n_features} features and bias={posterior.bias}; expected "
                f"{width} and bias={features.bias}, like the pool's first one"
            )
        self._cached.reset(to_numpy(posterior.mean))
        self._begin(posterior)
        self._widen()
        self.ruled_out = {i: now for i, now in self.ruled_out.items() if self.where(i) is not Where.LABELLED}
        for i in self.leased_idx:  # the new posterior knows labels, not leases
            self._continue(self._history.condition(int(i), features.native(i)), int(i))
        self.auto_step = self._auto_step()

    def close(self) -> None:
        """Release external resources; a local pool has none."""

    def add_class(self, n: int = 1, *, names: tuple[str, ...] | list[str] | None = None) -> None:
        """Add n classes, at the prior; nothing else changes."""
        self._continue(self._history.add_class(n, None if names is None else tuple(names)), None)
        self._widen()

    def extend(self, features: Any) -> None:
        """Append instances (m, d), which are free; the cost depends on m alone.

        The result is the same as making the pool of all instances, up to rounding.
        """
        # `_cached_at`, not the posterior: all logits must belong to the same one; raises before any change
        self._cached.extend(features, self._cached_at)
        more = len(self) - len(self.state)
        pairs = zip((self.labels, self.weights, self.state), self._blank(more), strict=True)
        self.labels, self.weights, self.state = (np.concatenate(pair) for pair in pairs)

    def logits(self, idx: Any = None) -> np.ndarray:
        """Return the logits (n, k) of the instances at the mean; (0, f) if the posterior is binary.

        Without idx it may be a read-only view that later labels change.
        """
        return _read_only(self._cached.logits_of(idx, self._cached_at.likelihood == "binary"))

    def variances(self, idx: Any = None) -> np.ndarray:
        """Return the variance of the logits (n,), computed at the first call."""
        if not self._cached.has_variances:
            self._cached.find_variances(self._cached_at)
        return _read_only(self._cached.variances(idx))

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        return self._cached.features.rows(idx, dtype)

    def scan(self) -> np.ndarray | None:
        """Return a copy of all logits (n, k); None if they are not in this process."""
        return np.array(self.logits()) if self.can_scan else None

    def guessed(self, present: int) -> np.ndarray:
        """Return the number of instances predicted as each of the first `present` classes.

        With several classes per item: the number of instances with a probability above 1/2 of the class.
        """
        if self.posterior.multi_label:
            return np.sum(self.logits()[:, :present] > 0.0, axis=0)
        return np.bincount(self.logits()[:, :present].argmax(axis=1), minlength=present)

    def margins(self, idx: np.ndarray) -> np.ndarray:
        """Return p_first - p_second of the instances, from the cached logits."""
        found = None if self.posterior.multi_label else self._cached.margins(idx)
        return super().margins(idx) if found is None else found

    def inner(self, idx: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        """Return w -> X[idx] w, a function that does not copy most of a pool's features, and |h|^2 of idx."""
        features = self._cached.features
        if 2 * len(idx) > len(self):
            return lambda w: features.product(w)[..., idx], features.norms()[idx]
        return super().inner(idx)

    def _make_cache(self, features: Any, posterior: Posterior) -> LocalLogits:
        """Return the cache of logits and variances; subclasses override it."""
        if isinstance(features, LazyScaled):
            return LocalLogits(LazyFeatures(features) if posterior.bias else Features(features, posterior))
        return LocalLogits(Features(features, posterior))

    def _blank(self, n: int) -> tuple[Any, Any, Any]:
        """Return labels, weights and states of n free instances."""
        several = self.posterior.multi_label
        labels = np.full((n, self.n_classes), np.nan, np.float32) if several else np.full(n, -1)
        return labels, np.ones(n), np.full(n, Where.FREE, np.int8)

    def _widen(self) -> None:
        """Extend rows of answers by a column of NaN (no answer) for each new class."""
        more = self.n_classes - self.labels.shape[1] if self.posterior.multi_label else 0
        if more:
            none = np.full((len(self.labels), more), np.nan, self.labels.dtype)
            self.labels = np.concatenate([self.labels, none], axis=1)

    def _begin(self, posterior: Posterior) -> None:
        """Start a history at the posterior from which the cache was computed."""
        self._history = History(posterior, posterior)
        self._cached_at = self.posterior  # the posterior that the cached logits belong to
        self._pending: list[tuple[Posterior, int | None]] = []  # later posteriors, and the instance of each
        self._is_together = False

    def _continue(self, history: History, idx: int | None) -> None:
        """Set the history, changed at instance idx or by new classes (None), and update the cache."""
        if history is not self._history:
            self._history = history
            self._pending.append((history.posterior.replace(data=None), idx))  # its data may be large
        if not self._is_together:
            self._catch_up()

    def _catch_up(self) -> None:
        """Update the cache to the posterior, in one pass for several labels, if that is possible."""
        pending, self._pending = self._pending, []
        means = [self._cached_at.mean, *(posterior.mean for posterior, _ in pending)]
        moves = sum(after is not before for before, after in pairwise(means))
        few = moves <= FEW and self.method != "exact"  # an exact label may move all classes
        one_by_one = moves < 2 or (few and self._cached.has_variances)
        if all(i is not None for _, i in pending) and not one_by_one:
            old, self._cached_at = self._cached_at, self.posterior
            update_logits_many(self._cached, old, self.posterior, few)
            return
        for posterior, i in pending:
            old, self._cached_at = self._cached_at, posterior
            if i is None:
                add_class_logits(self._cached, posterior)
            else:
                update_logits(self._cached, old, posterior, i, self.method != "exact")

    def _move(self, idx: int, old: Where, new: Where, expected: str) -> None:
        here = self.where(idx)
        if here is not old:
            raise EverylabelError(f"idx is {idx}, which is {here.name.lower()}; expected {expected}")
        self.put(idx, new)

    def _auto_step(self) -> float:
        """Return the mean of f_y - mean(f) over labelled instances after training.

        A label moves its own logits by about step * s/(1 + s) < step, so this step moves them about as far as
        training would. Without labels it is the paper's step.
        """
        if self.posterior.multi_label:
            return default_step("second_order", self.posterior.likelihood)
        idx = self.labelled_idx
        f = self.logits(idx)
        own = np.mean(f[np.arange(len(idx)), self.labels[idx]] - f.mean(axis=1)) if len(idx) else 0.0
        return float(own) if own > 0 else default_step("second_order", self.posterior.likelihood)

    def _check_ruled_out(self, classes: Collection[int]) -> frozenset[int]:
        if not isinstance(classes, Iterable):
            raise EverylabelError(f"classes is {classes!r}; expected several class numbers: [{classes!r}]")
        given = np.asarray(list(classes), np.int64)
        numbers = frozenset(check_labels(given, len(given), self.n_classes, given, "classes").tolist())
        if len(numbers) == self.n_classes:
            raise EverylabelError(
                f"classes rules out all {self.n_classes}; expected at least one class that is not"
            )
        return numbers

    def _check_label(self, label: Any) -> Answer:
        if self.posterior.multi_label:
            row = np.asarray(label)
            if row.shape != (self.n_classes,):
                raise EverylabelError(
                    f"label is {described(label)}; expected a row of {self.n_classes} answers, "
                    "1 (of this class), 0 (not of it) or NaN (not answered)"
                )
            return check_answers(row[None, :], 1, self.n_classes, np.zeros(1), "label")[0]
        if type(label) is int and 0 <= label < self.n_classes:
            return label
        return int(check_labels(np.asarray([label]), 1, self.n_classes, np.zeros(1), "label")[0])

    def _check_one(self, idx: Any) -> int:
        if isinstance(idx, (bool, np.bool_)) or not isinstance(idx, (int, np.integer)):
            raise EverylabelError(f"idx is {idx!r}; expected the position of one instance, a whole number")
        if 0 <= idx < len(self):
            return int(idx)
        return int(check_positions([idx], len(self), "idx")[0])  # raises the right error


def _check_where(where: Any) -> Where:
    if where not in list(Where):
        raise EverylabelError(
            f"where is {where!r}; expected one of {', '.join(f'Where.{w.name}' for w in Where)}"
        )
    return Where(where)


def _rules_out_by_rows() -> EverylabelError:
    return EverylabelError(
        "classes cannot be ruled out where an item may have several; expected a label with 0 for each class "
        "that it is not of, and NaN for those that are not known"
    )


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_options(
    method: str | None, step_size: float | str | None
) -> tuple[str | None, float | str | None]:
    """Check that a method and a step size are valid together, and return them."""
    if method is not None:
        check_choice(method, "method", [*METHODS, "exact"])
    if method == "exact" and step_size is not None:
        raise EverylabelError(f"step_size is {step_size!r}; method='exact' has none: leave it out")
    if step_size is None or step_size == "auto":
        return method, step_size
    return method, check_positive(step_size, "step_size", zero=True)
