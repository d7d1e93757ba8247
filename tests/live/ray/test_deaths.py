"""Workers and a node of a real cluster of three nodes die at random moments while labels come.

Run by `make test-ray`.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.scale.cluster import connect
from everylabel.scale.features import ShardedFeatures
from tests.live.ray.clusters import three_nodes
from tests.scale.test_pool import twin, written
from tests.selection.problems import problem

if "EVERYLABEL_RAY" not in os.environ:
    pytest.skip("three nodes of Ray: make test-ray", allow_module_level=True)

LABELS, KILLS = 400, 6


@pytest.fixture
def cluster() -> Iterator[Any]:
    with three_nodes() as (made, others):
        ray = connect(made.address)
        yield made, others, ray
        ray.shutdown()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of the processes that are killed
def test_pool_survives_killed_workers_and_node_under_load(cluster: Any, tmp_path: Path) -> None:
    made, others, ray = cluster
    known = problem(n=6000, d=16, k=6, step_size="auto", keep_data=False)
    cuts = tuple(range(1000, 6000, 1000))
    features = ShardedFeatures(written(known.features, tmp_path, cuts), made.address, 6)
    pool = twin(known, features, step_size="auto")
    done, rng = threading.Event(), np.random.default_rng(0)
    picked: list[int] = []

    def kill() -> None:
        draw = random.Random(1)
        for n in range(KILLS):
            if done.wait(draw.uniform(0.2, 1.5)):
                return
            if n == KILLS // 2:
                made.remove_node(others[0], allow_graceful=False)
            else:
                ray.kill(draw.choice(features.actors), no_restart=False)

    killer = threading.Thread(target=kill)
    killer.start()
    while len(picked) < LABELS or killer.is_alive():
        i = int(el.select(pool, "margin", 1, rng)[0])
        pool.add(i, int(known.labels[i]))
        picked.append(i)
        time.sleep(0.005)
    done.set()
    killer.join()
    assert len(set(picked)) == len(picked)  # nobody is asked twice
    for i in picked:
        known.pool.add(i, int(known.labels[i]))
    np.testing.assert_allclose(pool.posterior.mean, known.pool.posterior.mean)  # no label is lost
    np.testing.assert_allclose(pool.logits(), known.pool.logits(), atol=1e-6)
    np.testing.assert_array_equal(pool.state, known.pool.state)
    rngs = np.random.default_rng(1), np.random.default_rng(1)
    ours, theirs = (el.select(p, "entropy", 20, r) for p, r in zip((pool, known.pool), rngs, strict=True))
    assert ours.tolist() == theirs.tolist()
