"""The pool's record: what leads from one to another, and what is left when something is taken back."""

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool.state import Conditioned, Learned, NewClasses, Record, Where
from tests.selection.problems import problem


def learned(features: np.ndarray, idx: int, label: int) -> Learned:
    return Learned(idx, features[idx : idx + 1], label, 1.0, None, 2.0)


def test_steps_lead_from_one_record_to_another_or_it_has_other_roots() -> None:
    pool, features, *_ = problem()
    base = Record(pool.posterior, pool.posterior)
    steps = [learned(features, i, i % 3) for i in range(3)]
    first, all_three = base.then(steps[0]), base.then(*steps)
    assert all_three.since(base) == tuple(steps)
    assert first.since(first) == ()
    assert base.then(*steps[1:]).since(first) == ()  # longer, but the first is not among them
    elsewhere = pool.posterior.replace(prior_precision=2.0)
    assert Record(elsewhere, elsewhere).then(steps[0]).since(base) == ()
    np.testing.assert_array_equal(all_three.posterior.mean, first.then(*steps[1:]).posterior.mean)


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


def test_each_step_is_what_the_core_does() -> None:
    pool, features, *_ = problem()
    post, h = pool.posterior, features[4:5]
    np.testing.assert_array_equal(Conditioned(4, h).after(post).cov, el.condition(post, h).cov)
    np.testing.assert_array_equal(
        learned(features, 4, 2).after(post).mean, el.update(post, h, [2], step_size=2.0).mean
    )
    assert NewClasses(2, None).after(post).n_classes == 5


def test_places_have_numbers_and_words() -> None:
    assert [(int(where), where.words) for where in Where] == [
        (0, "free"),
        (1, "labelled"),
        (2, "out"),
        (3, "set aside"),
    ]
