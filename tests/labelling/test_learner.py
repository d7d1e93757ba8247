"""The model behind the page: the same from wherever it came, and what it picks is free and no copy."""

from typing import Any

import numpy as np
import pytest

from everylabel.labelling import learner as module
from everylabel.labelling.learner import Change, Learner
from everylabel.labelling.records import Place
from everylabel.labelling.training import train
from everylabel.selection.pool import Where
from tests.labelling.desks import FEATURES, N, Y

FREE, OUT, ASIDE = Place(Where.FREE), Place(Where.OUT), Place(Where.ASIDE)
LABELS = {i: int(Y[i]) for i in range(20)}


def labelled(number: int) -> Place:
    return Place(Where.LABELLED, number)


@pytest.fixture(params=["exact", "second order"])
def exact(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param != "exact":
        monkeypatch.setattr(module, "EXACT_UP_TO", 0)
    return bool(request.param == "exact")


def mean(made: Learner) -> np.ndarray:
    return np.asarray(made.pool.posterior.mean)


def changes(*steps: tuple[int, Place], block: int | None = None, k: int = 10) -> list[Change]:
    return [Change(n, n if block is None else block, item, place, k) for n, (item, place) in enumerate(steps)]


def test_training_does_not_depend_on_the_order_of_labelling() -> None:
    backwards = dict(reversed(LABELS.items()))
    assert np.array_equal(mean(Learner(FEATURES, LABELS, 10)), mean(Learner(FEATURES, backwards, 10)))
    assert np.array_equal(mean(Learner(FEATURES, {}, 0)), np.zeros((FEATURES.shape[1] + 1, 1)))
    assert Learner(FEATURES, LABELS, 10).pool.labelled_idx.tolist() == list(range(20))


def test_labels_are_learned_exactly_where_the_pool_is_small(exact: bool) -> None:
    made = Learner(FEATURES, LABELS, 10)
    assert made.exact == exact
    more = {i: int(Y[i]) for i in range(20, 40)}
    made.follow(changes(*((i, labelled(c)) for i, c in more.items())))
    twin = np.asarray(train(FEATURES, {**LABELS, **more}, 10).mean)
    assert (np.abs(mean(made) - twin).max() < 0.02) == exact


def test_a_block_learned_together_equals_one_by_one(exact: bool) -> None:
    steps = [(30, labelled(3)), (31, OUT), (32, ASIDE), (33, labelled(1)), (34, labelled(2))]
    one, many = Learner(FEATURES, LABELS, 10), Learner(FEATURES, LABELS, 10)
    one.follow(changes(*steps))
    many.follow(changes(*steps, block=1))
    np.testing.assert_allclose(mean(one), mean(many), atol=1e-9)
    np.testing.assert_allclose(one.pool.logits(), many.pool.logits(), atol=1e-4)
    assert np.array_equal(one.pool.state, many.pool.state)


def test_labels_that_many_change_at_once_are_learned_by_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """New ones, others in their place, and some taken back, of instances that are out, too."""
    steps = [(30, OUT), (31, OUT), (32, ASIDE), (30, labelled(3)), (33, labelled(1)), (34, labelled(2))]
    steps += [
        (0, labelled(5)),
        (1, FREE),
        (2, OUT),
        (33, FREE),
        (35, Place(Where.FREE, None, frozenset({4}))),
    ]
    one, many = Learner(FEATURES, LABELS, 10), Learner(FEATURES, LABELS, 10)
    one.follow(changes(*steps))
    searches: list[int] = []

    def counted(*given: Any, **how: Any) -> Any:
        searches.append(len(given[1]))
        return train(*given, **how)

    monkeypatch.setattr(module, "train", counted)
    many.follow(changes(*steps, block=1))
    assert searches == [20]  # two more, two fewer
    twin = {**LABELS, 30: 3, 34: 2, 0: 5}
    idx = many.pool.labelled_idx.tolist()
    assert {i: int(many.pool.labels[i]) for i in idx} == {i: c for i, c in twin.items() if i not in (1, 2)}
    np.testing.assert_allclose(mean(one), mean(many), atol=2e-3)
    np.testing.assert_allclose(one.pool.variances(), many.pool.variances(), rtol=0.02)
    assert np.array_equal(one.pool.state, many.pool.state)
    assert one.pool.ruled_out == many.pool.ruled_out == {35: frozenset({4})}


@pytest.mark.parametrize("back", [FREE, OUT, ASIDE, labelled(5)])
def test_an_instance_can_go_from_anywhere_to_anywhere(exact: bool, back: Place) -> None:
    there, twin = Learner(FEATURES, LABELS, 10), Learner(FEATURES, LABELS, 10)
    there.follow(changes(*((40, place) for place in (labelled(4), OUT, ASIDE, labelled(7), FREE, OUT, back))))
    twin.follow(changes((40, back)))
    assert there.pool.where(40) is back.where
    assert there.pool.labels[40] == (-1 if back.label is None else back.label)
    np.testing.assert_allclose(mean(there), mean(twin), atol=0.01)  # to what exact updates are solved to
    np.testing.assert_allclose(there.pool.posterior.cov, twin.pool.posterior.cov, atol=1e-6)


def test_classes_are_added_before_they_are_learned() -> None:
    made = Learner(FEATURES, {}, 0)
    made.follow([Change(1, 1, None, FREE, 2), Change(2, 1, 0, labelled(2), 3)])
    assert made.pool.n_classes == 3
    assert made.probabilities(0).argmax() == 2
    assert made.probabilities(0).sum() == pytest.approx(1.0)


def test_a_pool_that_classes_make_large_goes_on_by_steps_from_what_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = [(30, labelled(3)), (31, OUT), (32, ASIDE), (33, Place(Where.FREE, None, frozenset({2})))]
    made, twin = Learner(FEATURES, LABELS, 10), Learner(FEATURES, LABELS, 10)
    monkeypatch.setattr(module, "EXACT_UP_TO", FEATURES.size * 10)
    for learner in (made, twin):
        learner.follow(changes(*known))
    made.follow([Change(9, 9, None, FREE, 11)])
    twin.pool.add_class()
    assert twin.exact
    assert not made.exact
    np.testing.assert_allclose(made.pool.posterior.mean, twin.pool.posterior.mean, atol=1e-12)
    np.testing.assert_allclose(made.pool.posterior.cov, twin.pool.posterior.cov, atol=1e-12)
    np.testing.assert_allclose(made.pool.logits(), twin.pool.logits(), atol=1e-4)
    assert made.pool.ruled_out == twin.pool.ruled_out
    for mine, theirs in ((made.pool.state, twin.pool.state), (made.pool.labels, twin.pool.labels)):
        assert np.array_equal(mine, theirs)
    made.follow(changes((40, labelled(10)), k=11))
    assert made.pool.labels[40] == 10


def test_a_new_project_of_many_classes_learns_by_steps_from_the_first_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXACT_UP_TO", FEATURES.size * 5)
    made = Learner(FEATURES, {}, 0)  # as a log begins
    assert made.exact
    made.follow([Change(1, 1, None, FREE, 10)])
    assert not made.exact


def test_probabilities_are_current_while_the_logits_are_late() -> None:
    made = Learner(FEATURES, LABELS, 10)
    with made.pool.together():
        made.become(Change(1, 1, 50, labelled(6), 10))
        soon = made.probabilities(51)
    np.testing.assert_allclose(soon, made.pool.probs([51])[0], atol=1e-5)


def test_what_is_expected_is_the_mean_of_what_has_no_label() -> None:
    made = Learner(FEATURES, LABELS, 10)
    left = np.setdiff1d(np.arange(N), list(LABELS))  # the sample is the whole pool
    assert made.expected() == pytest.approx(made.pool.probs(left).max(axis=1).mean(), rel=1e-6)
    everything = Learner(FEATURES[:9], {i: int(Y[i]) for i in range(9)}, 10)
    assert 0.5 < everything.expected() <= 1.0


def test_picks_are_free_and_no_copies_of_what_is_out() -> None:
    twice = np.concatenate([FEATURES[:60], FEATURES[:60]])
    made, rng = Learner(twice, {i: int(Y[i]) for i in range(10)}, 10), np.random.default_rng(0)
    made.follow(changes((20, OUT), (21, ASIDE)))
    for strategy in ("lookahead", "margin", "random"):
        picked = made.pick(strategy, 5, rng)
        assert len({i % 60 for i in picked}) == 5
        assert not {20, 80} & set(picked)
        assert all(made.pool.where(i) is Where.FREE for i in picked)
    assert made.pick("margin", 0, rng) == []


def test_near_copies_are_picked_when_nothing_else_is_left() -> None:
    same = np.repeat(FEATURES[:1], 4, axis=0)
    made = Learner(same, {}, 2)
    made.follow(changes((0, OUT), k=2))
    assert sorted(made.pick("margin", 9, np.random.default_rng(0))) == [1, 2, 3]


def test_a_drawn_instance_is_any_that_is_free() -> None:
    made, rng = Learner(FEATURES[:8], {0: 1}, 2), np.random.default_rng(0)
    made.follow(changes((1, OUT), (2, ASIDE), k=2))
    counts = np.bincount([made.draw(rng) or 0 for _ in range(500)], minlength=8)
    assert not counts[:3].any()
    assert counts[3:].min() > 60
    made.follow(changes(*((i, ASIDE) for i in range(3, 8)), k=2))
    assert made.draw(rng) is None
