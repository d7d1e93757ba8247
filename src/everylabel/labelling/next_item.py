"""Items that take precedence over the strategy: changed content, second opinions, test items, checks.

Seeing the guess biases people, so checks and test items hide it.
"""

from itertools import chain
from typing import NamedTuple

import numpy as np

from everylabel.labelling.model.learner import Learner
from everylabel.labelling.quality.certificate import to_confirm
from everylabel.labelling.state.state import State

REQUESTED_EVERY = 2  # every second lease is a check of a class for which people requested more checks


class NextItem(NamedTuple):
    """The item that a person gets next, and why."""

    item: int
    reason: str
    among: int | None = None  # a check was drawn among items predicted as this class; None: all items
    share: float | None = None  # share of the free items that are predicted as that class


def priority_item(
    state: State, learner: Learner, person: str, count: int, rng: np.random.Generator
) -> NextItem | None:
    """Return the item that takes precedence for this person; None if the strategy chooses.

    count : number of this lease among all leases of chosen and drawn items; every n-th is a random check
    """
    for reason, find in BY_PRIORITY.items():
        item = find(state, person)
        if item is not None:
            return NextItem(item, reason)
    every = state.settings["check_every"]
    if every and count % every == 0:
        item = learner.draw(rng)
        return None if item is None else NextItem(item, "check")
    if state.wishes and state.labels and count % REQUESTED_EVERY == 0:
        return _requested_check(state, learner, rng)
    return None


def skipped_item(state: State, person: str) -> int | None:
    """Return the skipped item to ask again: the oldest, if possible one that only others skipped."""
    holder = state.holder
    open_ = [
        item
        for item in state.skipped
        if item not in holder
        and len(state.answers.get(item, [])) < state.answers_needed
        and state.answer_of(item, person) is None
        and (item not in state.test or _labels_test_set(state, person))
    ]
    return min(open_, key=lambda item: state.was_skipped(item, person), default=None)  # False sorts first


def _changed(state: State, person: str) -> int | None:
    """Return an item whose content changed since it was answered."""
    return next((item for item in state.withdrawn_items() if is_open_to(state, item, person)), None)


def _second(state: State, person: str) -> int | None:
    """Return an item that needs another person's answer."""
    return next((item for item in state.tally.wanting if is_open_to(state, item, person)), None)


def _test(state: State, person: str) -> int | None:
    """Return a test item without an answer, if this person labels test items."""
    free = (item for item in state.test if item not in state.answers and _labels_test_set(state, person))
    return next((item for item in free if is_open_to(state, item, person)), None)


def _audit(state: State, person: str) -> int | None:
    """Return an auto-labelled or proposed item that nobody has confirmed yet."""
    free = (item for item in state.audits if item not in state.answers)
    proposed = () if state.confirmation is None else to_confirm(state)
    return next((item for item in chain(free, proposed) if is_open_to(state, item, person)), None)


# reason of the lease -> function that finds the item; the most urgent first
BY_PRIORITY = {"changed": _changed, "second": _second, "test": _test, "audit": _audit}


def _labels_test_set(state: State, person: str) -> bool:
    """Return whether a person labels the test set: everybody, unless a tester is named."""
    return state.settings["tester"] in ("", person)


def is_open_to(state: State, item: int, person: str) -> bool:
    """Return whether a person can get an item: it is in the source, not leased, and new to them."""
    answered = state.answer_of(item, person) is not None
    return not (answered or item in state.missing or state.was_skipped(item, person) or item in state.holder)


def _requested_check(state: State, learner: Learner, rng: np.random.Generator) -> NextItem | None:
    """Return a check among the items predicted as a class for which people requested more checks."""
    for among in state.wishes:
        if among not in state.columns:  # the class was removed
            continue
        item, share = learner.draw_predicted(state.columns.index(among), rng)
        if item is not None:
            return NextItem(item, "check", among, round(share, 6))
    return None
