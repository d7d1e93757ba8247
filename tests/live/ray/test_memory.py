"""The memory of the driver of a sharded pool does not grow with the pool: its bytes are counted.

Run by `make test-ray`.
"""

import gc
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everylabel.scale.features import ShardedFeatures
from everylabel.scale.pool import ShardPool
from tests.scale.conftest import ray
from tests.scale.test_driver_memory import choose_and_label, labelled, nothing_is_written_out, shards
from tests.selection.problems import problem

if "EVERYLABEL_RAY" not in os.environ:
    pytest.skip("pools of a million on Ray: make test-ray", allow_module_level=True)

__all__ = ["nothing_is_written_out", "ray"]
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of a node that was too slow
SMALL, LARGE = 300_000, 1_300_000
TURNS = (SMALL, LARGE, SMALL, LARGE)  # the first two load, and compile, what there is
KEPT, AT_MOST = 0.5, 1.0  # bytes an instance: less than the smallest number; the rest is what Python keeps


def held_by(act: Callable[[], Any]) -> tuple[int, int]:
    """Return how many bytes of this process an action has taken and kept, and how many at most."""
    gc.collect()
    tracemalloc.start()
    try:
        _kept = act()
        gc.collect()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_memory_of_a_pool_does_not_grow_with_instances(ray: Any, tmp_path: Path) -> None:
    posterior = problem(d=1, k=3, keep_data=False).pool.posterior
    found = {}
    for n in TURNS:
        features = ShardedFeatures(_shards(tmp_path, n), "local", 2)

        def act(features: ShardedFeatures = features) -> ShardPool:
            pool = ShardPool(features, posterior, step_size="auto")
            choose_and_label(pool)
            return pool

        found[n] = held_by(act)
        features.close()
    check(found)


def test_memory_of_the_page_does_not_grow_with_items(ray: Any, tmp_path: Path) -> None:
    found = {}
    for turn, n in enumerate(TURNS):
        folder = _shards(tmp_path / str(turn), n)
        found[n] = held_by(lambda folder=folder, n=n: labelled(folder, n))  # type: ignore[misc]
    check(found)


def _shards(folder: Path, n: int) -> str:
    place = folder / str(n)
    if not place.exists():
        place.mkdir(parents=True)
        shards(place, n)
    return str(place)


def check(found: dict[int, tuple[int, int]]) -> None:
    kept, peak = (
        (large - small) / (LARGE - SMALL) for small, large in zip(found[SMALL], found[LARGE], strict=True)
    )
    assert kept < KEPT
    assert peak < AT_MOST
