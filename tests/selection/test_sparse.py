"""Sparse numbers, and instances except some, behave like arrays."""

from typing import Any

import numpy as np
import pytest

from everylabel.selection.pool.sparse import Complement, Sparse, all_but, without

N = 50


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_those_of_an_array(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ours, whole = Sparse(N, -1, np.int16), np.full(N, -1, np.int16)
    for _ in range(60):
        some = rng.choice(N, 5, replace=False)
        value: Any = int(rng.integers(-1, 4)) if rng.random() < 0.7 else rng.integers(-1, 4, 5)
        at = int(some[0]) if rng.random() < 0.5 and isinstance(value, int) else some
        ours[at], whole[at] = value, value
        assert ours[int(some[1])] == whole[some[1]]
        if rng.random() < 0.5:
            np.testing.assert_array_equal(ours[some], whole[some])
            assert ours[some].dtype == whole.dtype
            low, high = sorted(rng.integers(0, N + 1, 2).tolist())
            idx, values = ours.unusual(low, high)
            np.testing.assert_array_equal(idx, low + np.flatnonzero(whole[low:high] != -1))
            np.testing.assert_array_equal(values, whole[idx])
    np.testing.assert_array_equal(np.asarray(ours), whole)
    np.testing.assert_array_equal(ours == 2, whole == 2)
    np.testing.assert_array_equal((ours > 0) | (ours == -1), (whole > 0) | (whole == -1))
    np.testing.assert_array_equal(ours[3:9], whole[3:9])
    assert ours.max() == whole.max()
    assert len(ours) == N
    assert ours[-1] == whole[-1]
    with pytest.raises(IndexError):
        ours[N]
    mask, back = whole > 0, np.asarray([-1, 3, -N])
    chosen: list[Any] = [mask, back, mask.tolist(), slice(4, 20, 3), np.zeros(0, np.int64), []]
    for each in chosen:
        np.testing.assert_array_equal(ours[each], whole[each])
        ours[each], whole[each] = 2, 2
        np.testing.assert_array_equal(np.asarray(ours), whole)
    for wrong in (mask[1:], [N], [-N - 1]):
        with pytest.raises(IndexError):
            ours[wrong]
        with pytest.raises(IndexError):
            ours[wrong] = 1
    np.testing.assert_array_equal(ours.unusual(7)[0], 7 + np.flatnonzero(whole[7:] != -1))
    ours[:], whole[:] = -3, -3
    assert ours.max() == -3


def test_viewed_arrays_do_not_change() -> None:
    ours = Sparse(N, 0, np.int8)
    ours[[3, 7]] = 1
    idx, values = ours.unusual()
    ours[3] = 0
    ours[5] = 2
    assert ours.unusual()[0].tolist() == [5, 7]
    assert (idx.tolist(), values.tolist()) == ([3, 7], [1, 1])


def complements() -> list[tuple[Complement, np.ndarray]]:
    found = [(all_but(N), np.arange(N)), (all_but(N, range(N)), np.arange(0)), (all_but(0), np.arange(0))]
    for seed in range(30):
        rng = np.random.default_rng(seed)
        gone = np.sort(rng.choice(N, int(rng.integers(0, 30)), replace=False))
        found.append((all_but(N, gone), np.delete(np.arange(N), gone)))
    return found


def test_instances_but_for_some_are_those_of_an_array() -> None:
    for ours, whole in complements():
        np.testing.assert_array_equal(np.asarray(ours), whole)
        assert len(ours) == ours.size == ours.shape[0] == len(whole)
        assert ours.tolist() == whole.tolist()
        for side in ("left", "right"):
            found = np.searchsorted(ours, np.arange(N + 1), side=side)
            np.testing.assert_array_equal(found, np.searchsorted(whole, np.arange(N + 1), side=side))
        assert [i in ours for i in range(-1, N + 1)] == [i in whole for i in range(-1, N + 1)]
        np.testing.assert_array_equal(ours[2:9:3], whole[2:9:3])
        np.testing.assert_array_equal(ours[whole % 2 == 0], whole[whole % 2 == 0])
        np.testing.assert_array_equal(ours + 1, whole + 1)
        if len(whole):
            assert ours[-1] == whole[-1]
            some = np.random.default_rng(0).integers(-len(whole), len(whole), 7)
            np.testing.assert_array_equal(ours[some], whole[some])
            np.testing.assert_array_equal(ours[np.abs(some) % len(whole)], whole[np.abs(some) % len(whole)])
            less = without(ours, len(whole) // 2)
            np.testing.assert_array_equal(less, without(whole, len(whole) // 2))
            assert less.same(all_but(N, np.setdiff1d(np.arange(N), np.asarray(less))))
            assert not less.same(ours)
        with pytest.raises(IndexError):
            ours[[len(whole)]]


def test_the_same_seed_draws_the_same_from_both() -> None:
    gone = [3, 4, 99_998]
    ours, whole = all_but(100_000, gone), np.delete(np.arange(100_000), gone)
    for n in (1, 10, 3000):
        rngs = np.random.default_rng(n), np.random.default_rng(n)
        drawn = ours[rngs[0].choice(len(ours), n, replace=False)]
        np.testing.assert_array_equal(drawn, rngs[1].choice(whole, n, replace=False))
