"""The contract of every strategy, top-b and with updates between picks (Algorithm 1)."""

from typing import Any

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.selection.select import cannot_separate
from tests.conftest import LIKELIHOODS
from tests.selection.problems import problem

NAMES = [s["name"] for s in el.strategies()]
QUICK: dict[str, Any] = {"refine": {"n_batches": 9, "n_rounds": 2}}  # each proposing strategy in turn


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", NAMES)
def test_picks_are_free_unique_and_repeatable(name: str, likelihood: str) -> None:
    pool, _, labels, _ = problem(likelihood=likelihood)
    pool.condition(int(pool.free_idx[4]))
    free, mean = set(pool.free_idx.tolist()), pool.posterior.mean.copy()
    how = QUICK.get(name, {}) if likelihood != "gaussian" else {}
    idx = el.select(pool, name, 7, rng(), **how)
    assert idx.dtype == np.int64
    assert len(set(idx.tolist())) == 7
    assert set(idx.tolist()) <= free
    np.testing.assert_array_equal(pool.posterior.mean, mean)  # without `ask` nothing is learned
    np.testing.assert_array_equal(idx, el.select(pool, name, 7, rng(), **how))
    asked: list[int] = []

    def ask(i: int) -> int:
        asked.append(i)
        return int(labels[i])

    picked = el.select(pool, name, 4, rng(), ask=ask, **how)
    assert picked.tolist() == asked
    assert len(set(asked)) == 4
    assert set(asked) <= free
    assert set(asked) <= set(pool.labelled_idx.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_all_free_instances_can_be_picked_and_no_others(name: str) -> None:
    pool, *_ = problem(n=14)
    assert sorted(el.select(pool, name, 6, rng()).tolist()) == pool.free_idx.tolist()
    with pytest.raises(el.EverylabelError, match="n is 7, but 6 instance"):
        el.select(pool, name, 7, rng())


@pytest.mark.parametrize("name", NAMES)
def test_tensors_get_the_same_picks(name: str) -> None:
    plain, _, labels, _ = problem()
    tensors, *_ = problem(convert=torch.as_tensor)
    for ask in (None, lambda i: int(labels[i])):
        a, b = (el.select(p, name, 6, rng(), ask=ask, **QUICK.get(name, {})) for p in (plain, tensors))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_equal_instances_and_constant_features_can_be_picked(name: str) -> None:
    features = np.repeat(np.eye(3)[[0, 1, 2, 0]], 5, axis=0)
    post = el.laplace(el.fit_map(features[[0, 5]], [0, 1], 3), features[[0, 5]])
    pool = el.Pool(features, post, labelled_idx=[0, 5], labels=[0, 1])
    idx = el.select(pool, name, 18, rng())
    assert sorted(idx.tolist()) == pool.free_idx.tolist()
    flat = el.Pool(np.ones((6, 3)), post)
    assert len(set(el.select(flat, name, 6, rng()).tolist())) == 6


@pytest.mark.parametrize("name", NAMES)
def test_cold_start_takes_typical_instances_of_different_clusters(name: str) -> None:
    centres = 8.0 * np.eye(4)
    features = np.concatenate([c + 0.3 * rng(1).normal(size=(20, 4)) for c in centres])
    post = el.laplace(np.zeros((5, 4)), np.zeros((0, 4)))
    pool = el.Pool(features, post)
    assert cannot_separate(pool)
    idx = el.select(pool, name, 4, rng())
    assert len(set((idx // 20).tolist())) == 4 or name == "random"
    picked = el.select(pool, name, 8, rng(), ask=lambda i: i // 20)
    assert len(set((picked // 20).tolist())) >= 3 or name == "random"


def test_with_labels_of_one_class_strategies_pick_other_clusters() -> None:
    centres = 8.0 * np.eye(3)
    features = np.concatenate([c + 0.3 * rng(1).normal(size=(20, 3)) for c in centres])
    post = el.laplace(el.fit_map(features[:3], [0, 0, 0], 3), features[:3])
    pool = el.Pool(features, post, labelled_idx=[0, 1, 2], labels=[0, 0, 0])
    assert cannot_separate(pool)
    for name in ("margin", "lookahead"):
        assert set((el.select(pool, name, 2, rng()) // 20).tolist()) == {1, 2}
    assert not cannot_separate(problem().pool)


def test_algorithm_1_by_hand() -> None:
    pool, features, labels, _ = problem()
    posterior, free, expected = pool.posterior, pool.free_idx.tolist(), []
    for _ in range(5):
        p = np.sort(el.predict_proba(posterior, features[free], "mean"), axis=1)
        i = free[int(np.argmin(p[:, -1] - p[:, -2]))]
        posterior = el.update(posterior, features[i : i + 1], labels[i : i + 1], step_size=3.0)
        free.remove(i)
        expected.append(i)
    picked = el.select(pool, "margin", 5, rng(), ask=lambda i: int(labels[i]), step_size=3.0)
    assert picked.tolist() == expected
    np.testing.assert_allclose(pool.posterior.mean, posterior.mean)


def test_candidates_limit_the_choice() -> None:
    pool, *_ = problem()
    some = pool.free_idx[[1, 5, 30]]
    assert sorted(el.select(pool, "entropy", 3, rng(), candidates=some).tolist()) == some.tolist()
    drawn = [el.select(pool, "entropy", 5, rng(s), candidates=5) for s in (1, 2)]
    assert set(drawn[0].tolist()) != set(drawn[1].tolist())
    assert len(el.select(pool, "entropy", 5, rng(), candidates=10**6)) == 5


def test_every_strategy_says_what_it_is() -> None:
    for strategy in el.strategies():
        assert all(strategy[key] for key in ("name", "meaning", "paper", "needs"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: el.select(p, "psychic", 1, rng()), "strategy is 'psychic'; expected one of 'random'"),
        (lambda p: el.select(p, "margin", 0, rng()), "n is 0"),
        (lambda p: el.select(p, "margin", 1, 3), "rng is a int"),  # type: ignore[arg-type]
        (lambda p: el.select("pool", "margin", 1, rng()), "pool is a str"),  # type: ignore[arg-type]
        (lambda p: el.select(p, "margin", 1, rng(), depth=3), "depth is not an option of strategy 'margin'"),
        (lambda p: el.select(p, "margin", 1, rng(), candidates=0), "candidates is 0"),
        (lambda p: el.select(p, "margin", 1, rng(), candidates=[1.5]), "candidates is"),
        (
            lambda p: el.select(p, "margin", 1, rng(), candidates=p.labelled_idx),
            "that are labelled or leased",
        ),
        (lambda p: el.select(p, "lookahead", 1, rng(), risk="regret"), "risk is 'regret'"),
        (lambda p: el.select(p, "lookahead", 1, rng(), n_eval=0), "n_eval is 0"),
        (lambda p: el.select(p, "margin", 1, rng(), ask=lambda i: 9), "label runs from 9 to 9"),
        (lambda p: p.add(100, 0), "idx runs from 100 to 100; expected positions 0 to 59"),
        (lambda p: p.add(1.5, 0), "idx is 1.5"),
        (lambda p: p.add(int(p.labelled_idx[0]), 0), "has label"),
        (lambda p: p.add(int(p.free_idx[0]), 3), "label runs from 3 to 3"),
        (lambda p: p.add(int(p.free_idx[0]), 0, -1.0), "weight is -1.0"),
        (lambda p: p.add(int(p.free_idx[0]), 0, step_size="big"), "step_size is 'big'"),
        (lambda p: p.add(int(p.free_idx[0]), 0, method="magic"), "method is 'magic'"),
        (lambda p: p.condition(int(p.labelled_idx[0])), "which is labelled; expected a free"),
        (lambda p: p.release(int(p.free_idx[0])), "which is free; expected a leased instance"),
        (lambda p: p.remove_label(int(p.free_idx[0])), "which is free; expected a labelled"),
        (lambda p: p.refit(el.laplace(np.zeros((3, 3)), np.zeros((1, 2)))), "posterior has 2 features"),
        (
            lambda p: el.Pool(p.features[:, :2], p.posterior),
            r"features has shape \(60, 2\); expected",
        ),
        (lambda p: el.Pool(p.features[0], p.posterior), r"features has shape \(4,\)"),
        (lambda p: el.Pool(torch.zeros(3, 4), p.posterior), "different libraries"),
        (lambda p: el.Pool(p.features * np.nan, p.posterior), "NaN or infinite values in 60 instance"),
        (lambda p: el.Pool(p.features, "posterior"), "posterior is a str"),  # type: ignore[arg-type]
        (lambda p: el.Pool(p.features, p.posterior, labelled_idx=[1]), "given together"),
        (lambda p: el.Pool(p.features, p.posterior, labelled_idx=[1, 1], labels=[0, 0]), "twice"),
        (lambda p: el.Pool(p.features.astype(complex), p.posterior), "dtype complex128"),
    ],
)
def test_bad_input_names_the_argument_and_changes_nothing(call: Any, message: str) -> None:
    pool, *_ = problem()
    state, mean = pool.state.copy(), pool.posterior.mean.copy()
    with pytest.raises(el.EverylabelError, match=message):
        call(pool)
    np.testing.assert_array_equal(pool.state, state)
    np.testing.assert_array_equal(pool.posterior.mean, mean)


@pytest.mark.parametrize(
    ("given", "method", "step"),
    [
        ({}, "second_order", "auto"),
        ({"step_size": "auto"}, "second_order", "auto"),
        ({"step_size": 2.0}, "second_order", 2.0),
        ({"method": "first_order"}, "first_order", None),
    ],
)
def test_lookahead_takes_its_own_step_by_default(given: Any, method: str, step: Any) -> None:
    pool, features, labels, _ = problem(**given)
    before, step = pool.posterior, pool.auto_step if step == "auto" else step
    i = int(el.select(pool, "lookahead", 1, rng(), ask=lambda i: int(labels[i]))[0])
    after = el.update(before, features[[i]], labels[[i]], method, step)
    np.testing.assert_array_equal(pool.posterior.mean, after.mean)
