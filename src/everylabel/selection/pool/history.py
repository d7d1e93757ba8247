"""The steps of a pool's posterior since the last training, and how to take some of them back.

Each step turns one posterior into the next. A label is taken back in one of three ways:
    exactly         if the likelihood is Gaussian and all steps were exact: their order does not matter, so
                    one search finds the mean without the label
    in closed form  if the Gaussian posterior has not kept its data, as in large pools: the residual of the
                    second-order step that learned the label undoes it, at the cost of that step
    by replay       otherwise: all other steps are taken again, from the posterior of the training
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from everylabel.core import revise
from everylabel.core.arrays import Array, array_namespace, from_numpy, zeros
from everylabel.core.checks import check_features, outliers_known
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior
from everylabel.core.updates import default_step, update
from everylabel.core.updates.partial import expected_shares, forget_shares, learn_shares

Classes = frozenset[int]
Answer = Any  # a class number, or a row (k,) of 1, 0 and NaN where an instance may have several classes
Options = tuple[str | None, float | None]  # method and step size


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """An instance was leased (sign 1), or returned without a label (sign -1, the exact inverse)."""

    idx: int
    features: Array  # (1, d), without the bias
    probs: Array  # (1, k) when it was leased; they determine the curvature
    sign: int = 1

    def after(self, posterior: Posterior) -> Posterior:
        return revise.condition_at(posterior, self.features, _pad(self.probs, posterior), self.sign)


@dataclass(frozen=True, eq=False, slots=True)
class Label:
    """An instance got its label."""

    idx: int
    features: Array
    label: Answer
    weight: float
    method: str | None
    step_size: float | None
    residual: Array | None = None  # step_size w (p - e_y), (1, k), for taking back in closed form

    def after(self, posterior: Posterior) -> Posterior:
        with outliers_known():  # the pool has checked its features
            return update(
                posterior, self.features, [self.label], self.method, self.step_size, weights=[self.weight]
            )


@dataclass(frozen=True, eq=False, slots=True)
class Forgotten:
    """A label of the last training was taken back, as if it had never been given."""

    idx: int
    features: Array
    label: Answer
    weight: float

    def concerns(self, label: Answer, weight: float) -> bool:
        """Return whether this is the label that was taken back."""
        return weight == self.weight and np.array_equal(label, self.label, equal_nan=True)

    def after(self, posterior: Posterior) -> Posterior:
        # classes added since the training have no answer in it
        label = self.label[: posterior.n_classes] if posterior.multi_label else self.label
        try:
            return revise.forget(posterior, self.features, [label], weights=[self.weight])
        except EverylabelError as error:
            raise EverylabelError(
                f"the label of instance {self.idx} came with the last training and cannot be taken back "
                "here; train without it and call refit"
            ) from error


@dataclass(frozen=True, eq=False, slots=True)
class PartialLabel:
    """Some classes were ruled out for an instance: the probabilities of the others are its soft label."""

    idx: int
    features: Array
    shares: Array  # (1, k) of the classes at that time
    method: str | None
    step_size: float | None

    def after(self, posterior: Posterior) -> Posterior:
        shares = _pad(self.shares, posterior)
        step_size = self.step_size
        if step_size is None:
            step_size = default_step(self.method or "second_order", posterior.likelihood)
        return learn_shares(posterior, self.features, shares, self.method, step_size)


@dataclass(frozen=True, eq=False, slots=True)
class NewClasses:
    """Classes were added, at the prior."""

    n: int
    names: tuple[str, ...] | None
    idx: None = None  # concerns no instance

    def after(self, posterior: Posterior) -> Posterior:
        return revise.add_class(posterior, self.n, names=self.names)


Step = Condition | Label | Forgotten | PartialLabel | NewClasses
Kind = TypeVar("Kind", Condition, Label, Forgotten, PartialLabel)


@dataclass(frozen=True, eq=False, slots=True)
class History:
    """The posterior of the last training, the steps since then, and the posterior they led to."""

    base: Posterior
    posterior: Posterior
    steps: tuple[Step, ...] = ()

    def condition(self, idx: int, features: Array) -> History:
        """Return the history after an instance was leased."""
        return self._then(Condition(idx, features, _probs(self.posterior, features)))

    def release(self, idx: int, features: Array) -> History:
        """Return the history after a leased instance was returned without a label."""
        leased = self._of(idx, Condition)[-1]
        if self.posterior.likelihood == "matrix_normal":  # the order of its steps matters
            return self._replay([leased], self.base)
        return self._then(replace(leased, sign=-1))

    def learn(self, idx: int, features: Array, label: Answer, weight: float, options: Options) -> History:
        """Return the history after an instance got its label.

        If the training had this label and it was taken back since, the step that took it back is dropped.
        """
        removed = [step for step in self._of(idx, Forgotten) if step.concerns(label, weight)]
        if removed and options[0] != "exact":
            return self._replay(removed, self.base)
        step = Label(idx, features, label, weight, *options)
        if self._has_closed_form and options[0] in (None, "second_order"):
            step = replace(step, residual=_residual(step, self.posterior))
        return self._then(step)

    def forget(self, idx: int, features: Array, label: Answer, weight: float) -> History:
        """Return the history as if a label had never been given."""
        step, learned = Forgotten(idx, features, label, weight), self._of(idx, Label)
        gone = [*learned, *self._of(idx, Condition)]  # the lease before the label is dropped, too
        if self._is_exact:
            left = self._without(gone)
            return History(self.base, step.after(self.posterior), left if learned else (*left, step))
        if self._has_closed_form and not learned:
            return self._then(step)
        if learned and learned[-1].residual is not None:
            residual = _pad(learned[-1].residual, self.posterior)
            posterior = revise.undo_label(self.posterior, features, residual, weight)
            return History(self.base, posterior, self._without(gone))
        first = () if learned else (step,)  # the label came with the training: take it back first
        return History(self.base, self.base)._then(*first, *self._without(gone))

    def rule_out(self, idx: int, features: Array, before: Classes, now: Classes, options: Options) -> History:
        """Return the history with classes `now` ruled out for an instance instead of `before`.

        If classes are only added to `before`, and the method is not exact, the soft label of `before` stays.
        """
        history = self
        if before and (options[0] == "exact" or not now > before):
            history = self._without_partial_label(idx, features, before)
        if not now:
            return history
        posterior = history.posterior
        return history._then(PartialLabel(idx, features, _shares(posterior, features, now), *options))

    def add_class(self, n: int, names: tuple[str, ...] | None) -> History:
        """Return the history after n classes were added."""
        return self._then(NewClasses(n, names))

    def _without_partial_label(self, idx: int, features: Array, before: Classes) -> History:
        """Return the history as if no class had been ruled out for an instance."""
        gone, base = self._of(idx, PartialLabel), self.base
        if gone:
            shares = gone[-1].shares
        else:  # the training learned it: forget the soft label that the training gave the instance
            shares = _shares(base, features, before)
            base = forget_shares(base, features, shares)
        if not self._is_exact:
            return self._replay(gone, base)
        posterior = forget_shares(self.posterior, features, _pad(shares, self.posterior))
        return History(base, posterior, self._without(gone))

    @property
    def _is_gaussian(self) -> bool:
        return self.posterior.likelihood == "gaussian"

    @property
    def _is_exact(self) -> bool:
        """Return whether the order of the steps does not matter."""
        learned = (step.method for step in self.steps if isinstance(step, Label | PartialLabel))
        return self._is_gaussian and all(method == "exact" for method in learned)

    @property
    def _has_closed_form(self) -> bool:
        return self._is_gaussian and self.posterior.data is None

    def _of(self, idx: int, kind: type[Kind]) -> list[Kind]:
        """Return an instance's steps of one kind."""
        return [step for step in self.steps if isinstance(step, kind) and step.idx == idx]

    def _without(self, gone: Any) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step not in gone)

    def _then(self, *steps: Step) -> History:
        """Return the history after more steps."""
        posterior = self.posterior
        for step in steps:
            posterior = step.after(posterior)
        return History(self.base, posterior, (*self.steps, *steps))

    def _replay(self, gone: Any, base: Posterior) -> History:
        """Return the history of all steps except `gone`, from a base."""
        return History(base, base)._then(*self._without(gone))


def _residual(step: Label, posterior: Posterior) -> Array:
    """Return step_size w (p - e_y), (1, k), at the mean before the label."""
    kind, probs = LIKELIHOODS[posterior.likelihood], _probs(posterior, step.features)
    label = kind.targets(kind.check([step.label], 1, posterior.n_classes, probs), posterior.n_classes)
    step_size = default_step("second_order", "gaussian") if step.step_size is None else step.step_size
    return step_size * step.weight * (probs - label)


def _probs(posterior: Posterior, features: Array) -> Array:
    """Return the probabilities (1, k) of an instance at the mean."""
    design = check_features(features, posterior.mean, posterior.bias)
    return LIKELIHOODS[posterior.likelihood].link(design @ posterior.mean)


def _shares(posterior: Posterior, features: Array, ruled_out: Classes) -> Array:
    """Return the probabilities (1, k) of the classes of an instance that are not ruled out."""
    left = [[c not in ruled_out for c in range(posterior.n_classes)]]
    return expected_shares(posterior, features, from_numpy(np.array(left), posterior.mean))


def _pad(shares: Array, posterior: Posterior) -> Array:
    """Return a copy, zero-padded to the current number of classes."""
    xp: Any = array_namespace(shares)
    more = zeros((shares.shape[0], posterior.mean.shape[1] - shares.shape[1]), shares)
    return xp.concat([shares, more], axis=1)
