"""Certificates of the model's labels are valid at any time, and need few confirmations."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from everylabel.labelling.quality.certificate import BETS, SETS, certify, is_wrong, levels
from everylabel.labelling.state.types import ClassSet


def _confirmed(wrong: np.ndarray, sure: np.ndarray, rng: np.random.Generator, rate: float, most: int):  # type: ignore[no-untyped-def]
    """Return the certified set if people stop as soon as a set is certified."""
    order = rng.permutation(len(wrong))
    places = levels(sure[order].tolist())
    known: list[bool | None] = [None] * len(wrong)
    for _ in range(most):
        found = certify(places, known, rate=rate, confidence=0.95)
        if found.certified is not None or found.next is None:
            break
        known[found.next] = bool(wrong[order[found.next]])
    return found, np.array(places), wrong[order]


def _slowly(outcomes: list[bool], size: int, rate: Fraction) -> Fraction:
    """Return the capital of set 0 after these outcomes, in exact fractions, each bet on its own."""
    total = Fraction(0)
    for c, weight in BETS:
        capital = Fraction(weight)
        for n, x in enumerate(outcomes):
            m = (rate * size - sum(outcomes[:n])) / (size - n)
            capital *= 1 + Fraction(c) / (1 - m) * (m - int(x))
        total += capital
    return total


@pytest.mark.parametrize("errors", [[], [3], [10, 40]])
def test_a_set_is_certified_when_its_capital_reaches_the_limit(errors: list[int]) -> None:
    size, limit = 400, 1 / (0.05 * SETS[0][1])
    outcomes = [i in errors for i in range(300)]
    first = next(n for n in range(300) if _slowly(outcomes[:n], size, Fraction("0.05")) >= limit)
    places = [0] * size  # no smaller set has items: the first one stays
    for n, expected in ((first - 1, None), (first, 0)):
        known = [*outcomes[:n], *[None] * (size - n)]
        found = certify(places, known, rate=0.05, confidence=0.95)
        assert (found.certified, found.confirmed, found.wrong) == (expected, n, len(errors))
        assert found.needed == (1 if expected is None else 0)


def test_about_sixty_confirmations_without_an_error_certify_five_percent() -> None:
    places = levels(np.linspace(0.5, 1.0, 2000).tolist())
    nothing = certify(places, [None] * 2000, rate=0.05, confidence=0.95)
    assert (nothing.confirmed, nothing.size, nothing.next, nothing.certified) == (0, 2000, 0, None)
    assert nothing.needed is not None
    assert 57 <= nothing.needed <= 65


def test_too_few_items_cannot_be_certified_before_all_are_confirmed() -> None:
    found = certify([0] * 10, [None] * 10, rate=0.05, confidence=0.95)
    assert found.needed is None or found.needed >= 9


def test_errors_among_the_less_sure_lower_the_share() -> None:
    rng = np.random.default_rng(0)
    sure = rng.random(1500)
    wrong = (sure < 1 / 2) & (rng.random(1500) < 0.3)
    found, places, errors = _confirmed(wrong, sure, rng, 0.05, 400)
    assert found.certified == 1
    assert errors[places >= found.certified].mean() <= 0.05


@pytest.mark.parametrize("kind", ["even", "surer ones are worse", "few items"])
def test_the_promise_is_broken_in_at_most_one_of_twenty_runs(kind: str) -> None:
    """Populations with one error too many; whatever is certified within 200 confirmations counts."""
    runs = 400
    rng, rate = np.random.default_rng(1), 0.05
    size = 150 if kind == "few items" else 600
    sure = np.linspace(0.5, 1.0, size)
    chance = np.linspace(1.0, 4.0, size) if kind == "surer ones are worse" else np.ones(size)
    broken = 0
    for _ in range(runs):
        wrong = np.zeros(size, bool)
        wrong[rng.choice(size, int(rate * size) + 1, replace=False, p=chance / chance.sum())] = True
        order = rng.permutation(size)
        places, known = levels(sure[order].tolist()), [*wrong[order][:200].tolist(), *[None] * (size - 200)]
        found = certify(places, known[:size], rate=rate, confidence=0.95).certified
        broken += found is not None and wrong[order][np.array(places) >= found].mean() > rate
    assert broken <= 0.05 * runs


def test_a_partial_answer_does_not_confirm_a_set_of_classes() -> None:
    proposed = ClassSet.of([2], [0, 1, 3])
    answers = {
        0: ClassSet.of([2], [0, 1, 3]),
        1: ClassSet.of([2]),  # yes to one class, the others unanswered
        2: ClassSet.of([], [0]),
        3: ClassSet.of([2, 3], [0, 1]),
    }
    state: Any = SimpleNamespace(labels=answers, current=lambda value: value, answers={4: []}, skipped={})
    assert [is_wrong(state, i, proposed) for i in range(6)] == [False, True, True, True, True, None]
    single: Any = SimpleNamespace(labels={0: 2, 1: 3}, current=lambda value: value, answers={}, skipped={})
    assert [is_wrong(single, i, 2) for i in range(2)] == [False, True]
