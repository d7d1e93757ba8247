"""Where each instance of a pool is, and what has happened to its posterior since the last refit.

A record is a value: the posterior of the last refit, the steps since, and where they have led. Each kind of
step knows how to take a posterior to the next; to take something back is to replay the others, or to forget
it where the order does not matter. A running record keeps no steps: what is taken back is a step of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

from everylabel.core import revise
from everylabel.core.arrays import Array
from everylabel.core.checks import check_features, check_labels
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior
from everylabel.core.updates import default_step, update
from everylabel.core.updates.partial import forget_shares, pull
from everylabel.selection.pool.doubts import Ruled, RuledIn, RuledOut, shares_without, wide

How = tuple[str | None, float | None]  # the method and the length of its step


class Where(IntEnum):
    """Where an instance is: free to be chosen, labelled, out with an annotator, or set aside."""

    FREE = 0
    LABELLED = 1
    OUT = 2
    ASIDE = 3

    @property
    def words(self) -> str:
        return "set aside" if self is Where.ASIDE else self.name.lower()


@dataclass(frozen=True, eq=False, slots=True)
class Conditioned:
    """An instance went out: it is certain to be known, its label is not."""

    idx: int
    features: Array  # (1, d), as it came

    def after(self, posterior: Posterior) -> Posterior:
        return revise.condition(posterior, self.features)


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """An instance came back without a label."""

    idx: int
    features: Array

    def after(self, posterior: Posterior) -> Posterior:
        return revise.forget(posterior, self.features)


@dataclass(frozen=True, eq=False, slots=True)
class Learned:
    """An instance got its label."""

    idx: int
    features: Array
    label: int
    weight: float
    method: str | None
    step_size: float | None

    def after(self, posterior: Posterior) -> Posterior:
        given = self.features, [self.label], self.method, self.step_size
        return update(posterior, *given, weights=[self.weight])

    def residual(self, posterior: Posterior) -> Array:
        """Return w (p - e_y), (1, k), at the mean that the label finds."""
        kind = LIKELIHOODS[posterior.likelihood]
        design = check_features(self.features, posterior.mean, posterior.bias)
        labels = check_labels([self.label], 1, posterior.n_classes, design)
        certain = kind.targets(labels, posterior.mean.shape[1])
        return self.weight * (kind.link(design @ posterior.mean) - certain)

    def length(self, posterior: Posterior) -> float:
        """Return the step size."""
        own = self.step_size
        return default_step(self.method or "second_order", posterior.likelihood) if own is None else own


@dataclass(frozen=True, eq=False, slots=True)
class Answered(Learned):
    """An instance that was out got its label: it counts once."""

    def after(self, posterior: Posterior) -> Posterior:
        return Learned.after(self, revise.forget(posterior, self.features))


@dataclass(frozen=True, eq=False, slots=True)
class Pulled(Learned):
    """The same, where the covariance knows the instance with this weight, and stays; without a history."""

    def after(self, posterior: Posterior) -> Posterior:
        return self.by(Taught(self.residual(posterior), self.length(posterior)), posterior)

    def by(self, known: Taught, posterior: Posterior) -> Posterior:
        """Return the posterior after it, where its residual is known."""
        return revise.pull(posterior, self.features, known.residual, known.step_size)


@dataclass(frozen=True, eq=False, slots=True)
class NewClasses:
    """Room was made for more classes."""

    n: int
    names: tuple[str, ...] | None

    def after(self, posterior: Posterior) -> Posterior:
        return revise.add_class(posterior, self.n, names=self.names)


@dataclass(frozen=True, eq=False, slots=True)
class Turned:
    """An instance's label is another one now."""

    idx: int
    features: Array
    before: int
    label: int
    weight: float
    step_size: float

    def after(self, posterior: Posterior) -> Posterior:
        return revise.turn(
            posterior, self.features, self.before, self.label, self.step_size, weight=self.weight
        )


@dataclass(frozen=True, eq=False, slots=True)
class Relabelled:
    """A label that came with the last training is another one now, as if it had been so from the first."""

    idx: int
    features: Array
    before: int
    label: int
    weight: float

    def after(self, posterior: Posterior) -> Posterior:
        return revise.relabel(posterior, self.features, self.before, self.label, weight=self.weight)


@dataclass(frozen=True, eq=False, slots=True)
class Forgotten:
    """A label that came with the last training was taken back, as if it had never been."""

    idx: int
    features: Array
    label: int
    weight: float

    def after(self, posterior: Posterior) -> Posterior:
        return _untrained(posterior, self.idx, self.features, self.label, self.weight)


class Taught(NamedTuple):
    """What a label was learned with: its residual w (p - e_y), (1, k), and the length of the step."""

    residual: Array
    step_size: float


@dataclass(frozen=True, eq=False, slots=True)
class Unlearned:
    """A label was taken back in closed form: by the residual it was learned with, or one that was trained."""

    idx: int
    features: Array
    label: int
    weight: float
    taught: Taught | None

    def after(self, posterior: Posterior) -> Posterior:
        if self.taught is None:
            return revise.forget(posterior, self.features, [self.label], weights=[self.weight])
        residual = wide(self.taught.residual, posterior)
        return revise.unlearn(posterior, self.features, residual, self.taught.step_size, weight=self.weight)


Step = (
    Conditioned
    | Released
    | Learned
    | NewClasses
    | Turned
    | Relabelled
    | Unlearned
    | RuledOut
    | RuledIn
    | Forgotten
)


@dataclass(frozen=True, eq=False, slots=True)
class Record:
    """A refit's posterior, the steps since then, and the posterior they have led to."""

    base: Posterior
    posterior: Posterior
    steps: tuple[Step, ...] = ()

    def then(self, *steps: Step) -> Record:
        """Return the record after some steps more."""
        posterior = self.posterior
        for step in steps:
            posterior = step.after(posterior)
        return Record(self.base, posterior, (*self.steps, *steps))

    def since(self, before: Record) -> tuple[Step, ...]:
        """Return the steps that lead from another record to this one; none if it has other roots."""
        n = len(before.steps)
        goes_on = self.base is before.base and self.steps[:n] == before.steps
        return self.steps[n:] if goes_on else ()

    def settled(self) -> Record:
        """Return the record once its logits have followed: the same, since all steps are kept."""
        return self

    def without_condition(self, idx: int, features: Array) -> Record:
        """Return the record with an instance no longer out."""
        if self.posterior.likelihood == "gaussian":
            return self.then(Released(idx, features))
        gone = self._conditioned(idx)  # its curvature was of a mean that has moved since: replay without it
        return Record(self.base, self.base).then(*(step for step in self.steps if step not in gone))

    def without_label(self, idx: int, features: Array, label: int, weight: float) -> Record:
        """Return the record as if a label had never been given.

        Labels learned exactly do not depend on each other's order: the label is forgotten. After any
        other update, all steps are replayed without it.
        """
        gone: list[Step] = self._said_of(idx, Learned)
        if self._exact:
            return self._without_exact(gone, Forgotten(idx, features, label, weight))
        if _answers(gone):
            gone += self._conditioned(idx)
        base = self.base
        if not gone:
            turned: list[Relabelled] = self._said_of(idx, Relabelled)
            base = _untrained(base, idx, features, turned[0].before if turned else label, weight)
            gone += turned
        steps = tuple(step for step in self.steps if step not in gone)
        return Record(base, base).then(*steps)

    def turns(self, how: How) -> bool:
        """Return whether a label can become another one at the cost of one."""
        return self._exact and how[0] == "exact" and self.posterior.data is not None

    def turned(self, idx: int, features: Array, before: int, label: int, weight: float, how: How) -> Record:
        """Return the record as if a label had been another one from the first: by one search."""
        posterior = revise.relabelled(self.posterior, features, before, label, weight=weight)
        if posterior is None:  # it was trained with another weight, of which some can be taken back
            without = self.without_label(idx, features, before, weight)
            return without.then(Learned(idx, features, label, weight, *how))
        learned: list[Learned] = self._said_of(idx, Learned)[-1:]
        rest = tuple(step for step in self.steps if step not in learned)  # their order does not matter
        now = Relabelled(idx, features, before, label, weight)
        last = replace(learned[0], label=label) if learned else now
        return Record(self.base, posterior, (*rest, last))

    def _without_exact(self, learned: list[Step], now: Forgotten) -> Record:
        """Return the record without a label that was learned, or trained on, exactly: by one search."""
        gone = [*learned, *(self._conditioned(now.idx) if _answers(learned) else [])]
        steps = tuple(step for step in self.steps if step not in gone)
        return Record(self.base, now.after(self.posterior), steps if learned else (*steps, now))

    def rule_out(self, idx: int, features: Array, before: Ruled, now: Ruled, how: How) -> Record:
        """Return the record with other classes ruled out for an instance than before.

        Learned by steps, what was ruled out before stays learned where more comes to it.
        """
        record = self
        if before and (how[0] == "exact" or not now > before):
            record = self._without_ruled_out(idx, features, before)
        if not now:
            return record
        return record.then(RuledOut(idx, features, shares_without(record.posterior, features, now), *how))

    def _without_ruled_out(self, idx: int, features: Array, before: Ruled) -> Record:
        """Return the record as if nothing had been ruled out for an instance."""
        gone, base = self._said_of(idx, RuledOut), self.base
        if gone:
            shares = gone[-1].shares
        else:  # the refit was trained on it: its soft label is what it says itself
            shares = shares_without(base, features, before)
            base = forget_shares(base, features, shares)
        steps = tuple(step for step in self.steps if step not in gone)
        if not self._exact:
            return Record(base, base).then(*steps)
        return Record(base, forget_shares(self.posterior, features, wide(shares, self.posterior)), steps)

    @property
    def _exact(self) -> bool:
        """Return whether nothing that was learned depends on the order."""
        learned = (step.method for step in self.steps if isinstance(step, Learned | RuledOut))
        return self.posterior.likelihood == "gaussian" and all(method == "exact" for method in learned)

    def _said_of(self, idx: int, kind: type[Learned | RuledOut | Relabelled]) -> list[Any]:
        """Return the steps of a kind that are of an instance."""
        return [step for step in self.steps if isinstance(step, kind) and step.idx == idx]

    def _conditioned(self, idx: int) -> list[Conditioned]:
        """Return the step by which an instance last went out."""
        return [step for step in self.steps if isinstance(step, Conditioned) and step.idx == idx][-1:]


@dataclass(frozen=True, eq=False, slots=True)
class Running:
    """A posterior, and the steps that its logits have yet to follow: no history is kept.

    Each step costs the same however many came before it. What is taken back is taken back in closed form, by
    the residual it was learned with, and the labelled instances behind the posterior are let go of: only
    exact updates need them. Of Gaussian likelihood and second-order updates only.
    """

    posterior: Posterior
    steps: tuple[Step, ...] = ()
    taught: dict[int, Taught] = field(default_factory=dict)  # by instance, of all records since the training
    doubts: dict[int, Array] = field(default_factory=dict)  # likewise: (1, k), what was learned of ruled out

    def then(self, *steps: Step) -> Running:
        """Return the record after some steps more."""
        posterior = self.posterior.replace(data=None)
        for step in steps:
            if isinstance(step, Learned):
                self.taught[step.idx] = Taught(step.residual(posterior), step.length(posterior))
            if isinstance(step, Pulled):  # what has just been found is all that it asks for
                posterior = step.by(self.taught[step.idx], posterior)
            else:
                posterior = step.after(posterior)
        return Running(posterior, (*self.steps, *steps), self.taught, self.doubts)

    def since(self, before: Running) -> tuple[Step, ...]:
        """Return the steps that lead from another record to this one."""
        return self.steps[len(before.steps) :]

    def settled(self) -> Running:
        """Return the record once its logits have followed."""
        return Running(self.posterior, (), self.taught, self.doubts)

    def without_condition(self, idx: int, features: Array) -> Running:
        """Return the record with an instance no longer out."""
        return self.then(Released(idx, features))

    def without_label(self, idx: int, features: Array, label: int, weight: float) -> Running:
        """Return the record with a label taken back."""
        return self.then(Unlearned(idx, features, label, weight, self.taught.pop(idx, None)))

    def rule_out(self, idx: int, features: Array, before: Ruled, now: Ruled, how: How) -> Running:
        """Return the record with other classes ruled out for an instance than before.

        What was trained on is taken back by the pull that it has now.
        """
        record = self
        if before and not now > before:
            known = self.doubts.pop(idx, None)
            if known is None:
                known = pull(self.posterior, features, shares_without(self.posterior, features, before))
            record = self.then(RuledIn(idx, features, known))
        if not now:
            return record
        posterior = record.posterior
        step = RuledOut(idx, features, shares_without(posterior, features, now), *how)
        learned = step.length(posterior) * pull(posterior, features, step.shares)
        earlier = record.doubts.get(idx)
        record.doubts[idx] = learned if earlier is None else learned + wide(earlier, posterior)
        return record.then(step)

    def turns(self, how: How) -> bool:
        """Return whether a label can become another one at the cost of one."""
        return True

    def turned(self, idx: int, features: Array, before: int, label: int, weight: float, how: How) -> Running:
        """Return the record with a label that is another one now."""
        known = self.taught.get(idx)
        length = default_step("second_order", "gaussian") if how[1] is None else how[1]
        if known is not None:
            residual, length = wide(known.residual, self.posterior), known.step_size
            residual[0, before] += weight
            residual[0, label] -= weight
            self.taught[idx] = Taught(residual, length)
        return self.then(Turned(idx, features, before, label, weight, length))


def _answers(steps: list[Step]) -> bool:
    """Return whether an instance was out when it got its label."""
    return any(isinstance(step, Answered) for step in steps)


def _untrained(base: Posterior, idx: int, features: Array, label: int, weight: float) -> Posterior:
    """Return the refit's posterior without a label that it was trained on."""
    try:
        return revise.forget(base, features, [label], weights=[weight])
    except EverylabelError as error:
        raise EverylabelError(
            f"the label of instance {idx} came with the last training and cannot be taken back "
            "here; train without it and call refit"
        ) from error
