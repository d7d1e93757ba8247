"""A pool in shards on a real Ray picks as the local pool does, and loses nothing if a worker dies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.pool import ShardPool
from everylabel.selection.pool import Where
from tests.selection.problems import Problem, problem
from tests.selection.test_view import NAMES, picks
from tests.test_examples import ON_RAY, check_example

pytest.importorskip("ray", reason="needs the extra everylabel[ray]")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of a node that was too slow


def written(features: Any, folder: Path, cuts: tuple[int, ...]) -> str:
    for number, part in enumerate(np.split(features, cuts)):
        np.save(folder / f"part-{number:06d}.npy", part)
    return str(folder)


@pytest.fixture(scope="module")
def small(ray: Any, tmp_path_factory: pytest.TempPathFactory) -> ShardedFeatures:
    made = problem()
    return ShardedFeatures(written(made.features, tmp_path_factory.mktemp("s"), (7, 20, 45)), "local", 3)


@pytest.mark.parametrize("name", sorted(ON_RAY))
def test_reference_example_runs(name: str, ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_example("everylabel.scale", name)


def twin(made: Problem, features: ShardedFeatures, **how: Any) -> ShardPool:
    given = {"labelled_idx": made.labelled, "labels": made.labels[made.labelled], **how}
    return ShardPool(features, made.pool.posterior, **given)


@pytest.mark.parametrize("likelihood", ["gaussian", "binary", "per_class"])
def test_every_strategy_picks_the_same_as_on_the_local_pool(likelihood: str, small: ShardedFeatures) -> None:
    for name in NAMES:
        made = problem(likelihood=likelihood)
        pool = twin(made, small)
        assert picks(pool, name, made) == picks(made.pool, name, made), name
        np.testing.assert_allclose(pool.posterior.mean, made.pool.posterior.mean)
        np.testing.assert_allclose(pool.logits(), made.pool.logits())
        pool.close()


@pytest.mark.parametrize(("name", "dtype"), [("margin", np.float16), ("herding", np.float32)])
def test_two_hundred_picks_and_labels_match_the_local_pool(
    name: str, dtype: Any, ray: Any, tmp_path: Path
) -> None:
    made = problem(n=1500, d=12, k=5, dtype=dtype, step_size="auto", keep_data=False)
    features = ShardedFeatures(written(made.features, tmp_path, (200, 640, 1100)), "local", 2)
    pool = twin(made, features, step_size="auto")
    found = []
    for one in (pool, made.pool):
        rng = np.random.default_rng(7)
        found.append([_label_one(one, name, made, rng) for _ in range(200)])
    assert found[0] == found[1]
    assert len(set(found[0])) == 200
    np.testing.assert_allclose(pool.logits(), made.pool.logits(), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(pool.state, made.pool.state)
    features.close()


def _label_one(pool: el.Pool, name: str, made: Problem, rng: np.random.Generator) -> int:
    i = int(el.select(pool, name, 1, rng)[0])
    pool.add(i, int(made.labels[i]))
    return i


def test_local_pool_refuses_sharded_features(small: ShardedFeatures) -> None:
    post = el.laplace(np.zeros((small.shape[1] + 1, 3)), np.zeros((0, small.shape[1])))
    with pytest.raises(el.EverylabelError, match=r"an array, or everylabel.scale.ShardPool in place"):
        el.Pool(small, post)


def test_every_change_of_an_instance_matches_the_local_pool(small: ShardedFeatures) -> None:
    made = problem(keep_data=False)
    pools = twin(made, small), made.pool
    free = [int(i) for i in made.pool.free_idx]
    for pool in pools:
        np.testing.assert_allclose(pool.variances(free[:3]), pools[1].variances(free[:3]))
        pool.condition(free[0])
        pool.add(free[0], 1)
        pool.condition(free[1])
        pool.release(free[1])
        pool.set_aside(free[2])
        pool.rule_out(free[3], [0])
        pool.remove_label(free[0])
        pool.add(free[4], 2, 0.5)
        pool.put(free[4], Where.LABELLED, 1, 0.5)
        pool.add_class()
        with pool.together():
            pool.add(free[5], 3)
            pool.add(free[6], 0)
        with pytest.raises(el.EverylabelError, match="label runs from 9 to 9"):
            pool.add(free[7], 9)
        pool.add(free[8], 3)
    shards, local = pools
    np.testing.assert_allclose(shards.logits(), local.logits(), atol=1e-10)
    np.testing.assert_allclose(shards.variances(), local.variances(), atol=1e-10)
    np.testing.assert_array_equal(shards.state, local.state)
    for name in ("margin", "variance", "entropy"):
        rngs = np.random.default_rng(0), np.random.default_rng(0)
        ours, theirs = (el.select(p, name, 5, r).tolist() for p, r in zip(pools, rngs, strict=True))
        assert ours == theirs
        assert free[2] not in ours


def test_ties_across_parts_are_broken_as_in_the_local_pool(ray: Any, tmp_path: Path) -> None:
    made = problem(n=400)
    features = np.repeat(made.features[:4], 100, axis=0)  # hundreds of equal scores
    given: dict[str, Any] = {"labelled_idx": [0], "labels": [0]}
    local = el.Pool(features, made.pool.posterior, **given)
    sharded = ShardedFeatures(written(features, tmp_path, (50, 333)), "local", 3)
    pool = ShardPool(sharded, made.pool.posterior, **given)
    for name, n in [("margin", 1), ("margin", 150), ("entropy", 1), ("entropy", 3), ("least_confident", 250)]:
        rngs = np.random.default_rng(0), np.random.default_rng(0)
        assert el.select(pool, name, n, rngs[0]).tolist() == el.select(local, name, n, rngs[1]).tolist()
    sharded.close()


def test_labels_wait_for_a_killed_actor_and_nothing_is_lost(
    ray: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waited = "an actor with shards died and was restarted"
    made = problem(n=300, step_size="auto", keep_data=False)
    sharded = ShardedFeatures(written(made.features, tmp_path, (100, 200)), "local", 3)
    pool = twin(made, sharded, step_size="auto")
    rngs = np.random.default_rng(0), np.random.default_rng(0)
    pool.variances()
    for n in range(40):
        if n in (10, 20, 30) or (n > 30 and waited not in caplog.text):  # it may be back by then
            ray.kill(sharded.actors[1], no_restart=False)
        i = _label_one(pool, "margin", made, rngs[0])
        assert _label_one(made.pool, "margin", made, rngs[1]) == i
        if n == 20:
            pool.add_class()
            made.pool.add_class()
    assert waited in caplog.text
    np.testing.assert_allclose(pool.posterior.mean, made.pool.posterior.mean)
    np.testing.assert_allclose(pool.logits(), made.pool.logits(), atol=1e-6)
    np.testing.assert_allclose(pool.variances(), made.pool.variances(), atol=1e-6)
    rngs = np.random.default_rng(1), np.random.default_rng(1)
    ours, theirs = (el.select(p, "entropy", 9, r) for p, r in zip((pool, made.pool), rngs, strict=True))
    assert ours.tolist() == theirs.tolist()
    sharded.close()
