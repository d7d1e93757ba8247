"""Where each instance of a pool is, and what has happened to its posterior since the last refit.

A record is a value: the posterior of the last refit, the steps since, and where they have led. Each kind of
step knows how to take a posterior to the next; to take something back is to replay the others, or to forget
it where the order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from everylabel.core import revise
from everylabel.core.arrays import Array
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.updates import update


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


@dataclass(frozen=True, eq=False, slots=True)
class Answered(Learned):
    """An instance that was out got its label: it counts once."""

    def after(self, posterior: Posterior) -> Posterior:
        return Learned.after(self, revise.forget(posterior, self.features))


@dataclass(frozen=True, eq=False, slots=True)
class NewClasses:
    """Room was made for more classes."""

    n: int
    names: tuple[str, ...] | None

    def after(self, posterior: Posterior) -> Posterior:
        return revise.add_class(posterior, self.n, names=self.names)


Step = Conditioned | Released | Learned | NewClasses


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
        gone: list[Step] = [step for step in self.steps if isinstance(step, Learned) and step.idx == idx]
        if any(isinstance(step, Answered) for step in gone):
            gone += self._conditioned(idx)
        base = self.base if gone else _untrained(self.base, idx, features, label, weight)
        steps = tuple(step for step in self.steps if step not in gone)
        exact = all(step.method == "exact" for step in self.steps if isinstance(step, Learned))
        if exact and self.posterior.likelihood == "gaussian":
            posterior = revise.forget(self.posterior, features, [label], weights=[weight])
            return Record(base, posterior, steps)
        return Record(base, base).then(*steps)

    def _conditioned(self, idx: int) -> list[Conditioned]:
        """Return the step by which an instance last went out."""
        return [step for step in self.steps if isinstance(step, Conditioned) and step.idx == idx][-1:]


def _untrained(base: Posterior, idx: int, features: Array, label: int, weight: float) -> Posterior:
    """Return the refit's posterior without a label that it was trained on."""
    try:
        return revise.forget(base, features, [label], weights=[weight])
    except EverylabelError as error:
        raise EverylabelError(
            f"the label of instance {idx} came with the last training and cannot be taken back "
            "here; train without it and call refit"
        ) from error
