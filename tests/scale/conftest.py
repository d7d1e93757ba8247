"""Fixtures of tests of shards."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures import cache, minilm
from tests.scale.starting import started

__all__ = ["cache", "minilm"]


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A Ray of this machine, with two cores."""
    ray = started(num_cpus=2, object_store_memory=80 * 2**20)
    yield ray
    ray.shutdown()
