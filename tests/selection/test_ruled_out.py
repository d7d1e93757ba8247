"""Classes ruled out in a pool: learned, taken back, replaced by a label, as training would have it."""

from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.core.updates.partial import expected_shares, note_shares
from everylabel.selection.pool import Where
from tests.selection.problems import Problem, problem

close = np.testing.assert_allclose
HOW: list[dict[str, Any]] = [
    {"method": "exact"},
    {"step_size": 1.5},
    {"method": "first_order", "step_size": 0.05},
    {"step_size": 1.5, "keep_data": False},
]


def trained(made: Problem, ruled_out: dict[int, set[int]], more: dict[int, int] | None = None) -> np.ndarray:
    """Return the weights of training on the labels and on what is ruled out."""
    more = more or {}
    idx = [*made.labelled, *more]
    labels = [*made.labels[made.labelled], *more.values()]
    left = np.array([[c not in gone for c in range(3)] for gone in ruled_out.values()], bool)
    left, rows = left.reshape(-1, 3), made.features[list(ruled_out)]
    return np.asarray(el.fit_map(made.features[idx], labels, 3, 0.7, partial=(rows, left)))


def consistent(pool: el.Pool) -> None:
    """Check that logits and variances are those of the posterior."""
    h = pool.rows(np.arange(len(pool)))
    close(pool.logits(), h @ pool.posterior.mean, atol=1e-9)
    close(pool.variances(), np.sum((h @ pool.posterior.cov) * h, axis=1), atol=1e-9)


@pytest.mark.parametrize("how", HOW)
def test_ruled_out_class_becomes_less_likely_until_taken_back(how: dict[str, Any]) -> None:
    made = problem(**how)
    pool, before = made.pool, made.pool.posterior
    pool.variances()
    i, j = (int(x) for x in pool.free_idx[:2])
    best = int(pool.probs([i])[0].argmax())
    was = pool.probs([i])[0, best]
    pool.rule_out(i, [best])
    assert pool.probs([i])[0, best] < was
    assert pool.where(i) is Where.FREE
    np.testing.assert_array_equal(pool.posterior.cov, before.cov)
    consistent(pool)
    pool.add(j, 1)
    consistent(pool)
    pool.remove_label(j)
    pool.rule_out(i, [])
    close(pool.posterior.mean, before.mean, atol=5e-3 if how.get("method") == "exact" else 1e-12)
    assert pool.ruled_out == {}
    consistent(pool)


def test_several_ruled_out_classes_come_close_to_training() -> None:
    made = problem(method="exact", n_labelled=20)
    pool = made.pool
    ruled_out = {int(i): {int(pool.probs([i])[0].argmax())} for i in pool.free_idx[:3]}
    far = np.abs(np.asarray(pool.posterior.mean) - trained(made, ruled_out)).max()
    for i, gone in ruled_out.items():
        pool.rule_out(i, gone)
    near = np.abs(np.asarray(pool.posterior.mean) - trained(made, ruled_out)).max()
    assert near < 0.35 * far  # a round of EM each; training continues from there


@pytest.mark.parametrize("how", HOW)
def test_one_more_and_all_but_one(how: dict[str, Any]) -> None:
    """All but one is a label, to the mean."""
    pool, twin = (problem(**how).pool for _ in range(2))
    i = int(pool.free_idx[0])
    pool.rule_out(i, [0])
    pool.rule_out(i, [0, 1])
    consistent(pool)
    twin.add(i, 2)
    assert pool.probs([i])[0, 2] > 0.9 * twin.probs([i])[0, 2]
    if how.get("method") == "exact":
        close(pool.posterior.mean, twin.posterior.mean, atol=5e-3)


def test_a_label_takes_its_place() -> None:
    pool, twin = (problem(method="exact").pool for _ in range(2))
    i = int(pool.free_idx[0])
    pool.rule_out(i, [1, 2])
    pool.add(i, 1)  # another mind
    twin.add(i, 1)
    close(pool.posterior.mean, twin.posterior.mean, atol=5e-3)
    close(pool.posterior.cov, twin.posterior.cov, atol=1e-12)
    assert pool.ruled_out == {}
    pool.remove_label(i)
    close(pool.posterior.mean, problem().pool.posterior.mean, atol=5e-3)
    consistent(pool)


def test_with_step_updates_a_label_adds_to_ruled_out_classes_until_retraining() -> None:
    made = problem(step_size=1.5)
    pool, i = made.pool, int(made.pool.free_idx[0])
    pool.rule_out(i, [1])
    after = np.asarray(pool.posterior.mean)
    pool.add(i, 2)
    pool.remove_label(i)
    close(pool.posterior.mean, after, atol=1e-12)
    pool.rule_out(i, [1])  # as it is: nothing happens
    close(pool.posterior.mean, after, atol=0)
    pool.add(i, 2)
    mean = trained(made, {}, {i: 2})
    x, y = made.features[[*made.labelled, i]], [*made.labels[made.labelled], 2]
    pool.refit(el.laplace(mean, x, prior_precision=0.7, labels=y))
    assert pool.ruled_out == {}
    consistent(pool)


@pytest.mark.parametrize("how", [HOW[0], HOW[1]])
def test_training_labels_can_be_forgotten_also_with_more_classes(how: dict[str, Any]) -> None:
    made = problem()
    i, x, y = int(made.pool.free_idx[0]), made.features[made.labelled], made.labels[made.labelled]
    posterior = el.laplace(trained(made, {i: {0}}), x, prior_precision=0.7, labels=y)
    left = np.array([[False, True, True]])
    posterior = note_shares(
        posterior, made.features[[i]], expected_shares(posterior, made.features[[i]], left)
    )
    pool = el.Pool(made.features, posterior, labelled_idx=made.labelled, labels=y, ruled_out={i: [0]}, **how)
    pool.add_class()
    assert pool.ruled_out == {i: {0}}
    pool.rule_out(i, [])
    assert pool.ruled_out == {}
    close(pool.posterior.mean, el.fit_map(x, y, 4, 0.7), atol=5e-3)
    consistent(pool)


def test_without_data_all_steps_are_taken_back_at_once_also_of_a_training() -> None:
    pool = problem(step_size=1.5, keep_data=False).pool
    before, i = np.asarray(pool.posterior.mean), int(pool.free_idx[0])
    pool.rule_out(i, [0])
    pool.add_class()
    pool.rule_out(i, [0, 1])
    pool.rule_out(i, [])
    close(np.asarray(pool.posterior.mean)[:, :3], before, atol=1e-12)
    consistent(pool)
    made = problem()
    best = int(made.pool.probs([i])[0].argmax())
    x, y = made.features[made.labelled], made.labels[made.labelled]
    posterior = el.laplace(trained(made, {i: {best}}), x, prior_precision=0.7, keep_data=False)
    given: dict[str, Any] = {"labelled_idx": made.labelled, "labels": y, "ruled_out": {i: [best]}}
    pool = el.Pool(made.features, posterior, step_size=1.5, **given)
    was = pool.probs([i])[0, best]
    pool.rule_out(i, [])
    assert was < pool.probs([i])[0, best]
    consistent(pool)


def test_many_at_once_reach_the_logits_in_one_pass() -> None:
    pool, twin = (problem(method="exact").pool for _ in range(2))
    some = [int(i) for i in pool.free_idx[:4]]
    with pool.together():
        for i in some:
            pool.rule_out(i, [i % 3])
        pool.condition(some[0])
        pool.add(some[1], 2)
    for i in some:
        twin.rule_out(i, [i % 3])
    twin.condition(some[0])
    twin.add(some[1], 2)
    close(pool.logits(), twin.logits(), atol=1e-9)
    consistent(pool)


def test_mistakes_are_reported_and_change_nothing() -> None:
    made = problem(method="exact")
    pool, i = made.pool, int(made.pool.free_idx[0])
    with pytest.raises(el.EverylabelError, match="rules out all 3; expected at least one class"):
        pool.rule_out(i, [0, 1, 2])
    with pytest.raises(el.EverylabelError, match="classes runs from 5 to 5"):
        pool.rule_out(i, [5])
    with pytest.raises(el.EverylabelError, match="has a label"):
        pool.rule_out(int(made.labelled[0]), [1])
    assert pool.ruled_out == {}
