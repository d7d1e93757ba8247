"""The steps of a pool's history equal the core's functions; steps that are taken back leave no trace."""

from dataclasses import replace

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool import Where, history
from everylabel.selection.pool.history import Condition, Label, NewClasses
from tests.selection.problems import problem
from tests.selection.test_pool import check_cache


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_an_answer_taken_back_leaves_nothing_of_its_time_out(likelihood: str) -> None:
    pool, twin = (problem(likelihood=likelihood).pool for _ in range(2))
    i, j = (int(x) for x in pool.free_idx[:2])
    pool.condition(i)
    for each in (pool, twin):
        each.add(j, 1, step_size=1.5)
    pool.add(i, 2, step_size=1.5)
    pool.remove_label(i)
    np.testing.assert_array_equal(pool.posterior.mean, twin.posterior.mean)
    np.testing.assert_array_equal(pool.posterior.cov, twin.posterior.cov)


@pytest.mark.parametrize("trained", [False, True])
def test_a_label_that_was_changed_exactly_is_replayed_as_it_is_now(trained: bool) -> None:
    pool, twin = (problem(method="exact").pool for _ in range(2))
    i = int(pool.labelled_idx[0] if trained else pool.free_idx[0])
    j, other = (int(x) for x in pool.free_idx[5:7])
    before = int(pool.labels[i]) if trained else 0
    for each in (pool, twin):
        if not trained:
            each.add(i, before)
    pool.put(i, Where.LABELLED, (before + 1) % 3)
    twin.remove_label(i)
    twin.add(i, (before + 1) % 3)
    for each in (pool, twin):
        each.add(j, 1, method="second_order")
        each.add(other, 2, method="second_order")
        each.remove_label(j)  # a replay, since not all is exact
    np.testing.assert_allclose(pool.posterior.mean, twin.posterior.mean, atol=2e-2)  # the exact tolerance
    np.testing.assert_allclose(pool.posterior.cov, twin.posterior.cov, atol=1e-9)
    for each in (pool, twin):
        each.remove_label(i)
    np.testing.assert_allclose(pool.posterior.mean, twin.posterior.mean, atol=2e-2)
    np.testing.assert_allclose(pool.posterior.cov, twin.posterior.cov, atol=1e-9)


def test_each_step_equals_the_core_function() -> None:
    pool, features, *_ = problem()
    post, h = pool.posterior, features[4:5]
    step = Condition(4, h, el.predict_proba(post, h, "mean"))
    leased = step.after(post)
    np.testing.assert_array_equal(leased.cov, el.condition(post, h).cov)
    np.testing.assert_array_equal(replace(step, sign=-1).after(leased).cov, el.forget(leased, h).cov)
    learned = el.update(post, h, [2], step_size=2.0)
    np.testing.assert_array_equal(Label(4, h, 2, 1.0, None, 2.0).after(post).mean, learned.mean)
    assert NewClasses(2, None).after(post).n_classes == 5


@pytest.mark.parametrize("likelihood", ["categorical", "per_class", "full", "binary", "bernoulli"])
def test_a_lease_ends_without_learning_labels_again(likelihood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its curvature is that of the mean when it was leased, though labels and classes came meanwhile."""
    made = problem(n_labelled=20)
    x, y = made.features[made.labelled], made.labels[made.labelled]
    answers, k = np.eye(3)[y], 2 if likelihood == "binary" else 3
    if likelihood == "bernoulli":
        post = el.laplace(el.fit_map(x, answers, 3, 0.7), x, likelihood, 0.7, labels=answers)
    else:
        y = y % k
        post = el.laplace(
            el.fit_map(x, y, k, 0.7, binary=likelihood == "binary"), x, likelihood, 0.7, labels=y
        )
    label = [1.0, 0.0, 0.0] if likelihood == "bernoulli" else 1
    pool, twin = (el.Pool(made.features, post, step_size=1.5) for _ in range(2))
    i, j = (int(each) for each in made.pool.free_idx[:2])
    pool.condition(i)
    twin.condition(i)
    pool.add(j, label)
    if likelihood != "binary":
        pool.add_class()
    grown = pool.posterior
    with monkeypatch.context() as patch:
        patch.setattr(history, "update", lambda *_, **__: pytest.fail("a label was learned again"))
        pool.release(i)
    np.testing.assert_array_equal(pool.posterior.mean, grown.mean)
    d = post.mean.shape[0]

    def precision(posterior: el.Posterior) -> np.ndarray:
        cov = np.asarray(posterior.cov)
        cov = cov[:3] if likelihood == "per_class" else cov[: 3 * d, : 3 * d] if likelihood == "full" else cov
        return np.asarray(np.linalg.inv(cov))

    taken = precision(twin.posterior) - precision(post)
    np.testing.assert_allclose(precision(grown) - precision(pool.posterior), taken, atol=1e-8)
    check_cache(pool)


def test_places_keep_their_numbers() -> None:
    assert [(int(where), where.name) for where in Where] == [
        (0, "FREE"),
        (1, "LABELLED"),
        (2, "LEASED"),
        (3, "EXCLUDED"),
    ]
