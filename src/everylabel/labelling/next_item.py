"""Items that come before the strategy's choice: changed content, second opinions, test items, checks.

Seeing the guess biases people, so checks and test items hide it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from everylabel.labelling.model.learner import Learner
from everylabel.labelling.quality.certificate import to_confirm
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Lease

WISHED_EVERY = 2  # hand-outs between checks of a class that is to be tested more


class Due(NamedTuple):
    """An instance for a person, and why."""

    item: int
    reason: str
    among: int | None = None  # the class it was predicted as, of a check that was drawn among those
    share: float | None = None  # and how much of what is free was predicted so


def due(state: State, learner: Learner, person: str, count: int, rng: np.random.Generator) -> Due | None:
    """Return what this person gets before anything is chosen; None if it is the strategy's turn.

    count : which hand-out this is; those who wait for a choice in the same round have theirs already
    """
    for reason, waiting in WAITING.items():
        item = waiting(state, person)
        if item is not None:
            return Due(item, reason)
    every = state.settings["check_every"]
    if every and count % every == 0:
        item = learner.draw(rng)
        return None if item is None else Due(item, "check")
    if state.wishes and state.labels and count % WISHED_EVERY == 0:
        return _wished(state, learner, rng)
    return None


def left_over(state: State, person: str) -> int | None:
    """Return an instance that was skipped, when nothing else is left: others' first, the oldest first."""
    wanted = state.settings["annotators_per_item"]
    left = [
        item
        for item in state.skipped
        if item not in state.holder
        and len(state.answers.get(item, [])) < wanted
        and state.answer_of(item, person) is None
        and (item not in state.test or _tests(state, person))
    ]
    return min(left, key=lambda item: state.was_skipped(item, person), default=None)


def _changed(state: State, person: str) -> int | None:
    """Return an instance whose content is another one since it was answered."""
    return next((item for item in state.set_aside() if _can_have(state, item, person)), None)


def _second(state: State, person: str) -> int | None:
    """Return an instance that wants another person's answer."""
    if state.not_wanted[person] >= len(state.wanting):
        return None
    return next((item for item in state.wanting if _can_have(state, item, person)), None)


def _test(state: State, person: str) -> int | None:
    """Return a test item without an answer, for those who answer them."""
    free = (item for item in state.test if item not in state.answers and _tests(state, person))
    return next((item for item in free if _can_have(state, item, person)), None)


def _audit(state: State, person: str) -> int | None:
    """Return an item that the model would label, or has labelled, and that nobody has confirmed yet."""
    free = (item for item in state.audits if item not in state.answers)
    return next((item for item in chain(free, to_confirm(state)) if _can_have(state, item, person)), None)


WAITING = {"changed": _changed, "second": _second, "test": _test, "audit": _audit}  # the most urgent first


def _tests(state: State, person: str) -> bool:
    """Return whether a person labels the test set: everybody, unless one was named."""
    return state.settings["tester"] in ("", person)


def _can_have(state: State, item: int, person: str) -> bool:
    known = state.answer_of(item, person) is not None or item in state.left
    return not (known or item in state.holder or state.was_skipped(item, person))


def _wished(state: State, learner: Learner, rng: np.random.Generator) -> Due | None:
    """Return a check among what is predicted as a class that is to be tested more, if there is any."""
    for among in state.wishes:
        if among not in state.columns:  # the class was removed
            continue
        item, share = learner.draw_predicted(state.columns.index(among), rng)
        if item is not None:
            return Due(item, "check", among, round(share, 6))
    return None


class LeaseClock:
    """The age of leases by a monotonic clock: the time of day in the log may be set back.

    After a restart the age begins with the times in the log, at most the length of a lease.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, day: Callable[[], float] = time.time
    ) -> None:
        self._clock, self._day = clock, day
        self._since: dict[str, tuple[Lease, float]] = {}

    def over(self, leases: Mapping[str, Lease], seconds: float) -> Iterator[tuple[str, Lease]]:
        """Yield the people whose leases are older than that, and the leases."""
        now = self._clock()
        self._since = {person: self._known(person, lease, now, seconds) for person, lease in leases.items()}
        for person, (lease, since) in self._since.items():
            if now - since > seconds:
                yield person, lease

    def _known(self, person: str, lease: Lease, now: float, seconds: float) -> tuple[Lease, float]:
        before = self._since.get(person)
        if before is not None and before[0] == lease:
            return before
        return lease, now - min(max(self._day() - lease.at, 0.0), max(seconds, 0.0) + 1.0)
