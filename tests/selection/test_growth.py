"""An extended pool has the same numbers and picks as a pool made at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import everylabel as el
from tests.conftest import LIKELIHOODS
from tests.selection.problems import Problem, problem
from tests.selection.sharded import Sharded

NAMES = [s["name"] for s in el.strategies()]
close = np.testing.assert_allclose
FIRST = 25


def grown(made: Problem, kind: Any = np.asarray) -> tuple[el.Pool, el.Pool]:
    """Return a pool made whole and one that got its instances in four parts, both after the same changes."""
    likelihood, k = made.pool.posterior.likelihood, made.pool.n_classes
    x, y = made.features[:8], made.labels[:8]
    mean = el.fit_map(x, y, k, 0.7, binary=likelihood == "binary")
    posterior = el.laplace(kind(mean), kind(x), likelihood, 0.7)
    given: dict[str, Any] = {"labelled_idx": range(8), "labels": y, "step_size": 2.0}
    whole = el.Pool(kind(made.features), posterior, **given)
    parts = el.Pool(kind(made.features[:FIRST]), posterior, **given)
    for pool in (whole, parts):
        pool.variances()
        pool.add(9, int(made.labels[9]), 1.5)
        pool.condition(10)
        pool.set_aside(11)
    parts.extend(kind(made.features[FIRST:26]))
    parts.extend(kind(made.features[26:40]))
    for pool in (whole, parts):
        pool.add(24, int(made.labels[24]))
    with parts.together():
        parts.add(12, int(made.labels[12]))
        parts.extend(kind(made.features[40:]))  # while the logits are late
    whole.add(12, int(made.labels[12]))
    for pool in (whole, parts):
        pool.add(50, int(made.labels[50]))
        pool.remove_label(24)
    return whole, parts


def same(whole: el.Pool, parts: el.Pool, rtol: float = 1e-6) -> None:
    close(parts.logits(), whole.logits(), rtol=rtol, atol=rtol)
    close(parts.variances(), whole.variances(), rtol=rtol)
    for mine, others in ((parts.state, whole.state), (parts.labels, whole.labels)):
        np.testing.assert_array_equal(mine, others)
    np.testing.assert_array_equal(parts.weights, whole.weights)
    assert len(parts) == len(whole) == 60


def test_variances_of_those_that_join() -> None:
    made = problem()
    parts = el.Pool(made.features[:FIRST], made.pool.posterior)
    parts.variances()
    parts.extend(made.features[FIRST:])
    close(parts.variances(), el.Pool(made.features, made.pool.posterior).variances(), rtol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_an_extended_pool_is_the_whole_pool(likelihood: str) -> None:
    same(*grown(problem(likelihood=likelihood)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_grow_too(dtype: Any) -> None:
    whole, parts = grown(problem(dtype=dtype), torch.as_tensor)
    assert isinstance(parts.features, torch.Tensor)
    same(whole, parts, 1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_picks_the_same(name: str) -> None:
    made = problem()
    whole, parts = grown(made)
    shards = Sharded(made.features[:FIRST], whole.posterior, [0], [0], 3)
    shards.extend(made.features[FIRST:])
    shards.state, shards.labels, shards.auto_step = whole.state, whole.labels, whole.auto_step
    expected = el.select(whole, name, 4, np.random.default_rng(3))
    for pool in (parts, shards):
        np.testing.assert_array_equal(el.select(pool, name, 4, np.random.default_rng(3)), expected)


def test_a_mapped_file_is_left_alone_when_its_pool_grows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float16)
    np.save(tmp_path / "pool.npy", rows[:30])
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    posterior = el.laplace(np.ones((5, 3)), rows[:6].astype(float))
    pool = el.Pool(mapped, posterior)
    for at in range(30, 50, 5):
        pool.extend(rows[at : at + 5].astype(np.float64))
    assert pool.features.dtype == np.float16
    np.testing.assert_array_equal(pool.features, rows)
    close(pool.logits(), el.Pool(rows, posterior).logits(), rtol=1e-6)
    assert len(np.load(tmp_path / "pool.npy")) == 30


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (np.zeros((3, 5)), "features has shape"),
        (np.zeros((0, 4)), "at least one instance"),
        (np.full((2, 4), np.nan), "NaN or infinite values in 2 instance"),
    ],
)
def test_failed_join_changes_nothing(more: np.ndarray, message: str) -> None:
    pool = problem().pool
    pool.variances()
    before = pool.logits().copy()
    with pytest.raises(el.EverylabelError, match=message):
        pool.extend(more)
    assert len(pool) == len(pool.state) == len(pool.variances()) == 60
    np.testing.assert_array_equal(pool.logits(), before)
