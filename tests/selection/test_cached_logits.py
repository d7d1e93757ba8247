"""Logits that follow, and the smallest margin of them, by compiled loops and by NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from everylabel.selection import threads
from everylabel.selection.pool import loops
from everylabel.selection.pool.cached_logits import LocalLogits, margins
from everylabel.selection.pool.features import Features
from everylabel.selection.pool.view import TIE, best

N, D = 5000, 6  # more than two blocks of the loops
Step = Callable[[LocalLogits, np.random.Generator], None]


def made(k: int, dtype: type = np.float32) -> LocalLogits:
    rng = np.random.default_rng(k)
    numbers = LocalLogits(Features.of(rng.normal(size=(N, D)).astype(dtype), True))
    numbers.reset(rng.normal(size=(D + 1, k)))
    return numbers


def move(numbers: LocalLogits, rng: np.random.Generator) -> None:
    numbers.move(rng.normal(size=D + 1), rng.normal(size=len(numbers.logits)), 0.1)


def move_one_class(numbers: LocalLogits, rng: np.random.Generator) -> None:
    numbers.move(rng.normal(size=D + 1), np.eye(len(numbers.logits))[0], 0.0)


def move_many(numbers: LocalLogits, rng: np.random.Generator) -> None:
    numbers.move_many(rng.normal(size=(D + 1, 3)), rng.normal(size=(3, len(numbers.logits))))


def replace(numbers: LocalLogits, rng: np.random.Generator) -> None:
    numbers.replace(np.array([1]), rng.normal(size=(D + 1, 1)), None, 0.0)


def add_a_class(numbers: LocalLogits, rng: np.random.Generator) -> None:
    numbers.add_classes(len(numbers.logits) + 1)


def reset(numbers: LocalLogits, rng: np.random.Generator) -> None:
    numbers.reset(rng.normal(size=(D + 1, len(numbers.logits))))


@pytest.mark.parametrize("step", [move, move_one_class, move_many, replace, add_a_class, reset])
@pytest.mark.parametrize(
    ("k", "dtype"), [(2, np.float32), (3, np.float32), (7, np.float64), (20, np.float32)]
)
def test_the_smallest_margin_after_every_kind_of_step(
    k: int, dtype: type, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {small: made(k, dtype) for small in (0, 10**9)}  # by compiled loops, and by NumPy
    idx = np.flatnonzero(np.random.default_rng(1).random(N) < 0.8)
    for turn in (step, move, step):
        found = []
        for small, own in numbers.items():
            monkeypatch.setattr(threads, "SMALL", small)
            own.narrowest(idx)  # what is known of the logits before the step is not what holds after it
            turn(own, np.random.default_rng(2))
            found.append(own.narrowest(idx) if small == 0 else int(best(-margins(own.logits[:, idx]), 1)[0]))
        np.testing.assert_allclose(numbers[0].logits, numbers[10**9].logits, rtol=1e-4, atol=1e-4)
        assert found[0] == found[1]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_narrow_are_below_all_before_them(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setattr(threads, "workers", lambda: workers)
    numbers, usable = made(4), np.arange(N) % 5 > 0
    numbers.logits[:, 100:] = 0.0  # margins of 0 from here on, but for these
    numbers.logits[0, [100, 2103, 4501]] = np.array([8, 4, 2]) * 4 * TIE / 8
    found = numbers.narrow(usable)
    assert found is not None
    own = margins(numbers.logits)
    near = np.flatnonzero(usable & (own <= own[usable].min() + TIE))
    assert found[0][0] == near[0]
    assert np.all(np.diff(found[0]) > 0)
    np.testing.assert_allclose(found[1], own[found[0]], atol=1e-7)


def test_only_the_last_of_many_falling_margins_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setattr(threads, "workers", lambda: 1)
    numbers = made(2)
    numbers.logits = np.zeros((2, N), np.float32)
    numbers.logits[0] = np.linspace(1.9 * TIE, 0.0, N)  # a gap of x is a margin of x / 2
    found = numbers.narrow(np.ones(N, bool))
    assert found is not None
    assert found[0].tolist() == list(range(N - loops.RECORDS, N))


def test_no_usable_instance_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALL", 0)
    found = made(3).narrow(np.zeros(N, bool))
    assert found is not None
    assert len(found[0]) == len(found[1]) == 0
