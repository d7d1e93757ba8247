"""Strategies use only the members of the protocol, so they work with any kind of pool."""

import itertools
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool.view import LearningPool, PoolView
from tests.conftest import LIKELIHOODS
from tests.selection.problems import Problem, problem
from tests.selection.sharded import Sharded

NAMES = [s["name"] for s in el.strategies()]
ASKED = {name for view in (PoolView, LearningPool) for name in (*vars(view), *view.__annotations__)}

QUICK: dict[str, Any] = {"refine": {"n_batches": 9, "n_rounds": 2}}  # each proposing strategy in turn


class Only:
    """A pool of no class of ours that answers what the protocol has and nothing else."""

    def __init__(self, pool: el.Pool, names: set[str] = ASKED) -> None:
        self._pool, self._names = pool, names

    def __len__(self) -> int:
        return len(self._pool)

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(f"{name} is not in the protocol")
        return getattr(self._pool, name)


def picks(pool: Any, name: str, made: Problem) -> list[list[int]]:
    how = QUICK.get(name, {})
    found = [el.select(pool, name, 6, np.random.default_rng(3), **how)]
    found += [el.select(pool, name, 4, np.random.default_rng(4), candidates=20, **how)]
    found += [el.select(pool, name, 5, np.random.default_rng(5), ask=lambda i: int(made.labels[i]), **how)]
    return [idx.tolist() for idx in found]


def sharded(made: Problem, n: int = 4) -> Sharded:
    return Sharded(made.features, made.pool.posterior, made.labelled, made.labels[made.labelled], n)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "binary", "per_class"])
@pytest.mark.parametrize("name", NAMES)
def test_a_pool_in_parts_gets_the_picks_of_the_whole(name: str, likelihood: str) -> None:
    made = problem(likelihood=likelihood)
    parts = sharded(made)
    assert picks(parts, name, made) == picks(made.pool, name, made)
    np.testing.assert_allclose(parts.posterior.mean, made.pool.posterior.mean)


@pytest.mark.parametrize("name", NAMES)
def test_a_strategy_asks_nothing_that_is_not_in_the_protocol(name: str) -> None:
    made, twin = problem(), problem()
    assert picks(Only(made.pool), name, made) == picks(twin.pool, name, twin)


@pytest.mark.parametrize(
    ("likelihood", "batches"),
    [
        *itertools.product(["gaussian", "binary"], ["random", "clusters", "uncertain", "greedy"]),
        ("per_class", "mixed"),
    ],
)
def test_the_optimal_batch_of_a_pool_in_parts(likelihood: str, batches: str) -> None:
    made, val = problem(likelihood=likelihood), problem(likelihood=likelihood, seed=3)
    given = made.labels, val.features, val.labels, 5, 30
    found = [
        el.optimal_batch(pool, *given, rng=np.random.default_rng(0), batches=batches).tolist()
        for pool in (made.pool, sharded(made), Only(made.pool))
    ]
    assert found[0] == found[1] == found[2]


def test_parts_answer_in_the_order_asked() -> None:
    made = problem()
    parts, idx = sharded(made, 7), np.asarray([50, 3, 17, 4, 59])
    for ask in ("logits", "probs", "variances", "rows", "margins", "cov_rows"):
        np.testing.assert_allclose(getattr(parts, ask)(idx), getattr(made.pool, ask)(idx))
    inner, norms = parts.inner(idx)
    expected, sizes = made.pool.inner(idx)
    np.testing.assert_allclose(inner(made.pool.posterior.mean), expected(made.pool.posterior.mean))
    np.testing.assert_allclose(norms, sizes)


def test_error_names_what_an_object_lacks_to_be_a_pool() -> None:
    made, rng = problem(), np.random.default_rng(0)
    with pytest.raises(el.EverylabelError, match="pool is a Only, which has no margins; expected a Pool"):
        el.select(Only(made.pool, ASKED - {"margins", "add"}), "margin", 1, rng)
    with pytest.raises(el.EverylabelError, match=r"has no add, margins; expected .* another LearningPool"):
        el.select(Only(made.pool, ASKED - {"margins", "add"}), "margin", 1, rng, ask=lambda i: 0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_rows_by_the_shared_covariance_give_the_variances(likelihood: str) -> None:
    pool = problem(likelihood=likelihood, k=4).pool
    pool.add(int(pool.free_idx[0]), 1)
    idx = pool.free_idx[[3, 1, 8]]
    np.testing.assert_allclose(np.sum(pool.cov_rows(idx) * pool.rows(idx), axis=1), pool.variances(idx))
