"""The steps of a pool's posterior since the last training, and how to take some of them back.

Each step turns one posterior into the next. A step is taken back in one of three ways:
    closed form    by the residual it was learned with, at the cost of learning it; no steps are kept
    exactly        if all steps were exact with the Gaussian likelihood, order does not matter: one search
                   for the mean without the step
    by replay      otherwise: all other steps again, from the posterior of the training
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from everylabel.core import revise
from everylabel.core.arrays import Array, array_namespace, from_numpy, zeros
from everylabel.core.checks import check_features
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior
from everylabel.core.updates import default_step, update
from everylabel.core.updates.partial import (
    expected_shares,
    forget_shares,
    learn_shares,
    soft_residuals,
    undo_step,
)

Classes = frozenset[int]
Answer = Any  # a class number, or a row (k,) of 1, 0 and NaN where an instance may have several classes
Options = tuple[str | None, float | None]  # method and step size


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """An instance was leased (sign 1), or returned without a label (sign -1)."""

    idx: int
    features: Array  # (1, d), without the bias
    sign: int = 1

    def after(self, posterior: Posterior) -> Posterior:
        return (revise.condition if self.sign > 0 else revise.forget)(posterior, self.features)


@dataclass(frozen=True, eq=False, slots=True)
class Label:
    """An instance got its label; if it was leased before, it counts once."""

    idx: int
    features: Array
    label: Answer
    weight: float
    method: str | None
    step_size: float | None
    leased: bool = False

    def after(self, posterior: Posterior) -> Posterior:
        if self.leased:
            posterior = revise.forget(posterior, self.features)
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
        return learn_shares(posterior, self.features, shares, self.method, _step_size(self, posterior))


@dataclass(frozen=True, eq=False, slots=True)
class NewClasses:
    """Classes were added, at the prior."""

    n: int
    names: tuple[str, ...] | None
    idx: None = None  # concerns no instance

    def after(self, posterior: Posterior) -> Posterior:
        return revise.add_class(posterior, self.n, names=self.names)


Step = Condition | Label | Forgotten | PartialLabel | NewClasses
Kind = TypeVar("Kind", Condition, Label, PartialLabel)


class Residuals(NamedTuple):
    """The residuals (1, k) with which instances were learned, for closed forms; changed in place."""

    labels: dict[int, tuple[Array, float]]  # w (p - e_y), and the step size
    partial_labels: dict[int, Array]  # the sum of step size times p - t


@dataclass(frozen=True, eq=False, slots=True)
class History:
    """The posterior of the last training, the steps since then, and the posterior they led to."""

    base: Posterior
    posterior: Posterior
    steps: tuple[Step, ...] = ()
    residuals: Residuals | None = None  # None unless in closed form

    @classmethod
    def begin(cls, posterior: Posterior, closed_form: bool) -> History:
        """Return the history that starts at a training; in closed form its labelled instances are dropped."""
        if not closed_form:
            return cls(posterior, posterior)
        posterior = posterior.replace(data=None)
        return cls(posterior, posterior, residuals=Residuals({}, {}))

    def condition(self, idx: int, features: Array) -> History:
        """Return the history after an instance was leased."""
        return self._then(Condition(idx, features))

    def release(self, idx: int, features: Array) -> History:
        """Return the history after a leased instance was returned without a label."""
        if self._is_gaussian:
            return self._then(Condition(idx, features, -1))
        return self._replay(self._of(idx, Condition)[-1:])  # its curvature was that of an earlier mean

    def learn(
        self, idx: int, features: Array, label: Answer, weight: float, options: Options, leased: bool = False
    ) -> History:
        """Return the history after an instance got its label."""
        if leased and not self._is_gaussian:
            return self.release(idx, features).learn(idx, features, label, weight, options)
        step = Label(idx, features, label, weight, *options, leased)
        if self.residuals is None:
            return self._then(step)
        known = _residual(step, self.posterior), _step_size(step, self.posterior)
        self.residuals.labels[idx] = known
        if leased and weight == 1.0:  # already conditioned with this weight: the covariance stays
            return self._at(revise.label_conditioned(self.posterior, features, *known))
        return self._then(step)

    def forget(self, idx: int, features: Array, label: Answer, weight: float) -> History:
        """Return the history as if a label had never been given."""
        step = Forgotten(idx, features, label, weight)
        if self.residuals is not None:
            known = self.residuals.labels.pop(idx, None)
            if known is None:
                return self._then(step)
            residual = _pad(known[0], self.posterior)
            return self._at(revise.undo_label(self.posterior, features, residual, known[1], weight=weight))
        learned = self._of(idx, Label)
        gone: list[Step] = [*learned]
        if any(one.leased for one in learned):
            gone += self._of(idx, Condition)[-1:]
        if self._is_exact:
            left = self._without(gone)
            return self._at(step.after(self.posterior), left if learned else (*left, step))
        return self._replay(gone, self.base if learned else step.after(self.base))

    def relabel(
        self,
        idx: int,
        features: Array,
        before: tuple[Answer, float],
        after: tuple[Answer, float],
        options: Options,
    ) -> History:
        """Return the history as if an instance had had another label and weight from the start."""
        (old, weight), (label, _) = before, after
        if weight == after[1] and self.residuals is not None:
            return self._change_label(idx, features, old, label, weight, options)
        if weight == after[1] and self._is_exact and options[0] == "exact":
            posterior = revise.relabelled(self.posterior, features, old, label, weight=weight)
            if posterior is not None:  # None: it was trained with another weight, or its data was not kept
                learned = self._of(idx, Label)
                new: tuple[Step, ...] = tuple(replace(one, label=label) for one in learned)
                if not learned:
                    new = (
                        Forgotten(idx, features, old, weight),
                        Label(idx, features, label, weight, *options),
                    )
                return self._at(posterior, (*self._without(learned), *new))
        return self.forget(idx, features, *before).learn(idx, features, *after, options)

    def rule_out(self, idx: int, features: Array, before: Classes, now: Classes, options: Options) -> History:
        """Return the history with classes `now` ruled out for an instance instead of `before`.

        With step updates, the earlier classes stay learned if more classes are ruled out.
        """
        history = self
        if before and (options[0] == "exact" or not now > before):
            history = self._without_partial_label(idx, features, before)
        if not now:
            return history
        posterior = history.posterior
        step = PartialLabel(idx, features, _shares(posterior, features, now), *options)
        if self.residuals is not None:
            known = self.residuals.partial_labels
            learned = _step_size(step, posterior) * soft_residuals(posterior, features, step.shares)
            known[idx] = learned + _pad(known[idx], posterior) if idx in known else learned
        return history._then(step)

    def add_class(self, n: int, names: tuple[str, ...] | None) -> History:
        """Return the history after n classes were added."""
        return self._then(NewClasses(n, names))

    def _change_label(
        self, idx: int, features: Array, before: int, label: int, weight: float, options: Options
    ) -> History:
        """Return the history with another label, in closed form."""
        assert self.residuals is not None
        step_size = default_step("second_order", "gaussian") if options[1] is None else options[1]
        if idx in self.residuals.labels:
            known, step_size = self.residuals.labels[idx]
            residual = _pad(known, self.posterior)
            residual[0, before] += weight
            residual[0, label] -= weight
            self.residuals.labels[idx] = residual, step_size
        return self._at(
            revise.change_label(self.posterior, features, before, label, step_size, weight=weight)
        )

    def _without_partial_label(self, idx: int, features: Array, before: Classes) -> History:
        """Return the history as if no class had been ruled out for an instance."""
        if self.residuals is not None:
            known = self.residuals.partial_labels.pop(idx, None)
            if known is None:  # part of the training: its residual at the present mean
                known = soft_residuals(self.posterior, features, _shares(self.posterior, features, before))
            return self._at(undo_step(self.posterior, features, _pad(known, self.posterior)))
        gone, base = self._of(idx, PartialLabel), self.base
        if gone:
            shares = gone[-1].shares
        else:  # part of the training: the soft label that the training gave it
            shares = _shares(base, features, before)
            base = forget_shares(base, features, shares)
        if not self._is_exact:
            return self._replay(gone, base)
        posterior = forget_shares(self.posterior, features, _pad(shares, self.posterior))
        return replace(self._at(posterior, self._without(gone)), base=base)

    @property
    def _is_gaussian(self) -> bool:
        return self.posterior.likelihood == "gaussian"

    @property
    def _is_exact(self) -> bool:
        """Return whether the order of the steps does not matter."""
        learned = (step.method for step in self.steps if isinstance(step, Label | PartialLabel))
        return self._is_gaussian and all(method == "exact" for method in learned)

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
        return self._at(posterior, (*self.steps, *steps))

    def _replay(self, gone: Any, base: Posterior | None = None) -> History:
        """Return the history of all steps except `gone`, from its base or another one."""
        base = self.base if base is None else base
        return History(base, base)._then(*self._without(gone))

    def _at(self, posterior: Posterior, steps: tuple[Step, ...] = ()) -> History:
        """Return the history at another posterior, with the steps to it unless in closed form."""
        return replace(self, posterior=posterior, steps=steps if self.residuals is None else ())


def _step_size(step: Label | PartialLabel, posterior: Posterior) -> float:
    if step.step_size is not None:
        return step.step_size
    return default_step(step.method or "second_order", posterior.likelihood)


def _residual(step: Label, posterior: Posterior) -> Array:
    """Return w (p - e_y), (1, k), at the mean before the label."""
    kind = LIKELIHOODS[posterior.likelihood]
    design = check_features(step.features, posterior.mean, posterior.bias)
    labels = kind.check([step.label], 1, posterior.n_classes, design)
    target = kind.targets(labels, posterior.mean.shape[1])
    return step.weight * (kind.link(design @ posterior.mean) - target)


def _shares(posterior: Posterior, features: Array, ruled_out: Classes) -> Array:
    """Return the probabilities (1, k) of the classes of an instance that are not ruled out."""
    left = [[c not in ruled_out for c in range(posterior.n_classes)]]
    return expected_shares(posterior, features, from_numpy(np.array(left), posterior.mean))


def _pad(shares: Array, posterior: Posterior) -> Array:
    """Return a copy, zero-padded to the current number of classes."""
    xp: Any = array_namespace(shares)
    more = zeros((shares.shape[0], posterior.n_classes - shares.shape[1]), shares)
    return xp.concat([shares, more], axis=1)
