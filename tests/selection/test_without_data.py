"""A pool whose posterior has not kept its labelled instances takes labels back: results and cache."""

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool import Where, history
from tests.selection.problems import problem
from tests.selection.test_pool import check_cache

STEP = 2.3


def pools() -> tuple[el.Pool, el.Pool, list[int]]:
    one, twin = (problem(keep_data=False, step_size=STEP).pool for _ in range(2))
    return one, twin, [int(i) for i in one.free_idx[:6]]


def same(one: el.Pool, twin: el.Pool) -> None:
    np.testing.assert_allclose(one.posterior.mean, twin.posterior.mean, atol=1e-10)
    np.testing.assert_allclose(one.posterior.cov, twin.posterior.cov, atol=1e-10)
    np.testing.assert_allclose(one.logits(), twin.logits(), atol=1e-9)


def test_the_latest_label_taken_back_or_turned_is_as_if_never_given() -> None:
    one, twin, (a, b, *_) = pools()
    for pool in (one, twin):
        pool.add(a, 1, 1.4)
    one.add(b, 0)
    one.remove_label(b)
    same(one, twin)
    for label in (0, 2, 1):
        one.put(b, Where.LABELLED, label)
    twin.add(b, 1)
    same(one, twin)
    one.put(b, Where.LEASED)
    twin.remove_label(b)
    twin.condition(b)
    same(one, twin)


@pytest.mark.parametrize("weight", [1.0, 1.6])
def test_an_answer_counts_once_and_is_taken_back_with_its_time_out(weight: float) -> None:
    one, twin, (a, *_) = pools()
    for _ in range(2):
        one.condition(a)
        one.add(a, 2, weight)
        twin.add(a, 2, weight)
        same(one, twin)
        twin.remove_label(a)
        one.remove_label(a)
        same(one, twin)
    one.condition(a)
    one.add(a, 2, weight)
    one.remove_label(a)
    same(one, twin)


def test_relabelling_after_new_classes_equals_removing_and_adding() -> None:
    one, twin, (a, *_) = pools()
    for pool in (one, twin):
        pool.add(a, 1)
        pool.add_class(2)
    one.put(a, Where.LABELLED, 4)
    one.put(a, Where.LABELLED, 1)
    twin.remove_label(a)
    twin.add(a, 1)
    same(one, twin)
    one.put(a, Where.LABELLED, 1, 2.0)  # another weight: taken back and learned
    twin.remove_label(a)
    twin.add(a, 1, 2.0)
    same(one, twin)


def test_a_trained_label_is_taken_back_by_its_own_newton_step() -> None:
    pool, features, labels, labelled = problem(keep_data=False, step_size=STEP)
    i, before = int(labelled[0]), pool.posterior.replace(data=None)
    pool.remove_label(i)
    twin = el.forget(before, features[i : i + 1], [int(labels[i])])
    np.testing.assert_array_equal(pool.posterior.mean, twin.mean)
    j, other = int(labelled[1]), (int(labels[labelled[1]]) + 1) % 3
    pool.put(j, Where.LABELLED, other)
    h = features[j : j + 1]
    turned = el.update(el.forget(twin, h, [int(labels[j])]), h, [other], step_size=STEP)
    np.testing.assert_allclose(pool.posterior.mean, turned.mean, atol=1e-12)
    np.testing.assert_allclose(pool.posterior.cov, turned.cov, atol=1e-12)


def test_an_earlier_label_is_taken_back_without_learning_later_ones_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, twin, (a, b, c, *_) = pools()
    h = np.r_[np.asarray(one.features[a]), 1.0]
    pull = STEP * 1.4 * (one.probs([a])[0] - np.eye(3)[2])
    one.add(a, 2, 1.4)
    for pool in (one, twin):
        pool.add(b, 0)
        pool.condition(c)
    mean = one.posterior.mean + np.outer(one.posterior.cov @ h, pull)
    with monkeypatch.context() as patch:
        patch.setattr(history, "update", lambda *_, **__: pytest.fail("a label was learned again"))
        one.remove_label(a)
    np.testing.assert_allclose(one.posterior.mean, mean, atol=1e-12)
    np.testing.assert_allclose(one.posterior.cov, twin.posterior.cov, atol=1e-12)
    check_cache(one, 1e-6)
    one.remove_label(b)  # and so is everything after it
    twin.remove_label(b)
    np.testing.assert_allclose(one.posterior.cov, twin.posterior.cov, atol=1e-12)


@pytest.mark.parametrize("at_once", [1, 5])
def test_cached_logits_equal_recomputed_ones_after_random_changes(at_once: int) -> None:
    pool, rng = problem(n=90, n_labelled=12, keep_data=False, step_size=STEP).pool, np.random.default_rng(3)
    pool.variances()
    for _ in range(40):
        with pool.together():
            for _ in range(at_once):
                where = Where(int(rng.integers(4)))
                label = int(rng.integers(pool.n_classes)) if where is Where.LABELLED else None
                pool.put(int(rng.integers(90)), where, label)
        if rng.random() < 0.05:
            pool.add_class(1)
    check_cache(pool, 1e-6)
    assert pool.posterior.data is None
