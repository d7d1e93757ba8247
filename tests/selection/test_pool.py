"""The pool's cache against recomputation; the effects of add, condition, release and remove_label."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.core.arrays import to_numpy
from everylabel.selection import threads
from everylabel.selection.pool import Where, history
from everylabel.selection.pool.features import Features
from tests.conftest import LIKELIHOODS
from tests.selection.problems import problem

close = np.testing.assert_allclose


def check_cache(pool: el.Pool, rtol: float = 1e-7) -> None:
    f = to_numpy(el.logits(pool.posterior, pool.features))
    f = np.c_[np.zeros_like(f), f] if pool.posterior.likelihood == "binary" else f
    close(pool.logits(), f, rtol=rtol, atol=10 * rtol)
    q = to_numpy(el.logit_variance(pool.posterior, pool.features)).mean(axis=1)
    close(pool.variances(), q, rtol=rtol, atol=10 * rtol)


def mixed_operations(pool: el.Pool, labels: Any, trained: Any, n: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(n):
        out, free = pool.leased_idx, pool.free_idx
        known = np.setdiff1d(pool.labelled_idx, trained)
        what = rng.choice(["add", "add", "answer", "condition", "release", "remove"])
        if what == "add" and len(free) > 5:
            i = int(rng.choice(free))
            pool.add(i, labels[i], float(rng.uniform(0.5, 2.0)), step_size=float(rng.uniform(0.5, 4.0)))
        elif what == "answer" and len(out):
            i = int(rng.choice(out))
            pool.add(i, labels[i], step_size=2.0)
        elif what == "condition" and len(free) > 5:
            pool.condition(int(rng.choice(free)))
        elif what == "release" and len(out):
            pool.release(int(rng.choice(out)))
        elif what == "remove" and len(known) > 3:
            pool.remove_label(int(rng.choice(known)))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_cache_after_mixed_operations(likelihood: str) -> None:
    pool, _, labels, trained = problem(n=90, n_labelled=12, likelihood=likelihood)
    pool.variances()
    for part in range(4):  # 200 in all, looked at four times
        mixed_operations(pool, labels, trained, 50 if likelihood != "full" else 15, seed=part)
        check_cache(pool, 1e-6)


@pytest.mark.parametrize("n_labels", [2, 9])  # the mean then changes along few directions, and along many
def test_labels_that_are_learned_again_without_a_lease_update_the_logits(n_labels: int) -> None:
    pool, _, labels, _ = problem(n=90, d=12, k=9, n_labelled=12, likelihood="categorical")
    leased, *others = pool.free_idx[: n_labels + 1].tolist()
    pool.condition(leased)
    for i in others:
        pool.add(i, labels[i])
    pool.add(leased, labels[leased])
    check_cache(pool)


@pytest.mark.parametrize("method", ["second_order", "first_order"])
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "binary"])
def test_one_label_is_the_cores_update(likelihood: str, method: str) -> None:
    pool, features, labels, _ = problem(likelihood=likelihood, method=method)
    before, i = pool.posterior, int(pool.free_idx[3])
    pool.variances()
    pool.add(i, labels[i], 1.7, step_size=0.8)
    after = el.update(before, features[i : i + 1], labels[i : i + 1], method, 0.8, weights=[1.7])
    np.testing.assert_array_equal(pool.posterior.mean, after.mean)
    np.testing.assert_array_equal(pool.posterior.cov, after.cov)
    check_cache(pool)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "per_class"])
def test_a_label_taken_back_is_as_if_never_given(likelihood: str) -> None:
    pool, _, labels, _ = problem(likelihood=likelihood)
    twin, *_ = problem(likelihood=likelihood)
    a, b, c, d = (int(i) for i in pool.free_idx[[2, 9, 4, 7]])
    pool.condition(d)
    for i in (a, b, c):
        pool.add(i, labels[i], step_size=1.5)
    pool.remove_label(b)
    twin.condition(d)
    for i in (a, c):
        twin.add(i, labels[i], step_size=1.5)
    np.testing.assert_array_equal(pool.posterior.mean, twin.posterior.mean)
    np.testing.assert_array_equal(pool.posterior.cov, twin.posterior.cov)
    assert pool.labels[b] == -1
    assert b in pool.free_idx
    check_cache(pool)


def test_a_label_from_training_is_forgotten_by_the_core() -> None:
    pool, features, labels, labelled = problem()
    before, i = pool.posterior, int(labelled[0])
    pool.remove_label(i)
    expected = el.forget(before, features[i : i + 1], labels[i : i + 1])
    close(pool.posterior.mean, expected.mean)
    close(pool.posterior.cov, expected.cov)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_condition_and_release_restore(likelihood: str) -> None:
    pool, features, labels, _ = problem(likelihood=likelihood)
    before = pool.posterior
    i, j = (int(x) for x in pool.free_idx[:2])
    pool.condition(i)
    close(pool.posterior.cov, el.condition(before, features[i : i + 1]).cov)
    close(pool.posterior.mean, before.mean)
    assert i not in pool.free_idx
    pool.release(i)
    close(pool.posterior.cov, before.cov, atol=1e-12)
    pool.condition(j)
    pool.add(j, labels[j], step_size=2.0)  # an answer: the instance counts once
    once = el.update(before, features[j : j + 1], labels[j : j + 1], step_size=2.0)
    if likelihood == "gaussian":
        close(pool.posterior.cov, once.cov, atol=1e-12)
        close(pool.posterior.mean, once.mean)
    check_cache(pool)


def test_refit_keeps_labels_and_leases() -> None:
    pool, features, labels, _ = problem()
    i, j = (int(x) for x in pool.free_idx[:2])
    pool.add(i, labels[i])
    pool.condition(j)
    idx = pool.labelled_idx
    posterior = el.laplace(el.fit_map(features[idx], labels[idx], 3, 0.7), features[idx], "gaussian", 0.7)
    pool.refit(posterior)
    close(pool.posterior.mean, posterior.mean)
    close(pool.posterior.cov, el.condition(posterior, features[j : j + 1]).cov)
    f = pool.logits(idx)
    own = f[np.arange(len(idx)), labels[idx]]
    close(pool.auto_step, np.mean(own - f.mean(axis=1)))
    check_cache(pool)


@pytest.mark.parametrize("likelihood", ["gaussian", "per_class", "matrix_normal"])
def test_add_class(likelihood: str) -> None:
    pool, _, labels, _ = problem(likelihood=likelihood)
    pool.variances()
    i, j = (int(x) for x in pool.free_idx[:2])
    pool.add(i, labels[i], step_size=1.0)
    pool.add_class()
    assert pool.n_classes == 4
    pool.add(j, 3, step_size=1.0)
    check_cache(pool)
    pool.remove_label(i)
    check_cache(pool)


def test_classes_that_come_one_by_one_seldom_have_all_logits_copied() -> None:
    pool = problem().pool
    where: list[Any] = []
    for _ in range(200):
        pool.add_class()
        if not any(pool.logits().base is one for one in where):
            where.append(pool.logits().base)
    assert len(where) < 15
    check_cache(pool)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_memory_mapped_pool_is_read_in_chunks(
    tmp_path: Path, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "pool.npy", rng.normal(size=(50, 6)).astype(dtype))
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    monkeypatch.setattr("everylabel.selection.pool.features.CHUNK", 6 * 7)  # seven rows at a time
    post = el.laplace(rng.normal(size=(7, 3)), rng.normal(size=(9, 6)))
    pool, plain = el.Pool(mapped, post), el.Pool(np.asarray(mapped, np.float64), post)
    for each in (pool, plain):
        each.variances()
        each.add(3, 1)
        each.condition(8)
    assert pool.features is mapped
    close(pool.logits(), plain.logits(), rtol=1e-4, atol=1e-4)
    close(pool.variances(), plain.variances(), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_give_the_same_cache(dtype: Any) -> None:
    pool, _, labels, trained = problem(convert=torch.as_tensor, dtype=dtype)
    plain, *_ = problem(dtype=dtype)
    for each in (pool, plain):
        each.variances()
        mixed_operations(each, labels, trained, 30)
    assert isinstance(pool.posterior.mean, torch.Tensor)
    close(pool.logits(), plain.logits(), rtol=1e-3, atol=1e-4)
    close(pool.variances(), plain.variances(), rtol=1e-3)
    np.testing.assert_array_equal(pool.state, plain.state)


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.worth_compiling(threads.SMALL)
    monkeypatch.setattr(threads, "can_compile", lambda: False)
    assert not threads.worth_compiling(threads.SMALL)


def test_threads_share_all_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads.workers() == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    seen: list[int] = []
    monkeypatch.setattr(threads, "workers", lambda: 3)
    threads.share(lambda start, stop: seen.extend(range(start, stop)), 10)
    assert sorted(seen) == list(range(10))


def test_repr_counts() -> None:
    pool, *_ = problem()
    pool.condition(int(pool.free_idx[0]))
    assert repr(pool).startswith("Pool(free=51, labelled=8, leased=1, excluded=0, Posterior(")
    assert len(pool) == 60


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "per_class", "full"])
def test_out_and_then_labelled_is_labelled(likelihood: str) -> None:
    features, post = _parts(likelihood)
    once, twice = el.Pool(features, post), el.Pool(features, post)
    once.add(3, 1)
    twice.condition(3)
    twice.add(3, 1)
    np.testing.assert_allclose(twice.posterior.cov, once.posterior.cov, atol=1e-10)
    np.testing.assert_allclose(twice.posterior.mean, once.posterior.mean, atol=1e-10)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "per_class"])
def test_a_new_class_stays_where_it_came_in_a_replay(likelihood: str) -> None:
    features, post = _parts(likelihood)
    pool = el.Pool(features, post)
    pool.add(3, 1)
    pool.add(4, 2)
    pool.add_class()
    before = pool.logits().copy()
    pool.condition(5)
    pool.release(5)
    pool.add(6, 3)
    pool.remove_label(6)
    np.testing.assert_allclose(pool.logits(), before, atol=1e-5)


def test_bad_settings_and_posteriors_are_refused_in_time() -> None:
    features, post = _parts("gaussian")
    with pytest.raises(el.EverylabelError, match="method is 'bogus'"):
        el.Pool(features, post, method="bogus")
    with pytest.raises(el.EverylabelError, match="step_size is 'bogus'"):
        el.Pool(features, post, step_size="bogus")
    pool = el.Pool(features, post)
    pool.add(3, 2)
    small = el.laplace(np.zeros((features.shape[1] + 1, 2)), features[:2])
    for wrong in (small, None):
        with pytest.raises(el.EverylabelError, match="posterior"):
            pool.refit(wrong)  # type: ignore[arg-type]
    assert pool.n_classes == 3
    with pytest.raises(ValueError, match="read-only"):
        pool.logits()[:] = 0.0


def _parts(likelihood: str) -> tuple[np.ndarray, el.Posterior]:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    return features, el.laplace(el.fit_map(features[:10], labels[:10], 3), features[:10], likelihood)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("with_variances", [True, False])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_learning_together_equals_learning_one_by_one(n: int, with_variances: bool, likelihood: str) -> None:
    one, many = (problem(k=8, likelihood=likelihood) for _ in range(2))
    free = [int(i) for i in one.pool.free_idx]
    if with_variances:
        many.pool.variances()

    def changes(pool: el.Pool) -> None:
        for i in free[:n]:
            pool.add(i, int(one.labels[i]), step_size=2.0)
        pool.condition(free[20])
        pool.set_aside(free[21])

    changes(one.pool)
    with many.pool.together():
        changes(many.pool)
    np.testing.assert_array_equal(many.pool.posterior.mean, one.pool.posterior.mean)
    np.testing.assert_array_equal(many.pool.state, one.pool.state)
    check_cache(many.pool)


def test_labels_learned_together_do_not_each_copy_the_labelled_instances() -> None:
    made = problem(n=4000, d=50, n_labelled=3000, step_size=1.0)
    some = made.pool.free_idx[:30]
    tracemalloc.start()
    try:
        with made.pool.together():
            for i in some:
                made.pool.add(int(i), int(made.labels[i]))
        assert tracemalloc.get_traced_memory()[1] < 10e6  # a copy has 1.2 MB
    finally:
        tracemalloc.stop()
    assert made.pool.posterior.data is not None
    assert len(made.pool.posterior.data) == 3030


def test_all_kinds_of_change_can_be_made_together() -> None:
    pool = problem().pool
    free = [int(i) for i in pool.free_idx]
    with pool.together():
        pool.add(free[0], 1)
        pool.add(free[1], 2)
        pool.remove_label(free[0])
        pool.add_class()
        pool.add(free[2], 3)
    check_cache(pool)
    assert pool.n_classes == 4


@pytest.mark.parametrize("options", [{"method": "exact"}, {"step_size": 2.0, "keep_data": False}])
def test_variances_follow_labels_taken_back_and_leases_made_together(options: dict[str, Any]) -> None:
    pool = problem(**options).pool
    i, (j, k) = int(pool.labelled_idx[0]), (int(x) for x in pool.free_idx[:2])
    pool.variances()
    with pool.together():
        pool.put(i, Where.LEASED)
        pool.condition(j)
        pool.set_aside(k)
    check_cache(pool)


def test_an_excluded_instance_is_not_chosen_until_it_is_brought_back() -> None:
    pool = problem().pool
    i = int(pool.free_idx[0])
    pool.set_aside(i)
    assert i not in pool.free_idx
    with pytest.raises(el.EverylabelError, match=f"{i}, which is excluded; expected one that is free"):
        pool.set_aside(i)
    pool.bring_back(i)
    assert i in pool.free_idx


@pytest.mark.parametrize("out", [False, True])
def test_a_label_learned_exactly_is_forgotten_without_a_replay(
    out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (problem(k=3, method="exact") for _ in range(2))
    free = [int(i) for i in one.pool.free_idx]
    for i in free[:5]:
        for made in (one, other)[: 2 if i != free[1] else 1]:
            if out:
                made.pool.condition(i)
            made.pool.add(i, int(made.labels[i]))
    with monkeypatch.context() as patched:
        patched.setattr(history, "update", lambda *_, **__: pytest.fail("replayed"))
        one.pool.remove_label(free[1])
    close(one.pool.posterior.mean, other.pool.posterior.mean, atol=1e-2)  # the exact update's tolerance
    close(one.pool.posterior.cov, other.pool.posterior.cov, atol=1e-9)
    check_cache(one.pool)
    one.pool.remove_label(int(one.labelled[0]))  # known to the training
    one.pool.add(free[1], int(one.labels[free[1]]))
    check_cache(one.pool)


@pytest.mark.parametrize("trained", [False, True])
def test_a_label_learned_exactly_becomes_another_without_a_replay(
    trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = problem(k=3, method="exact")
    pool = made.pool
    free = [int(i) for i in pool.free_idx]
    for i in free[:5]:
        pool.add(i, int(made.labels[i]))
    pool.variances()
    i = int(made.labelled[0]) if trained else free[1]
    was = int(pool.labels[i])
    with monkeypatch.context() as patched:
        patched.setattr(history.History, "_replay", lambda *_: pytest.fail("replayed"))
        patched.setattr(pool._cached, "find_variances", lambda *_: pytest.fail("variances anew"))
        pool.put(i, Where.LABELLED, (was + 1) % 3)
        check_cache(pool)
        pool.put(i, Where.LABELLED, (was + 2) % 3)
        check_cache(pool)
    idx = pool.labelled_idx
    anew = el.fit_map(made.features[idx], pool.labels[idx], 3, pool.posterior.prior_precision)
    close(pool.posterior.mean, anew, atol=2e-2)  # the exact update's tolerance, twice
    with monkeypatch.context() as patched:
        patched.setattr(pool._cached, "find_variances", lambda *_: pytest.fail("variances anew"))
        pool.remove_label(i)
        check_cache(pool)
    pool.add(i, was)
    pool.add(free[6], int(made.labels[free[6]]), method="second_order")
    pool.put(i, Where.LABELLED, (was + 1) % 3)  # replayed now, without what was learned of it
    check_cache(pool)


def test_labels_of_other_weights_than_the_trainings_can_change_too() -> None:
    made = problem(k=3, method="exact", d=30)
    pool, free = made.pool, [int(i) for i in made.pool.free_idx]
    pool.add(free[0], 1, 0.0)
    pool.remove_label(free[0])  # nothing to take back
    check_cache(pool)
    idx = made.labelled
    post = el.laplace(
        pool.posterior.mean, made.features[idx], labels=made.labels[idx], weights=[2.0] * len(idx)
    )
    heavy = el.Pool(made.features, post, labelled_idx=idx, labels=made.labels[idx], method="exact")
    heavy.put(int(idx[0]), Where.LABELLED, int(made.labels[idx[0]] + 1) % 3)
    check_cache(heavy)


def test_one_change_keeps_the_variances_and_several_are_right() -> None:
    made = problem(k=3, method="exact")
    pool, i = made.pool, int(made.pool.free_idx[0])
    pool.add(i, 0)
    pool.variances()
    with pool.together():
        pool.put(i, Where.LABELLED, 1)
        pool.put(i, Where.LABELLED, 2)
    check_cache(pool)
    with pool.together():
        pool.remove_label(i)
    assert pool._cached.has_variances
    check_cache(pool)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
@pytest.mark.parametrize("there", list(Where))
@pytest.mark.parametrize("here", list(Where))
def test_instance_moves_between_all_states(here: Where, there: Where, likelihood: str) -> None:
    moved, twin = (problem(likelihood=likelihood).pool for _ in range(2))
    i, j = (int(x) for x in moved.free_idx[:2])
    moved.put(i, here, 2 if here is Where.LABELLED else None, 0.5 if here is Where.LABELLED else 1.0)
    moved.variances()
    moved.put(i, there, 1 if there is Where.LABELLED else None)
    twin.put(i, there, 1 if there is Where.LABELLED else None)
    for pool in (moved, twin):
        pool.add(j, 0, step_size=2.0)
    close(moved.posterior.mean, twin.posterior.mean, atol=1e-12)
    close(moved.posterior.cov, twin.posterior.cov, atol=1e-12)
    assert (moved.where(i), moved.labels[i], moved.weights[i]) == (there, twin.labels[i], 1.0)
    check_cache(moved)


def test_an_instance_that_is_there_already_is_not_learned_again() -> None:
    pool = problem().pool
    i = int(pool.free_idx[0])
    for where, label in ((Where.LABELLED, 1), (Where.LEASED, None), (Where.EXCLUDED, None)):
        pool.put(i, where, label)
        before = pool.posterior
        pool.put(i, where, label)
        assert pool.posterior is before
    pool.put(i, Where.LABELLED, 1, 2.0)  # another weight is another label
    assert pool.weights[i] == 2.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((Where.LABELLED,), "label is None and where is labelled; expected its class"),
        ((Where.LEASED, 1), "label is 1 and where is leased; expected none"),
        ((7,), "where is 7; expected one of Where.FREE"),
        ((Where.LABELLED, 5), "label runs from 5 to 5"),
        ((Where.LABELLED, 0, -1.0), "weight is -1.0"),
    ],
)
def test_failed_put_changes_nothing(given: Any, message: str) -> None:
    pool = problem().pool
    i = int(pool.labelled_idx[0])
    before = pool.posterior
    with pytest.raises(el.EverylabelError, match=message):
        pool.put(i, *given)
    assert pool.posterior is before
    assert pool.where(i) is Where.LABELLED


def test_an_exact_pool_has_no_step_size_from_the_start() -> None:
    features, post = _parts("gaussian")
    for step in ("auto", 2.0):
        with pytest.raises(el.EverylabelError, match=r"step_size is .*method='exact' has none: leave it out"):
            el.Pool(features, post, method="exact", step_size=step)


def test_select_asks_for_no_label_that_cannot_be_learned() -> None:
    made = problem(method="exact")
    forgetful = el.Pool(made.features, made.pool.posterior.replace(data=None), method="exact")
    cases: list[tuple[el.Pool, dict[str, Any], str]] = [
        (made.pool, {"step_size": 2.0}, "method='exact' has none"),
        (made.pool, {"step_size": "auto"}, "method='exact' has none"),
        (problem().pool, {"step_size": "big"}, "step_size is 'big'"),
        (forgetful, {}, "keep_data=True"),
    ]
    for strategy in ("margin", "lookahead"):
        for pool, given, message in cases:
            with pytest.raises(el.EverylabelError, match=message):
                el.select(
                    pool, strategy, 1, np.random.default_rng(0), lambda i: pytest.fail("asked"), **given
                )


def test_an_excluded_instance_is_not_labelled_by_accident() -> None:
    pool = problem().pool
    i = int(pool.free_idx[0])
    pool.set_aside(i)
    with pytest.raises(el.EverylabelError, match=rf"{i}, which is excluded; call bring_back\({i}\) first"):
        pool.add(i, 1)
    assert pool.where(i) is Where.EXCLUDED
    pool.put(i, Where.LABELLED, 1)  # on purpose
    assert pool.where(i) is Where.LABELLED


@pytest.mark.parametrize(("method", "columns"), [("exact", 4), ("first_order", 4), ("second_order", 1)])
def test_a_label_reads_the_features_once(method: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _, labels, _ = problem(method=method)
    pool.variances()
    product, read = Features.product, []

    def counted(self: Features, weights: np.ndarray) -> np.ndarray:
        read.append(weights[0].size)
        return product(self, weights)

    monkeypatch.setattr(Features, "product", counted)
    i = int(pool.free_idx[0])
    pool.add(i, int(labels[i]))
    assert read == [columns]  # three classes and the direction of the variances, or that alone
    check_cache(pool)


def test_half_precision_is_widened_to_the_bit() -> None:
    from everylabel.selection.pool import loops

    half = np.arange(2**16, dtype=np.uint16).view(np.float16)  # all there are
    found = np.empty(2**16, np.float32)
    loops.widen(half.view(np.uint16), found)
    np.testing.assert_array_equal(found, half.astype(np.float32))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_products_of_half_precision(bias: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:  # as without numba
        monkeypatch.setattr(threads, "can_compile", lambda: False)
    rng = np.random.default_rng(0)
    half = rng.normal(size=(17_000, 31)).astype(np.float16)  # enough for the compiled loops
    posterior = el.laplace(np.zeros((31 + bias, 3)), half[:5].astype(np.float64))
    design = np.c_[half.astype(np.float64), np.ones(len(half))] if bias else half.astype(np.float64)
    features, w = Features(half, posterior), rng.normal(size=(31 + bias, 3))
    assert features._is_half == compiled
    np.testing.assert_allclose(features.product(w[:, 0]), design @ w[:, 0], atol=1e-4)
    np.testing.assert_allclose(features.product(w), (design @ w).T, atol=1e-4)
    half[7, 3] = np.inf
    with pytest.raises(el.EverylabelError, match="NaN or infinite values in 1 instance"):
        el.Pool(half, posterior)


def test_half_precision_is_left_to_numpy_where_numba_was_built_for_another_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert threads.can_widen()  # wherever these tests run
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert not threads.can_widen.__wrapped__()
